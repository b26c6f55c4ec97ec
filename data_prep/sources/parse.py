"""Parses a source given by the user (``PATH``, ``hub:NAME`` or a name, with ``,key=value`` options) to units."""

import functools
import glob
import math
import os
import re
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from data_prep.sources.files import FORMATS, KNOWN_NAMES, FileUnit, format_of
from data_prep.sources.formats import ReadOptions
from data_prep.sources.lines import MAX_DOCUMENT_BYTES, Limits
from data_prep.sources.shaping import choice, shape_of
from data_prep.sources.source import Source, Unit
from data_prep.sources.stdlib import LICENSE, stdlib_units
from data_prep.support.step import is_manifest
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.names import check_name, shown
from linformer_fairseq.files.walking import walk

NAMED: dict[str, Callable[[], list[Unit]]] = {"stdlib": stdlib_units}
"""Sources that are neither files nor on the hub, by the name the user writes."""

_FILE_KEYS = ("weight", "format", "field", "lines", "group", "license")
_HUB_KEYS = ("weight", "field", "lines", "group", "config", "split", "revision", "license")
MOST_COPIES = 100
"""The largest ``weight=``; a mistyped one would fill the disk."""
_ENDING = re.compile(r"(.*),([A-Za-z_]+)=([^,]*)", re.DOTALL)


def parse_source(spec: str, max_document_bytes: int = MAX_DOCUMENT_BYTES) -> Source:
    """Parse a source; checks that its files exist and begin as their names indicate.

    Args:
        spec: a file, a glob, a folder, ``hub:wikipedia``, ``hub:bookcorpus`` or ``hub:OWNER/NAME``, and any of
            ``,weight=`` ``,format=`` ``,field=`` ``,lines=`` ``,group=`` ``,license=`` (hub: ``,config=``
            ``,split=`` ``,revision=``).
        max_document_bytes: a longer document is an error.

    Raises:
        UserError: a key or value is unknown, a file does not exist, or the hub cannot be reached.
    """
    limits = Limits(max_document_bytes)
    try:
        spec.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"{shown(spec)}: this source is not UTF-8, as a manifest has to be; write it in UTF-8"
        ) from None
    place, given = split_spec(spec)
    if place in NAMED:
        _refuse_unknown(spec, given, ("weight",))
        return Source(spec, _weight(spec, given), tuple(NAMED[place]()), license=LICENSE)
    hub = place.startswith("hub:")
    _refuse_unknown(spec, given, _HUB_KEYS if hub else _FILE_KEYS)
    weight = _weight(spec, given)
    if hub:
        from data_prep.sources.hub import hub_units

        units = hub_units(place.removeprefix("hub:"), given, spec, limits)
        return Source(spec, weight, tuple(units), license=given.get("license"))
    kind = choice(spec, "format", given, FORMATS, None)
    options = ReadOptions(limits, given.get("field", "text"))
    shape = shape_of(spec, given, limits)
    paths, ignored = find_files(place, anything=kind is not None)
    files: list[Unit] = []
    kinds: set[str] = set()
    for path in paths:
        found = kind or format_of(path)
        if found is None:
            raise UserError(
                f"{path}: not of a known format ({KNOWN_NAMES}); say which it is, such as {spec},format=text"
            )
        kinds.add(found)
        files.append(FileUnit(path, found, options, shape))
    if "field" in given and kinds == {"text"}:
        raise UserError(
            f"source {spec!r}: field= is the name of a key or column, which plain text has not; leave it out"
        )
    return Source(spec, weight, tuple(files), ignored, given.get("license"))


def split_spec(spec: str) -> tuple[str, dict[str, str]]:
    """Split ``spec`` into the place and the ``key=value`` options; if a file is named ``spec``, it is the place."""
    given: dict[str, str] = {}
    place = spec
    while not os.path.lexists(place) and (match := _ENDING.fullmatch(place)):
        place, key, value = match.groups()
        if key in given:
            raise UserError(f"source {spec!r}: {key}= is given twice")
        given[key] = value
    if not place:
        raise UserError(f"source {spec!r}: no file named; expected PATH, hub:NAME or {' or '.join(NAMED)}")
    return place, given


def find_files(place: str, anything: bool = False) -> tuple[list[Path], tuple[str, ...]]:
    """The files at ``place``, sorted, each once; and the hidden files in folders, which are not read.

    Args:
        place: file, folder (with all below it) or glob (``**`` for any folders).
        anything: take files of unknown formats too.

    Raises:
        UserError: there are no files, or a folder cannot be read, or contains files of unknown formats, or what a step
            wrote; or a name is not UTF-8.
    """
    path = Path(place)
    if os.path.lexists(place):
        matches = [path]
    elif glob.has_magic(place):
        _require_readable(place)
        matches = [Path(name) for name in glob.glob(place, recursive=True)]  # noqa: PTH207 (Path.glob wants a folder)
        if "**" in place:  # the folders' files match by themselves
            matches = _each_once(match for match in matches if not match.is_dir())
        if not matches:
            raise UserError(f"{place}: no file matches this pattern")
    else:
        raise UserError(f"{place}: no such file or folder")
    found: set[Path] = set()
    ignored: list[Path] = []
    for match in matches:
        if not match.is_dir():
            found.add(match)
            continue
        contents = walk(match)
        if contents.unreadable:
            raise _cannot_be_read(*next(iter(contents.unreadable.items())))
        inside = contents.files
        ignored += contents.hidden
        strange = [] if anything else [x for x in inside if format_of(x) is None]
        if strange:
            names = ", ".join(str(x) for x in strange[:5]) + (", ..." if len(strange) > 5 else "")
            raise UserError(
                f"{match}: {len(strange)} of its {len(inside)} files are of no known format ({names}); expected "
                f"{KNOWN_NAMES}; name the files to read with a glob such as {_pattern(match)}, or say format="
            )
        if not inside:
            raise UserError(f"{match}: no files in this folder; expected {KNOWN_NAMES}")
        found.update(inside)
    if made := next((file.parent for file in sorted(found) if is_manifest(file)), None):
        raise UserError(
            f"{made}: was written by `linformer data`, and its manifest.json is no text; name the texts alone with a "
            f"glob such as {_pattern(made)}, or what they were made of"
        )
    for file in (*found, *ignored):
        check_name(file)
    return sorted(found, key=lambda x: x.parts), tuple(sorted(map(str, ignored)))


def _each_once(files: Iterable[Path]) -> list[Path]:
    """Files without those in folders that are there already: ``**`` follows links, also to a folder above them."""
    found: dict[tuple[str, str], Path] = {}
    real = functools.cache(os.path.realpath)
    for file in sorted(files, key=lambda path: (len(path.parts), path.parts)):
        found.setdefault((real(file.parent), file.name), file)
    return list(found.values())


def _require_readable(pattern: str) -> None:
    """Raise if a folder that a pattern enters cannot be read: glob leaves it out without a word.

    Raises:
        UserError: there is such a folder.
    """
    for level in (Path(pattern), *Path(pattern).parents):
        for folder in glob.glob(f"{level}/", recursive=True):  # noqa: PTH207
            try:
                os.scandir(folder).close()
            except OSError as error:
                raise _cannot_be_read(Path(folder), error.strerror or str(error)) from None
        if not glob.has_magic(str(level)):
            break  # what is above is not searched


def _pattern(folder: Path) -> str:
    """For all texts below a folder, as the shell takes it."""
    return shlex.quote(f"{glob.escape(str(folder))}/**/*.txt")


def _cannot_be_read(folder: Path, reason: str) -> UserError:
    return UserError(f"{folder}: cannot be read: {reason}; make it readable, or name the texts to read")


def _weight(spec: str, given: dict[str, str]) -> float:
    value = given.get("weight", "1")
    try:
        weight = float(value)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= MOST_COPIES:
        raise UserError(f"source {spec!r}: weight={value}: expected a number above 0, at most {MOST_COPIES}")
    return weight


def _refuse_unknown(spec: str, given: dict[str, str], known: tuple[str, ...]) -> None:
    for key, value in given.items():
        if key not in known:
            raise UserError(f"source {spec!r}: unknown key {key}=; known here: {', '.join(x + '=' for x in known)}")
        if not value:
            raise UserError(f"source {spec!r}: {key}= has no value")

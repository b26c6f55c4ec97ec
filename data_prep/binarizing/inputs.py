"""The inputs of binarization: the splits of a corpus folder, or text files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_prep.support.splits import NAMES
from data_prep.support.step import check_complete, files_of, is_manifest
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object
from linformer_fairseq.files.names import check_name
from linformer_fairseq.files.provenance import MANIFEST, sha256
from linformer_fairseq.files.signatures import COMPRESSIONS, HEAD, kind_of
from linformer_fairseq.files.text import refuse_utf16

_OTHER_FORMATS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv")


@dataclass(frozen=True)
class Inputs:
    """Text files by split, and the manifest of the corpus."""

    splits: dict[str, tuple[Path, ...]]
    corpus: dict[str, Any] | None
    """The corpus folder's manifest and its sha256; None for plain files."""


def find_inputs(paths: list[Path]) -> Inputs:
    """The splits of one corpus folder, or one split per file, named after the file.

    Raises:
        OSError: a folder cannot be read.
        UserError: a file does not exist or is compressed, a folder is among several paths, names are not distinct,
            there is no training text, or a corpus folder contains other files than text, or not all of its own.
    """
    if len(paths) == 1 and paths[0].is_dir():
        return _corpus(paths[0])
    check_text_files(paths)
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        raise UserError(f"splits are called by their files' names, and these are not distinct: {', '.join(names)}")
    return Inputs({path.stem: (path,) for path in paths}, None)


def check_text_files(paths: list[Path]) -> None:
    """Check that all paths are uncompressed files with names that can be written, and none begins as UTF-16 does.

    Raises:
        UserError: a path does not exist, is not UTF-8, is a folder, a pipe, a compressed file or UTF-16, or has records
            by its name.
    """
    for path in paths:
        if not path.exists():
            raise UserError(f"{path}: no such file or folder")
        check_name(path)
        if path.is_dir():
            raise UserError(f"{path}: is a folder; expected one corpus folder alone, or text files only")
        if not path.is_file():
            raise UserError(f"{path}: not a regular file, which can be read again; save the text to a file")
        if path.suffix.lower() in _OTHER_FORMATS:
            raise UserError(
                f"{path}: expected plain text, but by its name it has records; make a corpus of it: "
                f"linformer data corpus --out DIR {path}"
            )
        head = _head(path)
        refuse_utf16(path, head)
        if (kind := kind_of(head)) in COMPRESSIONS.values():
            raise UserError(
                f"{path}: is compressed ({kind}), plain text was expected; decompress it, or make a corpus of it with "
                "linformer data corpus, which reads .gz, .bz2, .xz and .zst"
            )


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(HEAD)


def _corpus(folder: Path) -> Inputs:
    splits = {}
    for name in NAMES:
        split = folder / name
        # not glob, which takes a folder that cannot be read for an empty one
        found = sorted(path for path in split.iterdir() if path.name[0] != ".") if split.is_dir() else []
        for path in found:
            if path.suffix != ".txt" or not path.is_file():
                raise UserError(f"{path}: expected nothing but .txt files there, as linformer data corpus writes them")
        if found:
            check_text_files(found)
            splits[name] = tuple(found)
    if "train" not in splits:
        raise UserError(f"{folder}: no train/*.txt; expected a corpus folder as linformer data corpus makes it")
    manifest = folder / MANIFEST
    if not manifest.is_file():
        return Inputs(splits, None)
    content = read_object(manifest, "build the corpus again")
    if is_manifest(manifest):
        changed = f"copy the corpus again, or remove {manifest} if the text is as you want it"
        check_complete(folder, files_of(manifest, content, changed), changed)
    return Inputs(splits, {"sha256": sha256(manifest), MANIFEST: content})

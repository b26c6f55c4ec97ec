"""Results as JSON: settings, provenance, numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from linformer_fairseq.files import provenance
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object, shortened

Record = dict[str, Any]
"""A result of `linformer analyse`, or a part of one."""
_HINT = "remove it, and make it again with `linformer analyse`"
_CONTENTS = {"sha256": "the model", "data_sha256": "the data"}
_PACKAGES = ("torch", "numpy", "transformers", "linformer-fairseq")


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write JSON with a line for each entry, since curves of a line for each number would be unreadable.

    Raises:
        OSError: it cannot be written.
    """
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in record.items()]
    write_file(path, "{\n" + ",\n".join(lines) + "\n}\n")


def read_record(path: Path, kind: str) -> Record:
    """A result of `linformer analyse`.

    Raises:
        UserError: the file cannot be read, or is none.
    """
    found = read_object(path, _HINT)
    if found.get("kind") != kind or not isinstance(found.get("settings"), dict):
        raise UserError(f"{path}: no result of `linformer analyse {kind}`")
    return found


def check_settings(path: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse to go on with, or to replace, what was made with other settings.

    Raises:
        UserError: a setting differs; it is named.
    """
    for name, value in json.loads(json.dumps(wanted)).items():
        if stored.get(name) != value:
            before, now = shortened(stored.get(name)), shortened(value)
            if name in _CONTENTS and name in stored:  # an earlier version noted no SHA-256 of the text
                told = f"{_CONTENTS[name]} has changed since it was made (SHA-256 {before} then, {now} now)"
            else:
                told = f"was made with {name} {before}, not {now}"
            raise UserError(f"{path}: {told}; choose another --out, or remove it")


def origin(command: str) -> dict[str, Any]:
    """Command, date, commit, machine and versions."""
    return {
        "command": command,
        "date": provenance.date(),
        "commit": provenance.commit(Path(__file__).resolve().parents[2]),
        "machine": provenance.machine(),
        "versions": provenance.versions(_PACKAGES),
    }


def origin_line(found: Mapping[str, Any]) -> str:
    """The same in brackets, for below a table."""
    versions = ", ".join(
        f"{name} {version}" for name, version in found["versions"].items() if version != "not installed"
    )
    return f"(`{found['command']}`; {found['date']}, commit {found['commit']}; {found['machine']}; {versions})"


def matrix_name(record: Record) -> str:
    """P, or P-bar of a Linformer."""
    return "P" if record["encoder"]["is_dense"] else "P̄"

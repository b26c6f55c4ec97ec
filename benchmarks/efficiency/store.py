"""Files of results. Long measurements are written after every step, and can be continued; others when they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from linformer_fairseq.files.atomic import check_output, write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object

Cell = dict[str, Any]


class Store:
    """Settings, provenance and cells of one command, in a JSON file.

    Args:
        path: of the file.
        kind: what is measured.
        settings: all that the cells depend on; must be the same when a run is resumed, but for ``lengths``, each of
            which has cells of its own: those of both runs are kept.
        provenance: of this run.
        resume: continue the file, if it exists. With None, a measurement cannot be continued: its file appears
            complete, with `write`.

    Raises:
        UserError: the file exists without ``resume``, or has other settings, hardware or versions.
        OSError: it cannot be written.
    """

    def __init__(
        self, path: Path, kind: str, settings: dict[str, Any], provenance: dict[str, Any], resume: bool | None = None
    ):
        self.path = path
        self._at_once = resume is not None
        self._resumed_by: dict[str, Any] | None = None
        self.content: dict[str, Any] = {"kind": kind, "settings": settings, "provenance": provenance, "cells": []}
        if path.is_dir():
            raise UserError(f"{path} is a folder; --out names a file, such as {path / (kind + '.json')}")
        if path.exists():
            if not resume:
                ways = "--resume continues it, or remove it" if self._at_once else "remove it, or give another --out"
                raise UserError(f"{path} already exists; {ways}")
            self._take_over(read(path))
        if self._at_once:
            self.write()
        else:
            check_output("--out", path)

    def _take_over(self, found: dict[str, Any]) -> None:
        ours = self.content
        if found["kind"] != ours["kind"]:
            raise UserError(f"{self.path} holds results of {found['kind']}, not of {ours['kind']}")
        plain = json.loads(json.dumps(ours["settings"]))
        before = found["settings"]
        if before.get("lengths") and plain.get("lengths"):
            plain["lengths"] = before["lengths"] = sorted({*before["lengths"], *plain["lengths"]})
        for name, value in plain.items():
            if before.get(name) != value:
                raise UserError(
                    f"{self.path} was measured with {name} {before.get(name)}, not {value}; resume with the same value"
                )
        for name in ("hardware", "versions"):
            if found["provenance"][name] != ours["provenance"][name]:
                was, now = found["provenance"][name], ours["provenance"][name]
                raise UserError(f"{self.path} was measured with {name} {was}, here it is {now}")
        self._resumed_by, self.content = ours["provenance"], found

    @property
    def cells(self) -> list[Cell]:
        """All cells of the file."""
        cells: list[Cell] = self.content["cells"]
        return cells

    def add(self, *cells: Cell) -> None:
        """Add cells, and write the file unless it is written at the end."""
        if self._resumed_by is not None:  # only now: a run that finds all cells there has measured nothing
            self.content.setdefault("resumed", []).append(self._resumed_by)
            self._resumed_by = None
        self.content["cells"] += cells
        if self._at_once:
            self.write()

    def drop(self, **wanted: Any) -> None:
        """Remove the cells with these values."""
        self.content["cells"] = [c for c in self.cells if any(c[key] != value for key, value in wanted.items())]

    def write(self) -> None:
        """Write the file atomically.

        Raises:
            OSError: it cannot be written; the error's filename is its path.
        """
        write_file(self.path, json.dumps(self.content, indent=1) + "\n")


def read(path: Path) -> dict[str, Any]:
    """The content of a file of results.

    Raises:
        UserError: it is not a file of results.
    """
    found = read_object(path)
    kinds = {"kind": str, "settings": dict, "provenance": dict, "cells": list}
    if not all(isinstance(found.get(name), kind) for name, kind in kinds.items()):
        raise UserError(f"{path} holds no results of `linformer benchmark`")
    return found


def files_of(kind: str, results: Path) -> list[Path]:
    """The files of a kind in the folder of all results."""
    return sorted((results / "efficiency").glob(f"{kind}*.json"))


def of_preset(results: Path, preset: str | None, kind: str = "inference") -> list[tuple[Path, dict[str, Any]]]:
    """The files of a preset (None: of none) of `linformer benchmark inference` or another kind, with their contents.

    Raises:
        UserError: a file of results cannot be read.
    """
    found = [(path, read(path)) for path in files_of(kind, results)]
    return [(path, result) for path, result in found if result["settings"].get("preset") == preset]

"""A folder that ``data_prep.prepare_task`` or fairseq-preprocess wrote: its labels, identifiers and manifest."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linformer_fairseq.files.dictionary import read_labels
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object


@dataclass(frozen=True)
class TaskData:
    """Labels and manifest of a task's folder."""

    folder: Path
    labels: tuple[str, ...]
    """Label number i of a model's output is labels[i]."""
    manifest: dict[str, Any]
    """Empty if the folder was made by another program, such as fairseq-preprocess."""

    @property
    def positive(self) -> int | None:
        """Number of the class whose F1 the task reports."""
        name = self.manifest.get("positive")
        return self.labels.index(name) if name in self.labels else None

    @property
    def submission(self) -> str | None:
        """File name of the submission to GLUE; None if the task is not in GLUE."""
        return self.manifest.get("submission")

    def rejected(self, split: str) -> int:
        """Number of rows of a split that are not in the folder because they are invalid."""
        return int(self.manifest.get("splits", {}).get(split, {}).get("counts", {}).get("rejected", 0))

    def require(self, split: str) -> None:
        """Raise unless the split exists.

        Raises:
            UserError: with the names of existing splits.
        """
        splits = sorted(path.stem for path in (self.folder / "input0").glob("*.idx"))
        if split not in splits:
            raise UserError(f"{self.folder}: no split {split!r}; it has: {', '.join(splits) or 'none'}")

    def identifiers(self, split: str, count: int) -> list[str]:
        """Each example's number in GLUE's files; its row, from 0, if the folder has no numbers.

        Raises:
            UserError: their number is not ``count``.
        """
        path = self.folder / "ids" / f"{split}.txt"
        if not path.is_file():
            return [str(row) for row in range(count)]
        identifiers = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        if len(identifiers) != count:
            raise UserError(f"{path}: {len(identifiers):,} lines for {count:,} examples; prepare the task again")
        return identifiers


def read_task(folder: Path) -> TaskData:
    """Read the labels and the manifest of a folder.

    Raises:
        UserError: it is not a folder of fairseq's sentence_prediction, or its manifest is damaged.
    """
    dictionaries = [folder / "input0" / "dict.txt", folder / "label" / "dict.txt"]
    for path in dictionaries:
        if not path.is_file():
            raise UserError(f"{path}: no such file; expected a task's folder, the --out of linformer data task")
    manifest = folder / "manifest.json"
    found = read_object(manifest, "prepare the task again") if manifest.is_file() else {}
    return TaskData(folder, tuple(read_labels(dictionaries[1])), found)

"""How a task's texts became inputs of a model. It is kept with the model, so that it is used as it was trained."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from linformer_fairseq.files.cuts import CUTS
from linformer_fairseq.files.cutting import smallest
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import load, read_object, shortened, write_json
from linformer_fairseq.files.provenance import MANIFEST

_EXPECTED = "expected what `linformer data task` writes"
_IMDB = "imdb"
_TEXTS = {"sst2": 1, "qnli": 2, "qqp": 2, _IMDB: 1}
_BREAK = re.compile(r"<br\s{0,9}/?>", re.IGNORECASE)
_LINE_END = re.compile(r"[\r\n]+")


@dataclass(frozen=True)
class TaskInputs:
    """The preparation of a task. The defaults are for a folder that does not say, and for models without classes."""

    task: str | None = None
    """Its name in `linformer data task`."""
    max_positions: int | None = None
    """Tokens of the longest input; None: as many as the model takes."""
    cut: str = CUTS[0]
    """What was done to longer texts: one of `CUTS`."""

    def __post_init__(self) -> None:
        if self.cut not in CUTS:
            raise ValueError(f"cut is {self.cut[:40]!r}; expected one of {', '.join(CUTS)}")
        if self.max_positions is not None and self.max_positions < (least := smallest(1)):
            raise ValueError(f"max_positions is {self.max_positions}; expected at least {least}")

    def limit(self, n: int) -> int:
        """The number of tokens of an input of a model that takes ``n``."""
        return n if self.max_positions is None else min(n, self.max_positions)

    def text(self, text: str) -> str:
        """A text as the task's were before they were tokenized."""
        return without_breaks(text) if self.task == _IMDB else text

    @property
    def texts(self) -> int | None:
        """The number of texts of an input, 2 for pairs; None if the task's name does not tell."""
        return _TEXTS.get(self.task or "")

    def write(self, folder: Path) -> None:
        """Write a manifest for `read_inputs` into the folder of a model, if there is anything to say."""
        if self != TaskInputs():
            options = {"max_positions": self.max_positions, "cut": self.cut}
            write_json(folder / MANIFEST, {"task": self.task, "options": options})


def read_inputs(folder: Path) -> TaskInputs:
    """What the manifest of a folder says.

    Args:
        folder: of a task, of a corpus, or of a model.

    Raises:
        UserError: the manifest is damaged.
    """
    path = folder / MANIFEST
    found = read_object(path, _EXPECTED) if path.is_file() else {}
    if "task" not in found:  # of a corpus
        return TaskInputs()
    options = found.get("options", {})
    if not isinstance(options, dict):
        raise UserError(f"{path}: options is {shortened(options)}; {_EXPECTED}")
    told = {"task": found["task"]} | {name: options[name] for name in ("max_positions", "cut") if name in options}
    try:
        inputs: TaskInputs = load(TaskInputs, told)
    except ValueError as error:
        raise UserError(f"{path}: {error}") from None
    return inputs


def without_breaks(text: str) -> str:
    """A review of IMDB as one line: ``<br />`` is a line break, and a run of line breaks one blank."""
    parts = (part.strip(" \t") for part in _LINE_END.split(_BREAK.sub("\n", text)))
    return " ".join(part for part in parts if part)

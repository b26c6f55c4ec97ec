"""Soft labels: the probabilities that a teacher gives to the classes of an example, to be learned beside its label."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.tasks.lines import read_lines
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.soft_labels import ROUNDING, Probabilities
from linformer_fairseq.files.tsv import tsv_line

_ID = "id"
_EXPECTED = "expected what `linformer evaluate --split train --scores --out FILE` writes"


def read_soft_labels(path: Path, labels: Sequence[str]) -> dict[str, Probabilities]:
    """Read the probabilities of the classes of texts, by the texts' ids.

    Args:
        path: a table with the column ``id`` and one for each class. Lines of one id, as of the windows of a text, are
            averaged. Other columns are left out.
        labels: the names of the classes.

    Raises:
        UserError: it is no such table; the message names the line.
    """
    if not path.is_file():
        raise UserError(f"--soft-labels {path}: no such file; {_EXPECTED}")
    sums: dict[str, npt.NDArray[np.float64]] = defaultdict(lambda: np.zeros(len(labels)))
    lines: Counter[str] = Counter()
    with path.open("rb") as stream:
        rows = read_lines(stream, str(path), "replace")  # other columns may hold anything
        header = next(rows)[1].split("\t")
        classes = [tsv_line((label,)) for label in labels]
        if wrong := [name for name in (_ID, *classes) if header.count(name) != 1]:
            found = header.count(wrong[0])
            raise UserError(
                f"{path}, line 1: expected one column {wrong[0]}, and found {found or 'none'} in "
                f"{' | '.join(header)[:200]}; {'rename or remove the others' if found else _EXPECTED}"
            )
        columns = [header.index(name) for name in classes]
        identifier = header.index(_ID)
        for number, line in rows:
            cells = line.split("\t")
            probabilities = _probabilities(cells, columns) if len(cells) == len(header) else None
            if probabilities is None:
                raise UserError(
                    f"{path}, line {number}: expected {len(header)} columns, and the probabilities of the classes "
                    f"{', '.join(labels[:5])}, which sum to 1: {line[:80]!r}"
                )
            sums[cells[identifier]] += probabilities
            lines[cells[identifier]] += 1
    return {name: (total / lines[name]).astype(np.float32) for name, total in sums.items()}


def of_examples(found: Mapping[str, Probabilities], identifiers: Sequence[str]) -> Probabilities:
    """The probabilities of examples, (examples, classes); those of other texts are left out.

    Args:
        found: from `read_soft_labels`.
        identifiers: of the examples; those of the windows of one text are equal.

    Raises:
        UserError: an example has none; the message names it.
    """
    missing = [one for one in dict.fromkeys(identifiers) if one not in found]
    if missing:
        raise UserError(
            f"--soft-labels: the table lacks {len(missing):,} of the {len(set(identifiers)):,} examples of train (the "
            f"first: {missing[0]!r}), of which ids/train.txt has the ids; {_EXPECTED}"
        )
    return np.stack([found[one] for one in identifiers])


def _probabilities(cells: Sequence[str], columns: Sequence[int]) -> npt.NDArray[np.float64] | None:
    """The probabilities of a line; None if they are none."""
    try:
        found = np.array([float(cells[column]) for column in columns])
    except ValueError:
        return None
    return found / found.sum() if (found >= 0).all() and abs(found.sum() - 1) < ROUNDING else None

"""A user's own task: one file per split, with a label, a tab and a text on each line."""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from data_prep.tasks.lines import read_lines
from data_prep.tasks.rows import SHOWN, Facts, Reject, Row, strip
from linformer_fairseq.files.dictionary import SPECIAL, classes_of
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.provenance import sha256

_HEADERS = ("label", "labels", "class", "category", "sentiment", "target")
"""Names of a column of classes."""


class TsvSource:
    """Files of labelled text; a split is called by its file's name."""

    def __init__(self, paths: list[Path], errors: str) -> None:
        """Look at the files and take the labels from the first.

        Raises:
            UserError: a file is missing, or two have the same name, or there is no train.tsv.
        """
        names = [path.stem for path in paths]
        if len(set(names)) < len(names):
            raise UserError(f"splits are called by their files' names, and these are not distinct: {names}")
        if names[0] != "train":
            raise UserError(f"{paths[0]}: the first file gives the labels and has to be train.tsv")
        for path in paths:
            if not path.is_file():
                raise UserError(f"{path}: no such file; expected lines of a label, one tab and a text")
        self._paths = paths
        self._errors = errors
        self.facts = Facts({"kind": "tsv", "files": {str(path): sha256(path) for path in paths}})
        labels: Counter[str] = Counter()
        first: Row | Reject | None = None
        for row in self._table(paths[0]):
            first = first or row
            if isinstance(row, Row) and row.label is not None:
                labels[row.label] += 1
        _require_no_header(first, labels)
        if isinstance(first, Row) and labels[str(first.label)] == 1 < len(labels) < labels.total():
            self.facts.remarks.append(
                f"{paths[0]}, line {first.line} is the only example of the class {first.label!r}; if the line has the "
                "names of the columns, remove it"
            )
        self.labels = tuple(sorted(labels))
        if not self.labels:
            raise UserError(
                f"{first}; no other line is an example either (pairs of texts are only made of the files of QNLI and "
                "QQP)"
            )
        examples = labels.total()
        if len(self.labels) > max(10, examples / 2) and all(map(_is_number, self.labels)):
            raise UserError(
                f"{paths[0]}: {examples:,} examples have {len(self.labels):,} different labels, which are numbers; "
                "expected classes (docs/training.md, Regression, says how to train on scores)"
            )

    def rows(self) -> Iterator[Row | Reject]:
        """See `Source.rows`.

        Raises:
            UserError: also where texts stand in two files: the accuracy would be too good.
        """
        owner: dict[bytes, tuple[str, str, int]] = {}  # split, file and line by a text's hash
        twice: set[bytes] = set()  # texts in two files
        again: list[str] = []  # where the first of them stand
        for path in self._paths:
            for row in self._table(path):
                if isinstance(row, Row):
                    text = blake2b(strip(row.texts[0]).encode(), digest_size=16).digest()
                    split, file, line = owner.setdefault(text, (row.split, row.file, row.line))
                    if split != row.split and text not in twice:
                        twice.add(text)
                        both = " (if these are headers, remove both)" if row.line == line == 1 else ""
                        if len(again) < SHOWN:
                            again.append(
                                f"{path}, line {row.line}, and {file}, line {line}: {row.texts[0][:60]!r}{both}"
                            )
                yield row
        if again:
            shown = "".join(f"\n  {place}" for place in again) + "\n  ..." * (len(twice) > SHOWN)
            raise UserError(
                f"texts in two files: {len(twice):,}; the accuracy would be too good, leave each out of one of "
                f"them:{shown}"
            )

    def _table(self, path: Path) -> Iterator[Row | Reject]:
        with path.open("rb") as stream:
            for number, line in read_lines(stream, str(path), self._errors):
                label, tab, text = line.partition("\t")
                if not tab or "\t" in text or not text.strip() or not label.strip():
                    yield Reject(path.stem, str(path), number, "expected a label, one tab and a text", line)
                elif label.split() != [label]:  # fairseq splits labels at blanks
                    whole = "_".join(label.split())
                    reason = f"label {label!r} has a blank in it, and must not; write it as {whole!r}, for example"
                    yield Reject(path.stem, str(path), number, reason, line)
                elif label in SPECIAL or not classes_of([label]):
                    # fairseq puts them into every dictionary, and reads none that has them twice.
                    reason = f"{label!r} is a symbol of fairseq's own; give this class another name"
                    yield Reject(path.stem, str(path), number, reason, line)
                else:
                    place = (number, 0)
                    yield Row(path.stem, place, str(number - 1), (text,), label, str(path), number, line)


def _require_no_header(first: Row | Reject | None, labels: Counter[str]) -> None:
    """Raise if the first line is the names of the columns, which would be one more class.

    Args:
        first: the first line.
        labels: of all lines.

    Raises:
        UserError: it is.
    """
    if isinstance(first, Row) and (label := str(first.label)).lower() in _HEADERS and labels[label] == 1:
        raise UserError(
            f"{first.file}, line {first.line}: {label!r} looks like the name of a column, not a class of which this "
            "were the only example; remove the line"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True

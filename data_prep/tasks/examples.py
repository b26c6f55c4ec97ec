"""Converts rows to examples: encodes, truncates, counts and sorts them."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice

import numpy as np
import numpy.typing as npt

from data_prep.tasks.rows import Reject, Row, strip
from data_prep.tokenizers import Ids, Tokenizer
from linformer_fairseq.files.cuts import CUTS, WINDOWS
from linformer_fairseq.files.cutting import positions, shorten
from linformer_fairseq.files.dictionary import EOS
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import element_type
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.files.soft_labels import Probabilities

BATCH = 2_000
"""Number of rows that are encoded at a time."""
USUAL_POSITIONS = 512
"""n of RoBERTa; without truncation, longer examples are counted."""
_SHOWN_LABELS = 10

# Left over from Windows-1252 in files that were converted as if they were Latin-1.
_C1 = re.compile("[\x80-\x9f]")


@dataclass(frozen=True)
class Limit:
    """The maximum length of examples, and what is done to longer ones."""

    positions: int | None = None
    """Maximum number of positions, including <s> and separators; None: no truncation."""
    how: str = CUTS[0]
    """One of `CUTS`. Each window is an example."""


@dataclass
class Split:
    """The examples of a split; the lists run in parallel."""

    order: list[tuple[int, int]] = field(default_factory=list)
    identifiers: list[str] = field(default_factory=list)
    ids: list[tuple[npt.NDArray[np.generic], ...]] = field(default_factory=list)
    """Ids of each text, </s> at the end, in the element type of the file to be written."""
    labels: list[str | None] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    """Rows that are cut, divided, longer than 512, with an empty text, with control characters, or rejected."""
    longest: int = 0
    """Positions of the longest example."""
    soft_labels: Probabilities | None = None
    """(examples, classes)."""

    def sort(self) -> None:
        """Bring the examples into the task's order."""
        ranks = sorted(range(len(self.order)), key=self.order.__getitem__)
        if ranks != list(range(len(ranks))):
            for name in ("order", "identifiers", "ids", "labels"):
                values = getattr(self, name)
                setattr(self, name, [values[rank] for rank in ranks])


class Repeats:
    """Texts that occur more than once: they are counted and kept, as the official files have them.

    Every example's text is remembered by a hash of 16 bytes.
    """

    def __init__(self) -> None:
        self._bits: dict[tuple[str, str | None], int] = {}
        self._of_split: dict[str, int] = {}
        """The bits of each split."""
        self._seen: dict[bytes, int] = {}
        self.duplicates: Counter[str] = Counter()
        """Examples by split whose text occurred in that split before."""

    def add(self, row: Row) -> None:
        """Note an example."""
        mark = blake2b("\0".join(row.texts).encode(), digest_size=16).digest()
        bit = self._bits.setdefault((row.split, row.label), 1 << len(self._bits))
        self._of_split[row.split] = self._of_split.get(row.split, 0) | bit
        before = self._seen.get(mark, 0)
        if before & self._of_split[row.split]:
            self.duplicates[row.split] += 1
        self._seen[mark] = before | bit

    def contradictions(self, split: str) -> int:
        """Texts of a split that carry more than one label."""
        bits = self._of_split.get(split, 0)
        return sum((mask & bits).bit_count() > 1 for mask in self._seen.values())

    def shared(self, split: str, other: str) -> int:
        """Texts that are in both splits."""
        one, two = self._of_split.get(split, 0), self._of_split.get(other, 0)
        return sum(bool(mask & one and mask & two) for mask in self._seen.values())


@dataclass
class Examples:
    """All splits of a task, and the rows that are no examples."""

    splits: dict[str, Split] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    repeats: Repeats = field(default_factory=Repeats)

    def reject(self, reject: Reject) -> None:
        """Keep a row that is no example."""
        self.rejects.append(reject)
        self.splits.setdefault(reject.split, Split()).counts["rejected"] += 1

    def first_reject(self, split: str) -> Reject | None:
        """The first row of a split that is no example."""
        return next((reject for reject in self.rejects if reject.split == split), None)


def collect(rows: Iterable[Row | Reject], labels: tuple[str, ...], tokenizer: Tokenizer, limit: Limit) -> Examples:
    """Encode every row.

    Raises:
        UserError: of the source that yields the rows, or a split in which only some rows have a label.
    """
    examples = Examples()
    usable = _usable(rows, labels, examples)
    with Progress("encoding", None) as progress:
        while batch := list(islice(usable, BATCH)):
            for row, ids in _encode(batch, tokenizer, examples):
                if not any(map(len, ids)):  # which no model classifies
                    examples.reject(row.rejected("no token: the tokenizer leaves out all characters of the text"))
                    continue
                split = examples.splits.setdefault(row.split, Split())
                for window in _fit(ids, split, limit, len(tokenizer)):
                    split.order.append(row.order)
                    split.identifiers.append(row.identifier)
                    split.labels.append(row.label)
                    split.ids.append(window)
                split.counts["with an empty text"] += not all(map(len, ids))
                split.counts["with C1 control characters"] += any(map(_C1.search, row.texts))
                split.counts["with U+FFFD"] += any("\ufffd" in text for text in row.texts)
                examples.repeats.add(row)
            progress.advance(sum(len(text.encode()) for row in batch for text in row.texts))
    for name, split in examples.splits.items():
        unlabelled = split.labels.count(None)
        if 0 < unlabelled < len(split.labels):  # fairseq takes the n-th label for that of the n-th text
            raise UserError(
                f"{name}: {unlabelled:,} of {len(split.labels):,} examples have no label; expected one for all of them "
                "or for none; leave those without one out"
            )
        split.sort()
    return examples


def _usable(rows: Iterable[Row | Reject], labels: tuple[str, ...], examples: Examples) -> Iterator[Row]:
    seen: dict[str, dict[str, tuple[str, int]]] = defaultdict(dict)  # file and line by split and identifier
    for row in rows:
        if isinstance(row, Reject):
            examples.reject(row)
            continue
        texts = tuple(map(strip, row.texts))
        reason = ""
        if not any(map(str.strip, texts)):
            reason = "no text"
        elif row.label is not None and row.label not in labels:
            more = ", ..." if len(labels) > _SHOWN_LABELS else ""
            reason = f"label {row.label!r} is none of {', '.join(labels[:_SHOWN_LABELS])}{more}"
        elif not row.identifier or row.identifier.split() != [row.identifier]:
            reason = f"{row.identifier!r} is no identifier"
        elif (first := seen[row.split].setdefault(row.identifier, (row.file, row.line))) != (row.file, row.line):
            reason = f"identifier {row.identifier!r} occurs twice, first in {first[0]}, line {first[1]}"
        if reason:
            examples.reject(row.rejected(reason))
        else:
            yield Row(row.split, row.order, row.identifier, texts, row.label, row.file, row.line, row.raw)


def _encode(batch: list[Row], tokenizer: Tokenizer, examples: Examples) -> Iterator[tuple[Row, list[Ids]]]:
    texts = [text for row in batch for text in row.texts]
    try:
        encoded = iter(tokenizer.encode_lines(texts))
    except UserError:  # one of them is no text: find out which
        yield from _encode_one_by_one(batch, tokenizer, examples)
        return
    for row in batch:
        yield row, [next(encoded) for _ in row.texts]


def _encode_one_by_one(batch: list[Row], tokenizer: Tokenizer, examples: Examples) -> Iterator[tuple[Row, list[Ids]]]:
    for row in batch:
        try:
            ids = tokenizer.encode_lines(row.texts)
        except UserError as error:
            examples.reject(row.rejected(str(error)))
        else:
            yield row, ids


def _fit(ids: list[Ids], split: Split, limit: Limit, symbols: int) -> Iterator[tuple[npt.NDArray[np.generic], ...]]:
    """Cut an example to the limit, or divide it into windows, and count."""
    fitted = [ids]
    if limit.positions is not None and positions([len(part) for part in ids]) > limit.positions:
        split.counts["divided into windows" if limit.how == WINDOWS else "cut"] += 1
        fitted = shorten(ids, limit.positions, limit.how)
    for parts in fitted:
        taken = positions([len(part) for part in parts])
        split.longest = max(split.longest, taken)
        split.counts[f"longer than {USUAL_POSITIONS}"] += taken > USUAL_POSITIONS
        yield tuple(np.append(part, EOS).astype(element_type(symbols)) for part in parts)

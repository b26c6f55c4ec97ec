"""Builds a corpus from sources: cleans, drops duplicates, splits and writes. It can be interrupted and resumed."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from data_prep.corpus.cleaning import Cleaned, Cleaning, clean, digest
from data_prep.corpus.seen import Seen
from data_prep.corpus.text_shards import ShardWriter, is_complete
from data_prep.sources.source import Errors, Record, Source, Unit
from data_prep.support.splits import NAMES, TRAIN, Shares, hash_fraction
from data_prep.support.workers import ordered_map
from linformer_fairseq.files.json_records import read_object, write_json
from linformer_fairseq.files.progress import Progress

_STATE, _SEEN = "state.json", "seen.sqlite"
_BLOCK_CHARACTERS = 1 << 20  # what a worker gets at a time
_RECORD_CHARACTERS = 200  # what even an empty record counts for, so that a block of them is not too long
_SAVE_CHARACTERS = 32 << 20  # what is cleaned, looked up and written again at most after a kill


@dataclass(frozen=True)
class CorpusOptions:
    """The options that determine the corpus, in addition to its sources."""

    shares: Shares
    cleaning: Cleaning = field(default_factory=Cleaning)
    deduplicate: Literal["documents", "paragraphs", "none"] = "documents"
    """Keep the first of equal documents; of equal paragraphs; everything."""
    errors: Errors = "strict"
    """What to do with bytes that are not UTF-8."""
    shard_bytes: int = 256 << 20
    """Size in bytes from which on the next document begins a new file."""

    def with_valid_share(self, share: float) -> "CorpusOptions":
        """A copy with another share of documents for validation."""
        return replace(self, shares=replace(self.shares, valid=share))


class _Place(NamedTuple):
    """Up to where the sources have been read."""

    repeat: int = 0
    """Sources of weight above 1 are read several times, one after the other."""
    unit: int = 0
    document: int = 0


class _Ready(NamedTuple):
    """A document as a worker returns it."""

    cleaned: Cleaned
    marks: list[bytes]
    """Digests of what must not occur twice: the document, or its paragraphs."""
    words: int
    replaced: bool
    size: int
    """Characters that were read."""


@dataclass
class Counts:
    """Counts of documents by what happened to them."""

    sources: list[Counter[str]]
    """Per source: documents read, and those left out by reason."""
    splits: dict[str, Counter[str]] = field(default_factory=lambda: {name: Counter() for name in NAMES})
    """Per split: documents, paragraphs, words, bytes written."""
    nearest: float = 1.0
    """Lowest valid share that would have held out a document of train."""


def _prepare(block: tuple[_Place, list[Record]], options: CorpusOptions) -> tuple[_Place, list[_Ready]]:
    """A worker's part: everything that looks at one document alone."""
    place, records = block
    ready = []
    for record in records:
        cleaned = clean(record.text, record.where, options.cleaning)
        marks = [cleaned.digest]
        if options.deduplicate == "paragraphs":
            marks = [digest(paragraph) for paragraph in cleaned.paragraphs]
        words = sum(len(paragraph.split()) for paragraph in cleaned.paragraphs)
        ready.append(_Ready(cleaned, marks, words, record.replaced, _size(record)))
    return place, ready


def _size(record: Record) -> int:
    return len(record.text) + _RECORD_CHARACTERS


def can_carry_on(work: Path, outputs: Path) -> bool:
    """Whether all is there that ``Run`` left; after a crash of the machine something may be missing."""
    state = work / _STATE
    if not state.is_file():
        return True
    shards = read_object(state, "delete its folder to start afresh")["shards"]
    return (work / _SEEN).is_file() and all(is_complete(outputs / name, saved) for name, saved in shards.items())


class Run:
    """One way through all sources, from wherever an earlier process got to."""

    def __init__(self, work: Path, outputs: Path, sources: list[Source], options: CorpusOptions) -> None:
        """Args:
        work: folder for what is needed to carry on.
        outputs: folder for train/, valid/ and test/.
        sources: read in this order.
        options: what to do.
        """
        self._work, self._outputs, self._options = work, outputs, options
        self._sources = sources
        self._units = [(number, unit) for number, source in enumerate(sources) for unit in source.units]
        self._place, saved = _Place(), None
        self.counts = Counts([Counter() for _ in sources])
        self._state = work / _STATE
        if self._state.is_file():
            state = read_object(self._state)
            self._place, saved = _Place(*state["place"]), state["shards"]
            self.counts = Counts(
                [Counter(counts) for counts in state["sources"]],
                {name: Counter(counts) for name, counts in state["splits"].items()},
                state["nearest"],
            )
        self._shards = {
            name: ShardWriter(outputs / name, options.shard_bytes, saved[name] if saved else None) for name in NAMES
        }

    def to_the_end(self, workers: int) -> Counts:
        """Read what is left and write it; returns the counts of all.

        Raises:
            UserError: something wrong with the input, with file and position.
        """
        unsaved = 0
        with ExitStack() as stack:
            for shard in self._shards.values():
                stack.enter_context(shard)
            self._seen = Seen(self._work / _SEEN)
            stack.callback(self._seen.close)
            self._progress = stack.enter_context(Progress("reading", self._total(), self._done()))
            ready = ordered_map(partial(_prepare, options=self._options), self._blocks(), workers)
            stack.callback(ready.close)
            for place, documents in ready:
                for number, document in enumerate(documents):
                    self._take(place._replace(document=place.document + number), document)
                    unsaved += document.size
                self._place = place._replace(document=place.document + len(documents))
                if unsaved >= _SAVE_CHARACTERS:
                    self._save()
                    unsaved = 0
            for shard in self._shards.values():
                shard.close()
        return self.counts

    def _total(self) -> int | None:
        return None if any(unit.size is None for _, unit in self._units) else self._bytes(_Place())

    def _done(self) -> int:
        """Bytes of the units that an earlier process finished, as often as it read them."""
        return self._bytes(_Place()) - self._bytes(self._place)

    def _bytes(self, start: _Place) -> int:
        return sum(unit.size or 0 for _, unit in self._repeats(start))

    def _repeats(self, start: _Place) -> Iterator[tuple[_Place, Unit]]:
        """Every unit as often as it is read, from ``start`` on."""
        highest = max(source.weight for source in self._sources)
        repeat = 0
        while repeat == 0 or repeat < highest:
            for number, (source, unit) in enumerate(self._units):
                place = _Place(repeat, number)
                if place[:2] == start[:2]:
                    place = start
                if place >= start and (repeat == 0 or self._sources[source].weight > repeat):
                    yield place, unit
            repeat += 1

    def _blocks(self) -> Iterator[tuple[_Place, list[Record]]]:
        for place, unit in self._repeats(self._place):
            block: list[Record] = []
            size = before = 0
            for record in unit.documents(self._options.errors, skip=place.document):
                block.append(record)
                size += _size(record)
                if size >= _BLOCK_CHARACTERS:
                    yield place, block
                    place = place._replace(document=place.document + len(block))
                    block, size = [], 0
                    self._progress.advance(unit.position() - before)
                    before = unit.position()
            yield place, block
            self._progress.advance(unit.position() - before)

    def _take(self, place: _Place, document: _Ready) -> None:
        """Write one document, or count why not."""
        source = self._units[place.unit][0]
        weight = self._sources[source].weight
        counts = self.counts.sources[source] if place.repeat == 0 else Counter()
        counts["documents"] += 1
        counts["replaced"] += document.replaced
        cleaned = document.cleaned
        if cleaned.dropped:
            counts[cleaned.dropped] += 1
            return
        # The document's whole text decides, so that dropping a paragraph does not move it.
        split = self._options.shares.split(cleaned.digest)
        if split != TRAIN and place.repeat:
            return
        # Before it can be a duplicate: what is left out here may still come from another source.
        if split == TRAIN and hash_fraction(cleaned.digest, "weight") >= weight - place.repeat:
            counts["left_out_by_weight"] += 1
            return
        paragraphs, words = self._fresh(place, document)
        if not paragraphs:
            counts["duplicates"] += 1
            return
        counts["duplicate_paragraphs"] += len(cleaned.paragraphs) - len(paragraphs)
        if split == TRAIN:
            self.counts.nearest = min(self.counts.nearest, self._options.shares.needed(cleaned.digest))
        written = self._shards[split].add(paragraphs)
        self.counts.splits[split].update(documents=1, paragraphs=len(paragraphs), words=words, bytes=written)

    def _fresh(self, place: _Place, document: _Ready) -> tuple[list[str], int]:
        """The paragraphs that did not occur before, and their words."""
        paragraphs = document.cleaned.paragraphs
        if self._options.deduplicate == "none":
            return paragraphs, document.words
        position = place.unit << 40 | place.document
        if self._options.deduplicate == "documents":
            return (paragraphs, document.words) if self._seen.is_first(document.marks[0], position) else ([], 0)
        here: set[bytes] = set()
        kept = []
        for paragraph, mark in zip(paragraphs, document.marks, strict=True):
            if mark not in here and self._seen.is_first(mark, position):
                kept.append(paragraph)
            here.add(mark)
        return kept, sum(len(paragraph.split()) for paragraph in kept)

    def _save(self) -> None:
        # What was seen before where we stand: a table ahead of its state does no harm, one behind it would.
        self._seen.save()
        write_json(
            self._state,
            {
                "place": self._place,
                "shards": {name: shard.save() for name, shard in self._shards.items()},
                "sources": self.counts.sources,
                "splits": self.counts.splits,
                "nearest": self.counts.nearest,
            },
        )

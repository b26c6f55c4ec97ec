"""What is made sure of once a corpus is written: enough text, and no document in two splits."""

from functools import partial
from pathlib import Path

from data_prep.corpus.cleaning import digest
from data_prep.corpus.run import CorpusOptions, Counts
from data_prep.corpus.text_shards import read_documents, shard_files
from data_prep.support.splits import NAMES, TRAIN
from data_prep.support.workers import ordered_map
from linformer_fairseq.files.errors import UserError

MINIMUM_BYTES = 20_000
"""No vocabulary can be learned from less."""


def check_amounts(counts: Counts, options: CorpusOptions) -> None:
    """Make sure that there is enough text, and something in every split that is wanted.

    Raises:
        UserError: there is not.
    """
    written = sum(counts.splits[name]["bytes"] for name in NAMES)
    if written < MINIMUM_BYTES:
        raise UserError(
            f"too little text: {written:,} bytes after removing duplicates, at least {MINIMUM_BYTES:,} are "
            "needed; give more sources"
        )
    for name in NAMES:
        if not counts.splits[name] and (name == TRAIN or getattr(options.shares, name)):
            documents = sum(counts.splits[other]["documents"] for other in NAMES)
            raise UserError(
                f"no document fell to {name}, of {documents:,}: give more sources, change the shares that are held "
                "out, or put a blank line between documents if the whole text is taken for one"
            )


def _held_out_in(path: Path, held_out: dict[bytes, str]) -> str | None:
    """What of ``held_out`` is in a file of train, for the message."""
    for document in read_documents(path):
        if (mark := digest(document)) in held_out:
            return f"{held_out[mark]}: {document[:60]!r}"
    return None


def check_disjoint(outputs: Path, workers: int) -> None:
    """Read everything that was written, and make sure that no document is in two splits.

    Raises:
        AssertionError: one is.
    """
    held_out: dict[bytes, str] = {}
    for name in NAMES[1:]:
        for path in shard_files(outputs / name):
            for mark in map(digest, read_documents(path)):
                if held_out.setdefault(mark, name) != name:
                    raise AssertionError(f"{path}: a document is in valid and in test")
    files = shard_files(outputs / TRAIN)
    for path, found in zip(
        files, ordered_map(partial(_held_out_in, held_out=held_out), files, min(workers, len(files))), strict=True
    ):
        if found is not None:
            raise AssertionError(f"{path}: a document of train is also in {found}")

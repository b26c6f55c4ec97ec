"""Assigns parts of the text to datasets; the plan depends only on the files and the number of shards."""

from dataclasses import dataclass
from pathlib import Path

from data_prep.binarizing.parts import Part, cut
from linformer_fairseq.files.errors import UserError

LARGEST_PART = 8 << 20
"""Bytes; what is lost where a run is killed is a few parts."""
PARTS_PER_SHARD = 16
"""About as many where there are so many documents: shards are then of nearly the same size, and each has its share
of every source."""
MOST_SHARDS = 1_000
"""fairseq-train takes the folders in one argument, and an epoch reads one of them."""


@dataclass(frozen=True)
class Job:
    """A part and the dataset that its items are appended to."""

    part: Part
    dataset: str
    """Path without suffix, below the output folder: ``valid``, or ``3/train``."""


def dataset_names(split: str, shards: int) -> list[str]:
    """Where the items of a split go: only train is cut into shards; the others lie in the first one's folder."""
    if shards == 1:
        return [split]
    return [f"{shard}/{split}" for shard in range(shards if split == "train" else 1)]


def check_folder(out: Path) -> None:
    """Raises:
    UserError: a name with a colon, which separates folders for fairseq.
    """
    if ":" in str(out.absolute()):
        raise UserError(
            f"--out {out.absolute()}: fairseq separates the folders of data by colons; choose a name without one"
        )


def check_shards(shards: int) -> None:
    """Raises:
    UserError: ``shards`` below 1 or above `MOST_SHARDS`.
    """
    if not 1 <= shards <= MOST_SHARDS:
        raise UserError(f"--shards {shards}: expected 1 to {MOST_SHARDS:,}")


def make_plan(splits: dict[str, tuple[Path, ...]], shards: int) -> list[Job]:
    """All parts in the order in which they are written.

    Raises:
        UserError: a file without text, or fewer documents than shards.
    """
    jobs = []
    for split, files in splits.items():
        names = dataset_names(split, shards)
        total = sum(path.stat().st_size for path in files)
        wanted = max(1, min(LARGEST_PART, total // (PARTS_PER_SHARD * len(names))))
        written = dict.fromkeys(names, 0)
        name = names[0]
        for path in files:
            for part in cut(path, wanted):
                if not part.continues:  # a document stays in one shard, the one that has least
                    name = min(names, key=written.__getitem__)
                written[name] += part.size
                jobs.append(Job(part, name))
        if empty := [name for name, size in written.items() if not size]:
            raise UserError(
                f"--shards {shards}: the {split} text has too few documents for that, {len(empty)} shards would be "
                "empty; documents are blocks of lines with an empty line between them"
            )
    return jobs

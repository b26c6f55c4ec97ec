"""A classification task from the standard library: which package does this docstring belong to?

The classes are the packages with the most docstrings. An example's text is the docstring's alone, without
the name of its module; that name may of course occur in the docstring's own words. Texts are compared
after levelling case and white space: each is there once, and one that occurs in two packages is left out.
The split is by the text's hash, and what is held out here is left out of the pretraining text as well
(``data_prep.build_corpus``).

    python -m data_prep.stdlib_packages --out DIR

writes DIR/train.tsv and DIR/valid.tsv (label, tab, text) and DIR/stats.json.
"""

import argparse
from collections import Counter, defaultdict
from pathlib import Path

from data_prep.wrapped_text import fingerprint, paragraphs
from data_prep.errors import DataError, run_program
from data_prep.files import write_json, write_text
from data_prep.splits import share
from data_prep.stdlib_source import Docstring, docstrings

CLASSES = 8
MINIMUM_CLASSES = 6
MINIMUM_CHARACTERS = 40
VALID_SHARE = 0.2
# Left out of some systems' default installation (Debian splits them off) or gone from later versions: with
# them the classes would differ from one machine to the next.
NOT_EVERYWHERE = frozenset({"distutils", "ensurepip", "idlelib", "tkinter", "turtledemo", "venv"})

Example = tuple[str, str]
"""(label, text)"""


def task_examples(
    source: list[Docstring], classes: int = CLASSES, minimum: int = 60
) -> tuple[list[Example], list[Example]]:
    """(train, valid) examples of the ``classes`` packages with the most usable docstrings.

    Args:
        source: docstrings in a fixed order.
        classes: at most so many packages.
        minimum: a package with fewer examples is no class.

    Raises:
        DataError: fewer than six packages have enough docstrings.
    """
    owners: dict[bytes, set[str]] = defaultdict(set)
    texts: dict[bytes, Example] = {}
    for item in source:
        text = " ".join(paragraphs(item.text))
        if len(text) >= MINIMUM_CHARACTERS:
            mark = fingerprint(text)
            owners[mark].add(item.package)
            texts.setdefault(mark, (item.package, text))
    single = [example for mark, example in texts.items() if len(owners[mark]) == 1]
    counts = Counter(label for label, _ in single)
    ranking = sorted(counts, key=lambda label: (-counts[label], label))
    # Underscored modules hold the pure Python twins of C modules; nobody asks for them by name.
    labels = [x for x in ranking if counts[x] >= minimum and not x.startswith("_") and x not in NOT_EVERYWHERE][
        :classes
    ]
    if len(labels) < MINIMUM_CLASSES:
        raise DataError(
            f"only {len(labels)} packages of this Python's standard library have {minimum} docstrings or "
            f"more, {MINIMUM_CLASSES} are needed; is it a complete CPython with its .py files?"
        )
    kept = [example for example in single if example[0] in labels]
    train = [x for x in kept if not is_held_out(x[1])]
    valid = [x for x in kept if is_held_out(x[1])]
    return train, valid


def is_held_out(text: str) -> bool:
    """Whether ``text`` belongs to the validation side of the task."""
    return share(fingerprint(text), "stdlib_packages") < VALID_SHARE


def held_out_marks(source: list[Docstring]) -> set[bytes]:
    """Fingerprints of the validation texts and of their paragraphs: pretraining does without them."""
    _, valid = task_examples(source)
    held = {fingerprint(text) for _, text in valid}
    marks = set(held)
    for item in source:
        blocks = paragraphs(item.text)
        if fingerprint(" ".join(blocks)) in held:
            marks.update(fingerprint(block) for block in blocks)
    return marks


def build(out: Path) -> dict[str, object]:
    """Write the task's two files and its figures to ``out``; returns the figures."""
    train, valid = task_examples(docstrings())
    for name, examples in (("train", train), ("valid", valid)):
        write_text(out / f"{name}.tsv", "".join(f"{label}\t{text}\n" for label, text in examples))
    counts = {name: Counter(label for label, _ in side) for name, side in (("train", train), ("valid", valid))}
    # What always answering the most frequent training class would score on the validation set.
    majority = max(sorted(counts["train"]), key=lambda label: counts["train"][label])
    stats: dict[str, object] = {
        "classes": sorted(counts["train"]),
        "train": dict(counts["train"]),
        "valid": dict(counts["valid"]),
        "majority_class": majority,
        "majority_accuracy": round(100 * counts["valid"][majority] / len(valid), 2),
    }
    write_json(out / "stats.json", stats)
    return stats


def main(argv: list[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(prog="python -m data_prep.stdlib_packages", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for train.tsv, valid.tsv, stats.json")
    args = parser.parse_args(argv)
    stats = build(args.out)
    for name in ("train", "valid"):
        counts = stats[name]
        assert isinstance(counts, dict)
        row = ", ".join(f"{label} {counts[label]}" for label in sorted(counts))
        print(f"{name}: {sum(counts.values()):,} docstrings: {row}")
    print(f"always answering {stats['majority_class']!r} scores {stats['majority_accuracy']} % on valid")


if __name__ == "__main__":
    run_program(main)

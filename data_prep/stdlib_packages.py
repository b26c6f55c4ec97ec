"""Make a classification task from the standard library: predict the package that a docstring belongs to.

Validation examples are left out of the source ``stdlib`` of `linformer data corpus`, so no model is pretrained on them.

    python -m data_prep.stdlib_packages --out DIR

writes DIR/train.tsv and DIR/valid.tsv (label, tab, text) and DIR/stats.json.
"""

from collections import Counter
from pathlib import Path

from data_prep.stdlib.docstrings import docstrings
from data_prep.stdlib.task import task_examples
from data_prep.support.program import program_parser, run_program
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.json_records import write_json


def build(out: Path) -> dict[str, object]:
    """Write the task's two files and its statistics to ``out``; returns the statistics."""
    train, valid = task_examples(docstrings())
    for name, examples in (("train", train), ("valid", valid)):
        write_file(out / f"{name}.tsv", "".join(f"{label}\t{text}\n" for label, text in examples))
    counts = {name: Counter(label for label, _ in side) for name, side in (("train", train), ("valid", valid))}
    # The accuracy of the most frequent training class on the validation set.
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


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """Run the program; ``prog`` is its name in the help text."""
    parser = program_parser(prog, "data_prep.stdlib_packages", __doc__)
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

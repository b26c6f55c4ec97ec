"""Turn labelled text (label, tab, text) into the folder that fairseq's sentence_prediction task reads.

    python -m data_prep.binarize_task --model DIR/sentencepiece.bpe.model --out BIN train.tsv valid.tsv

writes BIN/input0/ (texts), BIN/label/ (labels), each with dict.txt and a split per file, and the
sentencepiece model beside them. The labels are those of the first file in alphabetical order: label number
i of the model's output is line i of BIN/label/dict.txt.
"""

import argparse
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from data_prep import mmap_dataset
from data_prep.binarize import copy_tokenizer
from data_prep.errors import DataError, run_program
from data_prep.files import read_text, write_text
from data_prep.tokenizer import EOS, MODEL_NAME, SPECIAL, Tokenizer

Rows = list[tuple[str, str]]


def read_rows(path: Path) -> Rows:
    """(label, text) of every line.

    Raises:
        DataError: a line without exactly one tab, an empty field, or a label with a space.
    """
    rows = []
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        label, tab, text = line.partition("\t")
        if not tab or "\t" in text or not text.strip() or len(label.split()) != 1:
            raise DataError(f"{path}, line {number}: expected a label, one tab and a text, found {line[:80]!r}")
        rows.append((label, text))
    return rows


@dataclass(frozen=True)
class Count:
    """What was written of a split."""

    examples: int
    cut: int
    """How many of them were longer than allowed."""


def binarize_task(files: list[Path], model: Path, out: Path, max_tokens: int | None = None) -> dict[str, Count]:
    """Write one split per file to ``out``; returns what was written, by split.

    Args:
        files: tab-separated, label and text.
        model: sentencepiece model with dict.txt beside it.
        out: folder to write.
        max_tokens: keep only the beginning of longer texts, so that they have this many tokens with </s>.

    Raises:
        DataError: a bad row, a label that the first file does not have, the same text in two files, or a
            ``max_tokens`` that leaves nothing of a text.
    """
    if max_tokens is not None and max_tokens < 2:
        raise DataError(f"--max-tokens is {max_tokens}: expected at least 2, one token of the text and </s>")
    tokenizer = Tokenizer(model)
    splits = {path.stem: (path, read_rows(path)) for path in files}
    _refuse_leaks(splits)
    first = next(iter(splits.values()))[1]
    counts = Counter(label for label, _ in first)
    index = {label: len(SPECIAL) - 1 + number for number, label in enumerate(sorted(counts))}
    written = {}
    for name, (path, rows) in splits.items():
        for number, (label, _) in enumerate(rows, start=1):
            if label not in index:
                raise DataError(f"{path}, line {number}: label {label!r} is not in {files[0]} ({sorted(index)})")
        encoded = [tokenizer.encode(text) for _, text in rows]
        keep = None if max_tokens is None else max_tokens - 1
        written[name] = Count(len(rows), sum(len(ids) > len(ids[:keep]) for ids in encoded))
        items = (np.append(ids[:keep], EOS) for ids in encoded)
        mmap_dataset.write(out / "input0" / name, items, len(tokenizer))
        labels = (np.array([index[label], EOS]) for label, _ in rows)
        mmap_dataset.write(out / "label" / name, labels, len(SPECIAL) + len(index))
    write_text(out / "label" / "dict.txt", "".join(f"{label} {counts[label]}\n" for label in index))
    copy_tokenizer(tokenizer, out / "input0")
    copy_tokenizer(tokenizer, out)
    return written


def _refuse_leaks(splits: dict[str, tuple[Path, Rows]]) -> None:
    """Raise where a text stands in two splits: the accuracy would be too good."""
    owner: dict[str, tuple[str, Path, int]] = {}
    for name, (path, rows) in splits.items():
        for number, (_, text) in enumerate(rows, start=1):
            other = owner.setdefault(text, (name, path, number))
            if other[0] != name:
                raise DataError(
                    f"{path}, line {number}: this text is also in {other[1]}, line {other[2]}: {text[:60]!r}"
                )


def main(argv: list[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.binarize_task",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="tab-separated: label, text")
    parser.add_argument("--model", type=Path, required=True, help="sentencepiece model, dict.txt beside it")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="keep only the first N tokens of a text")
    args = parser.parse_args(argv)
    for name, count in binarize_task(args.files, args.model, args.out, args.max_tokens).items():
        cut = f", {count.cut:,} of them cut to {args.max_tokens} tokens" if args.max_tokens else ""
        print(f"{name}: {count.examples:,} examples{cut}")
    print(f"labels in {args.out / 'label' / 'dict.txt'}; tokenizer in {args.out / MODEL_NAME}")


if __name__ == "__main__":
    run_program(main)

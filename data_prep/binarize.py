"""Turn train.txt and valid.txt into the folder that fairseq's masked_lm task reads.

    python -m data_prep.binarize --model DIR/sentencepiece.bpe.model --out BIN train.txt valid.txt

writes BIN/train.{bin,idx} and BIN/valid.{bin,idx} (a split per file, called by the file's name), and beside
them dict.txt and the sentencepiece model, so that BIN is all a model needs to be used later. An item is one
line and ends with </s>; an empty line becomes an item of its own, </s> alone: fairseq's document separator
for --sample-break-mode complete_doc.
"""

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep import mmap_dataset
from data_prep.errors import DataError, run_program
from data_prep.files import atomic_open, read_text
from data_prep.tokenizer import EOS, MODEL_NAME, Tokenizer


def copy_tokenizer(tokenizer: Tokenizer, out: Path) -> None:
    """Put the model and its dict.txt into ``out``.

    Raises:
        DataError: there is no dict.txt beside the model.
    """
    dictionary = tokenizer.model.with_name("dict.txt")
    if not dictionary.is_file():
        raise DataError(f"{dictionary}: no such file; it is written together with {tokenizer.model.name}")
    for source, name in ((tokenizer.model, MODEL_NAME), (dictionary, "dict.txt")):
        with source.open("rb") as reader, atomic_open(out / name, "wb") as writer:
            shutil.copyfileobj(reader, writer)


def lines_to_items(text: str, tokenizer: Tokenizer) -> Iterator[npt.NDArray[np.int64]]:
    """One array of ids per line, </s> at its end."""
    for line in text.removesuffix("\n").split("\n"):
        yield np.append(tokenizer.encode(line), EOS)


def binarize(files: list[Path], model: Path, out: Path) -> dict[str, tuple[int, int]]:
    """Write one split per file to ``out``; returns items and tokens by split.

    Raises:
        DataError: a bad file or model, or two files of the same name.
    """
    names = [path.stem for path in files]
    if len(set(names)) < len(names):
        raise DataError(f"splits are called by their files' names, and these are not distinct: {names}")
    tokenizer = Tokenizer(model)
    copy_tokenizer(tokenizer, out)
    return {
        path.stem: mmap_dataset.write(out / path.stem, lines_to_items(read_text(path), tokenizer), len(tokenizer))
        for path in files
    }


def main(argv: list[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.binarize",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="text, one paragraph a line")
    parser.add_argument("--model", type=Path, required=True, help="sentencepiece model, dict.txt beside it")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    args = parser.parse_args(argv)
    for name, (items, tokens) in binarize(args.files, args.model, args.out).items():
        print(f"{name}: {items:,} items, {tokens:,} tokens")


if __name__ == "__main__":
    run_program(main)

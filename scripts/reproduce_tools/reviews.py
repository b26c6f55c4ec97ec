"""Film reviews to pretrain on: those of IMDB's training set, without their labels.

    python -m scripts.reproduce_tools.reviews --from aclImdb.tar.xz --out work/reviews.txt

Writes a text file for `linformer data corpus`: a line for each piece of a review, an empty line after each review. The
pieces of a review have about the same length, at most 330 words, so that few of them are too long for 512 tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from data_prep.support.program import program_parser, run_program
from data_prep.tasks.definitions import TASKS
from data_prep.tasks.prepare import open_source
from data_prep.tasks.rows import Row
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.option_types import count


def pieces(text: str, words: int) -> Iterator[str]:
    """The text in as few pieces of at most ``words`` words as possible, all but the last of one length."""
    every = text.split()
    number = max(1, math.ceil(len(every) / words))
    length = max(1, math.ceil(len(every) / number))
    for start in range(0, len(every), length):
        yield " ".join(every[start : start + length])


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = program_parser(None, "scripts.reproduce_tools.reviews", __doc__)
    parser.add_argument("--from", dest="source", type=Path, required=True, help="aclImdb, a folder or a tar of it")
    parser.add_argument("--out", type=Path, required=True, help="text file to write")
    parser.add_argument("--words", type=count, default=330, help="most words of a piece (%(default)s)")
    args = parser.parse_args(argv)
    rows = open_source(TASKS["imdb"], [str(args.source)], "strict").rows()
    reviews = sorted((row for row in rows if isinstance(row, Row) and row.split == "train"), key=lambda row: row.order)
    documents = [list(pieces(row.texts[0], args.words)) for row in reviews]
    write_file(args.out, "".join("\n".join(document) + "\n\n" for document in documents))
    print(f"{len(documents):,} reviews in {sum(map(len, documents)):,} pieces")


if __name__ == "__main__":
    run_program(main)

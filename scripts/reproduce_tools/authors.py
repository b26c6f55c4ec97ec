"""A task with long documents: predict which author wrote a passage.

    python -m scripts.reproduce_tools.authors --books books.txt.xz --list books.list.tsv --out work/authors

Writes train.tsv and valid.tsv for `linformer data task tsv`. Each book is in only one split, so that names
and places do not reveal the author. Every sentence shows a little of the author's style, so that reading
more than the first hundred words should help.
"""

from __future__ import annotations

import csv
import hashlib
import lzma
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from data_prep.support.program import program_parser, run_program
from data_prep.support.splits import hash_fraction
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.option_types import count


def read_books(books: Path, listed: Path) -> dict[str, dict[str, list[str]]]:
    """Paragraphs by author and title.

    Args:
        books: .xz of text, one paragraph a line, a blank line between books.
        listed: tab-separated, a line for each book in their order: author, title, number of paragraphs.

    Raises:
        UserError: the two files do not match.
    """
    found: dict[str, dict[str, list[str]]] = defaultdict(dict)
    with listed.open(encoding="utf-8", newline="") as stream:
        titles = list(csv.reader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    with lzma.open(books, "rt", encoding="utf-8") as text:
        bodies = list(_documents(text))
    if [len(body) for body in bodies] != [int(title[2]) for title in titles]:
        raise UserError(f"{listed} does not list the books of {books}: their numbers of paragraphs differ")
    for (author, title, _), body in zip(titles, bodies, strict=True):
        found[author][title] = body
    return found


def _documents(lines: Iterator[str]) -> Iterator[list[str]]:
    body: list[str] = []
    for line in lines:
        if line.strip():
            body.append(line.strip())
        elif body:
            yield body
            body = []
    if body:
        yield body


def passages(paragraphs: list[str], words: int) -> Iterator[str]:
    """The text in pieces of ``words`` words; a shorter rest at the end is dropped."""
    every = " ".join(paragraphs).split()
    for start in range(0, len(every) - words + 1, words):
        yield " ".join(every[start : start + words])


def split(books: dict[str, dict[str, list[str]]], authors: int, words: int) -> dict[str, list[tuple[str, str]]]:
    """Authors and passages by split; within a split, all authors have the same number of passages.

    A quarter of an author's books, at least one, is held out, by the hashes of the titles.

    Raises:
        UserError: fewer authors than wanted have three books.
    """
    usable = sorted((name for name, titles in books.items() if len(titles) >= 3), key=lambda name: _size(books[name]))
    if len(usable) < authors:
        raise UserError(f"--authors {authors}: {len(usable)} authors have three books or more")
    found: dict[str, list[list[tuple[str, str]]]] = {"train": [], "valid": []}
    for name in usable[-authors:]:
        titles = sorted(books[name], key=_drawn)
        held = titles[: max(1, len(titles) // 4)]
        for part, chosen in (("valid", held), ("train", titles[len(held) :])):
            label = name.replace(" ", "_")  # a dictionary's symbols have no blanks
            found[part].append([(label, piece) for title in chosen for piece in passages(books[name][title], words)])
    evened = {}
    for part, by_author in found.items():
        most = min(map(len, by_author))
        evened[part] = [row for rows in by_author for row in sorted(rows, key=lambda row: _drawn(row[1]))[:most]]
    return evened


def _drawn(text: str) -> float:
    return hash_fraction(hashlib.sha256(text.encode()).digest(), "authors")


def _size(titles: dict[str, list[str]]) -> int:
    return sum(len(paragraph) for body in titles.values() for paragraph in body)


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = program_parser(None, "scripts.reproduce_tools.authors", __doc__)
    parser.add_argument("--books", type=Path, required=True, help="text of the books, see the README of the data")
    parser.add_argument("--list", type=Path, required=True, help="their authors and titles")
    parser.add_argument("--out", type=Path, required=True, help="folder for train.tsv and valid.tsv")
    parser.add_argument("--authors", type=count, default=12, help="those with the most text (%(default)s)")
    parser.add_argument("--words", type=count, default=1500, help="words of a passage (%(default)s)")
    args = parser.parse_args(argv)
    rows = split(read_books(args.books, args.list), args.authors, args.words)
    for part, found in rows.items():
        write_file(args.out / f"{part}.tsv", "".join(f"{name}\t{piece}\n" for name, piece in found))
        print(f"{part}: {len(found):,} passages of {args.words:,} words by {len({name for name, _ in found})} authors")


if __name__ == "__main__":
    run_program(main)

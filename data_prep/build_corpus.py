"""Build the text of a pretraining corpus: train.txt and valid.txt, split by document, de-duplicated.

    python -m data_prep.build_corpus --out DIR                    the standard library's English
    python -m data_prep.build_corpus --out DIR --text FILE...     your own UTF-8 text

The output has one paragraph per line and an empty line between documents. A document of the standard
library is a topic of pydoc_data.topics or all docstrings of one module; of a text of your own it is a block
of lines between blank lines. A paragraph is kept where it occurs first, and a document's own hash decides
whether it goes to valid, whatever else is there. DIR/stats.json holds the counts.
"""

import argparse
from itertools import groupby
from pathlib import Path

from data_prep.documents import Document, deduplicate, fingerprint, paragraphs, split
from data_prep.errors import DataError, run_program
from data_prep.files import read_text, write_json, write_text
from data_prep.stdlib_packages import held_out_marks
from data_prep.stdlib_source import docstrings, topics

MINIMUM_CHARACTERS = 20_000
VALID_SHARE = 0.06


def stdlib_documents() -> list[Document]:
    """The standard library's text, without what the classification task holds out."""
    found = [Document(f"topic/{name}", tuple(paragraphs(text))) for name, text in topics().items()]
    source = docstrings()
    held_out = held_out_marks(source)
    for module, items in groupby(source, key=lambda item: item.module):
        blocks = [block for item in items for block in paragraphs(item.text)]
        found.append(Document(f"module/{module}", tuple(blocks)))
    return [
        Document(document.name, tuple(p for p in document.paragraphs if fingerprint(p) not in held_out))
        for document in found
    ]


def own_documents(files: list[Path]) -> list[Document]:
    """One document per blank-line-separated block of each file.

    Raises:
        DataError: a file is missing, empty or not UTF-8.
    """
    return [
        Document(f"{path.name}/{number}", (block,))
        for path in files
        for number, block in enumerate(paragraphs(read_text(path)), start=1)
    ]


def build(out: Path, documents: list[Document], valid_share: float = VALID_SHARE) -> dict[str, int]:
    """Write ``train.txt``, ``valid.txt`` and ``stats.json`` to ``out``; returns the counts.

    Raises:
        DataError: too little text is left, or fewer than two documents.
    """
    kept, dropped = deduplicate(documents)
    characters = sum(map(len, kept))
    if characters < MINIMUM_CHARACTERS:
        raise DataError(
            f"too little text: {characters:,} characters after removing duplicates, at least "
            f"{MINIMUM_CHARACTERS:,} are needed; give more files with --text"
        )
    if len(kept) < 2:
        raise DataError(
            "the text is one single document, and train and valid need one each: put a blank line between "
            "documents (paragraphs will do)"
        )
    train, valid = split(kept, valid_share)
    stats = {"duplicate_paragraphs": dropped}
    for name, side in (("train", train), ("valid", valid)):
        text = "\n".join("".join(f"{p}\n" for p in document.paragraphs) for document in side)
        write_text(out / f"{name}.txt", text)
        stats |= {
            f"{name}_documents": len(side),
            f"{name}_paragraphs": sum(len(document.paragraphs) for document in side),
            f"{name}_words": len(text.split()),
            f"{name}_bytes": len(text.encode()),
        }
    write_json(out / "stats.json", stats)
    return stats


def main(argv: list[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.build_corpus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for train.txt, valid.txt, stats.json")
    parser.add_argument("--text", type=Path, nargs="+", metavar="FILE", help="UTF-8 text files of your own")
    parser.add_argument(
        "--valid-share", type=float, default=VALID_SHARE, help="share of the documents held out (%(default)s)"
    )
    args = parser.parse_args(argv)
    if not 0 < args.valid_share < 1:
        raise DataError(f"--valid-share {args.valid_share}: a number between 0 and 1 was expected")
    documents = own_documents(args.text) if args.text else stdlib_documents()
    stats = build(args.out, documents, args.valid_share)
    for name in ("train", "valid"):
        print(
            f"{name}: {stats[f'{name}_documents']:,} documents, {stats[f'{name}_paragraphs']:,} paragraphs, "
            f"{stats[f'{name}_words']:,} words, {stats[f'{name}_bytes'] / 1e6:.2f} MB"
        )
    print(f"left out: {stats['duplicate_paragraphs']:,} paragraphs that occur earlier in the text")


if __name__ == "__main__":
    run_program(main)

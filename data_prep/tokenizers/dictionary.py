"""fairseq's dict.txt: one symbol and its count a line, in the order of the ids.

Neither the first four symbols nor ``<mask>`` are in the file: ``fairseq.data.Dictionary`` begins with the former, and
its masked_lm and sentence_prediction tasks add the latter at the end. Only a padded dictionary has ``<mask>``, in front
of what it is padded with, so that its id is the same as without padding.
"""

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

from data_prep.support.errors import DataError
from data_prep.support.files import atomic_open, read_text

BOS, PAD, EOS, UNK = 0, 1, 2, 3
"""Ids that every ``fairseq.data.Dictionary`` begins with; the lines of dict.txt follow from 4."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
FIRST = 4
"""Id of the first line of dict.txt."""
NAME = "dict.txt"
MASK = SPECIAL[-1]
MULTIPLE = 8
"""What `pad` makes the number of symbols a multiple of: GPUs multiply aligned matrices faster."""

# What fairseq fills a dictionary up with to a multiple of some number; no tokenizer makes it.
_FILLER = re.compile(r"madeupword\d{4,}")


def read(path: Path) -> list[str]:
    """The symbols of a dict.txt, in order.

    Raises:
        DataError: no such file, or a line that fairseq would not read.
    """
    symbols = []
    # fairseq opens the file as text: \r ends a line there too.
    for number, line in enumerate(re.split("\r\n|\r|\n", read_text(path).removesuffix("\n")), start=1):
        symbol, space, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not space or not symbol or not count.isdecimal():
            raise DataError(f"{path}, line {number}: expected a symbol, a blank and its count, found {line[:80]!r}")
        symbols.append(symbol)
    return symbols


def index(path: Path, pieces: Iterable[str]) -> dict[str, int]:
    """fairseq's id of every piece of a tokenizer, and of fillers in front of ``<mask>``; not of padding behind it.

    Args:
        path: dict.txt.
        pieces: all that the tokenizer can make.

    Raises:
        DataError: the file has a symbol twice, lacks a piece, or has symbols that are no pieces.
    """
    symbols = read(path)
    ids = {symbol: FIRST + number for number, symbol in enumerate(symbols)}
    if len(ids) < len(symbols):
        twice = next(symbol for number, symbol in enumerate(symbols) if ids[symbol] != FIRST + number)
        raise DataError(f"{path}: the symbol {twice!r} stands there twice")
    if MASK in ids and all(map(_FILLER.fullmatch, symbols[symbols.index(MASK) + 1 :])):
        del symbols[symbols.index(MASK) :]
        ids = dict(itertools.islice(ids.items(), len(symbols)))
    pieces = set(pieces)
    missing = pieces - ids.keys()
    foreign = [symbol for symbol in symbols if symbol not in pieces and not _FILLER.fullmatch(symbol)]
    if missing or foreign:
        examples = ", ".join(repr(x) for x in (sorted(missing) or foreign)[:3])
        what = (
            f"{len(missing):,} of {len(pieces):,} pieces are not in it" if missing else f"it has {len(foreign):,} more"
        )
        raise DataError(
            f"{path}: this dictionary does not fit the tokenizer beside it: {what}, such as {examples}; "
            "take the dict.txt that was written together with the tokenizer"
        )
    return ids


def write(path: Path, counts: Iterable[tuple[str, int]]) -> None:
    """Write a dict.txt from (symbol, count) in the order of the ids."""
    with atomic_open(path) as stream:
        stream.writelines(f"{symbol} {count}\n" for symbol, count in counts)


def pad(path: Path) -> None:
    """Extend a dict.txt so that fairseq's tasks count a multiple of 8 symbols; every symbol keeps its id.

    ``<mask>``, which the tasks would put behind the padding, is written in front of it. The padding has fairseq's
    names, ``madeupword0000`` and so on. A dictionary that is padded stays as it is.

    Raises:
        DataError: no such file, or a line that fairseq would not read.
    """
    symbols = read(path)
    added = [] if MASK in symbols else [MASK]
    names = (f"madeupword{number:04d}" for number in itertools.count())
    missing = -(FIRST + len(symbols) + len(added)) % MULTIPLE
    added += itertools.islice((name for name in names if name not in symbols), missing)
    text = read_text(path)
    with atomic_open(path) as stream:
        stream.write(text if text.endswith("\n") or not text else text + "\n")
        stream.writelines(f"{symbol} 0\n" for symbol in added)

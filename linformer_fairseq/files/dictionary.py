"""fairseq's dict.txt: one symbol and its count a line, in the order of the ids.

The first four symbols of every ``fairseq.data.Dictionary`` are not in the file. Nor is ``<mask>``, which the tasks
masked_lm and sentence_prediction add at the end: only a padded dictionary has it, in front of what it is padded with,
so that its id is the same as without padding.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.text import read_text

NAME = "dict.txt"
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
"""The symbols that every dictionary begins with."""
BOS, PAD, EOS, UNK = range(len(SPECIAL))
"""Their ids."""
FIRST = len(SPECIAL)
"""Id of the first line of dict.txt."""
MASK = "<mask>"
MULTIPLE = 8
"""What the number of symbols is padded to a multiple of: 8 half-precision numbers are 16 bytes, the alignment of
matrices for the tensor cores of GPUs."""

_OVERWRITE = " #fairseq:overwrite"
"""At the end of a line: the symbol may stand in the file before, and has this line's id."""

_FILLER = re.compile(r"madeupword\d{4,}")


def is_filler(symbol: str) -> bool:
    """Whether fairseq filled up a dictionary with it, to a multiple of some number of symbols.

    No tokenizer makes it, and it names no class.
    """
    return _FILLER.fullmatch(symbol) is not None


def filler_names() -> Iterator[str]:
    """The names of such symbols, in fairseq's order, without end."""
    return map("madeupword{:04d}".format, itertools.count())


def find_dictionary(folder: Path) -> Path | None:
    """The dictionary of a folder of data, a task's ``input0/dict.txt`` or ``dict.txt``; None if there is neither.

    The former comes first, since fairseq reads a task's data with it.
    """
    return next((path for path in (folder / "input0" / NAME, folder / NAME) if path.is_file()), None)


def read_symbols(path: Path) -> list[str]:
    """The symbols of a dict.txt, in the order of their ids from `FIRST` on.

    Raises:
        UserError: no such file, a line that fairseq would not read, or a byte order mark, which it would read.
    """
    symbols, seen = [], set(SPECIAL)
    # fairseq opens the file as text: \r ends a line there too.
    lines = re.split("\r\n|\r|\n", read_text(path, mark=False))
    for number, line in enumerate(lines if lines[-1] else lines[:-1], start=1):
        text = line.removesuffix(_OVERWRITE)
        symbol, space, count = text.rpartition(" ")
        if not space or not symbol or not count.isdecimal():
            raise UserError(f"{path}, line {number}: expected a symbol, a blank and its count, found {line[:80]!r}")
        if symbol in seen and text == line:
            what = "is one of fairseq's own" if symbol in SPECIAL else "stands there twice"
            raise UserError(f"{path}, line {number}: the symbol {symbol[:80]!r} {what}")
        symbols.append(symbol)
        seen.add(symbol)
    return symbols


def read_vocabulary(path: Path) -> list[str]:
    """All symbols that masked_lm and sentence_prediction have, in the order of their ids, ``<mask>`` among them.

    Raises:
        UserError: see `read_symbols`.
    """
    symbols = [*SPECIAL, *read_symbols(path)]
    return symbols if MASK in symbols else [*symbols, MASK]


def read_labels(path: Path) -> list[str]:
    """The classes of a label dictionary, in the order of a model's outputs.

    Raises:
        UserError: see `read_symbols`.
    """
    return classes_of(read_symbols(path))


def classes_of(symbols: Sequence[str]) -> list[str]:
    """The classes among the symbols of a label dictionary, without what fairseq added behind them."""
    labels = list(symbols)
    while labels and (labels[-1] == MASK or is_filler(labels[-1])):
        labels.pop()
    return labels


def without_padding(symbols: Sequence[str]) -> list[str]:
    """Symbols without the fillers behind ``<mask>``, with which `pad` fills up a dictionary.

    Fillers in front of ``<mask>``, as RoBERTa's dictionary has three, are symbols like others.
    """
    end = symbols.index(MASK) + 1 if MASK in symbols else len(symbols)
    return list(symbols[:end] if all(map(is_filler, symbols[end:])) else symbols)


def embedding_rows(path: Path, linformer: bool) -> int:
    """Rows of the token embedding of a model built for a dict.txt.

    Args:
        path: the dictionary.
        linformer: whether it is this project's model, which has no rows for padding; fairseq's RoBERTa has.

    Raises:
        UserError: see `read_symbols`.
    """
    symbols = read_vocabulary(path)
    return len(without_padding(symbols) if linformer else symbols)


def index(path: Path, pieces: Iterable[str]) -> dict[str, int]:
    """fairseq's id of every piece of a tokenizer, and of fillers in front of ``<mask>``; not of padding behind it.

    Args:
        path: dict.txt.
        pieces: all that the tokenizer can make.

    Raises:
        UserError: the file has a symbol twice, lacks a piece, or has symbols that are no pieces.
    """
    symbols = read_symbols(path)
    ids = {symbol: FIRST + number for number, symbol in enumerate(symbols)}
    if len(ids) < len(symbols):
        twice = next(symbol for number, symbol in enumerate(symbols) if ids[symbol] != FIRST + number)
        raise UserError(f"{path}: the symbol {twice!r} stands there twice")
    real = without_padding(symbols)
    if real[-1] == MASK:
        real.pop()
    ids = {symbol: ids[symbol] for symbol in real}
    pieces = set(pieces)
    missing = pieces - ids.keys()
    foreign = [symbol for symbol in real if symbol not in pieces and not is_filler(symbol)]
    if missing or foreign:
        examples = ", ".join(repr(x) for x in (sorted(missing) or foreign)[:3])
        what = (
            f"{len(missing):,} of {len(pieces):,} pieces are not in it" if missing else f"it has {len(foreign):,} more"
        )
        raise UserError(
            f"{path}: this dictionary does not fit the tokenizer beside it: {what}, such as {examples}; "
            "take the dict.txt that was written together with the tokenizer"
        )
    return ids


def write(path: Path, counts: Iterable[tuple[str, int]]) -> None:
    """Write a dict.txt from (symbol, count) in the order of the ids.

    Raises:
        OSError: it cannot be written.
    """
    with atomic_open(path) as stream:
        stream.writelines(f"{symbol} {count}\n" for symbol, count in counts)


def pad(path: Path) -> None:
    """Extend a dict.txt so that fairseq's tasks count a multiple of 8 symbols; every symbol keeps its id.

    ``<mask>``, which the tasks would put behind the padding, is written in front of it. The padding has fairseq's
    names, ``madeupword0000`` and so on. A dictionary that is padded stays as it is.

    Raises:
        UserError: see `read_symbols`.
        OSError: it cannot be written.
    """
    symbols = read_symbols(path)
    added = [] if MASK in symbols else [MASK]
    missing = -(FIRST + len(symbols) + len(added)) % MULTIPLE
    added += itertools.islice((name for name in filler_names() if name not in symbols), missing)
    text = read_text(path)
    with atomic_open(path) as stream:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.writelines(f"{symbol} 0\n" for symbol in added)

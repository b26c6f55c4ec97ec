"""Reading fairseq's dict.txt without fairseq."""

import re
from collections.abc import Sequence
from pathlib import Path

MASK = "<mask>"
_FIRST = ("<s>", "<pad>", "</s>", "<unk>")
# What a dictionary is filled up with to a multiple of some number; it stands for no token.
_FILLER = re.compile(r"madeupword\d{4,}")


def read_symbols(path: Path) -> list[str]:
    """The symbols in the order of their ids; the four that every dictionary begins with are not in the file.

    Raises:
        UnicodeDecodeError: not UTF-8.
    """
    with path.open(encoding="utf-8") as stream:
        lines = (line.rstrip("\n").removesuffix(" #fairseq:overwrite") for line in stream)
        return [line.rpartition(" ")[0] for line in lines]


def read_vocabulary(path: Path) -> list[str]:
    """All symbols that fairseq's masked_lm and sentence_prediction tasks have, in the order of their ids.

    They add ``<mask>`` at the end, where the file does not have it.

    Raises:
        UnicodeDecodeError: not UTF-8.
    """
    symbols = [*_FIRST, *read_symbols(path)]
    return symbols if MASK in symbols else [*symbols, MASK]


def without_padding(symbols: Sequence[str]) -> list[str]:
    """A vocabulary without the fillers that ``binarize --pad-vocabulary`` puts behind ``<mask>``.

    Fillers in front of ``<mask>``, as RoBERTa's dictionary has three, are symbols like others.
    """
    end = symbols.index(MASK) + 1 if MASK in symbols else len(symbols)
    return list(symbols[:end] if all(map(_FILLER.fullmatch, symbols[end:])) else symbols)


def embedding_rows(path: Path, linformer: bool) -> int:
    """Rows of the token embedding of a model built for a dict.txt.

    Args:
        path: the dictionary.
        linformer: whether it is this project's model, which has no rows for padding; fairseq's RoBERTa has.

    Raises:
        UnicodeDecodeError: not UTF-8.
    """
    symbols = read_vocabulary(path)
    return len(without_padding(symbols) if linformer else symbols)

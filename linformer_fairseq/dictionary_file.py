"""Reading fairseq's dict.txt without fairseq."""

from collections.abc import Collection
from pathlib import Path

_OWN = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def read_symbols(path: Path) -> list[str]:
    """The symbols in the order of their ids; the four that every dictionary begins with are not in the file.

    Raises:
        UnicodeDecodeError: not UTF-8.
    """
    with path.open(encoding="utf-8") as stream:
        lines = (line.rstrip("\n").removesuffix(" #fairseq:overwrite") for line in stream)
        return [line.rpartition(" ")[0] for line in lines]


def vocabulary_size(symbols: Collection[str]) -> int:
    """Rows of the model's embedding: the symbols of the file, and those of fairseq's own that it does not have.

    ``<mask>`` is one of them: tasks add it, and it is in the file where a task's dictionary was saved.
    """
    return len(symbols) + sum(symbol not in symbols for symbol in _OWN)

"""Reading fairseq's dict.txt without fairseq."""

from pathlib import Path


def read_symbols(path: Path) -> list[str]:
    """The symbols in the order of their ids; the four that every dictionary begins with are not in the file.

    Raises:
        UnicodeDecodeError: not UTF-8.
    """
    with path.open(encoding="utf-8") as stream:
        lines = (line.rstrip("\n").removesuffix(" #fairseq:overwrite") for line in stream)
        return [line.rpartition(" ")[0] for line in lines]

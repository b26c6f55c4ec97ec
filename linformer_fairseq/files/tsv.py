"""Lines of tables whose columns are divided by tabs."""

from collections.abc import Iterable

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def tsv_line(cells: Iterable[str]) -> str:
    """The cells with tabs between them; tabs and ends of lines in them are written as ``\\t``, ``\\n`` and ``\\r``."""
    return "\t".join(cell.translate(_ESCAPES) for cell in cells)

"""Markdown tables, and links to files.

The package ``tabulate`` is not used because it pads every column of a table to its longest cell, so that one new figure
changes all lines of a stored table, and because it leaves a ``|`` inside a cell unescaped.
"""

from collections.abc import Container, Sequence
from pathlib import Path
from urllib.parse import quote


def markdown_table(
    rows: Sequence[Sequence[str]], left: Container[int] = (0,), padded: bool = False, gap: str = " "
) -> list[str]:
    """Return the lines of a Markdown table.

    Args:
        rows: the head and at least one cell; all rows are equally long.
        left: indices of the columns that are aligned left; the others are aligned right.
        padded: whether cells are padded to equal widths, so that the table is also readable as plain text.
        gap: what separates the rule below the head of an unpadded table from its bars.
    """
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    if padded:
        widths, gap = [max(map(len, column)) for column in zip(*cells, strict=True)], ""
        cells = [[f"{cell:{'<' if i in left else '>'}{widths[i]}}" for i, cell in enumerate(row)] for row in cells]
        rule = ["-" * (width + 2) if i in left else "-" * (width + 1) + ":" for i, width in enumerate(widths)]
    else:
        rule = ["---" if i in left else "---:" for i in range(len(cells[0]))]
    head, *body = [f"| {' | '.join(row)} |" for row in cells]
    return [head, f"|{gap}{f'{gap}|{gap}'.join(rule)}{gap}|", *body]


def link(text: str, path: Path) -> str:
    """A link to a file, whose path may have spaces and brackets."""
    return f"[{text}]({quote(path.as_posix())})"


def picture(text: str, path: Path) -> str:
    """A picture, likewise."""
    return f"!{link(text, path)}"

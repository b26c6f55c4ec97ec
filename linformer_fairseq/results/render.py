"""Tables as Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from linformer_fairseq.results.table2 import Table

_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def markdown(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Tables that read well as plain text too, and the notes as a list."""
    parts = [f"**{table.title}**\n\n{_markdown_rows(table.rows)}" for table in tables]
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def _markdown_rows(rows: Sequence[Sequence[str]]) -> str:
    rows = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def latex(tables: Sequence[Table], notes: Sequence[str]) -> str:
    r"""A ``table`` for each, and the notes as a paragraph; needs ``\usepackage{booktabs}``."""
    lines = [r"% \usepackage{booktabs}"]
    for table in tables:
        lines += [r"\begin{table}", r"\centering", rf"\caption{{{_escape(table.title)}}}"]
        lines += [rf"\begin{{tabular}}{{{'l' * len(table.rows[0])}}}", r"\toprule"]
        for number, row in enumerate(table.rows):
            lines += [r"\midrule"] * (number == 1)
            lines.append(" & ".join(map(_escape, row)) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", r"\end{table}", ""]
    return "\n".join([*lines, r"\par\noindent", *map(_escape, notes)]) + "\n"


def _escape(text: str) -> str:
    return "".join(_LATEX.get(sign, sign) for sign in text)

"""Tables as Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Sequence

from linformer_fairseq.files.markdown import markdown_table
from linformer_fairseq.results.tables import Table

_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def markdown(tables: Sequence[Table], notes: Sequence[str]) -> str:
    """Tables that are also readable as plain text, and the notes as a list."""
    parts = []
    for table in tables:
        columns = range(len(table.rows[0]))
        parts.append("\n".join([f"**{table.title}**", "", *markdown_table(table.rows, left=columns, padded=True)]))
    return "\n\n".join([*parts, "\n".join(f"- {note}" for note in notes)]) + "\n"


def latex(tables: Sequence[Table], notes: Sequence[str]) -> str:
    r"""A ``table`` for each table, and the notes as a paragraph; needs ``\usepackage{booktabs}``."""
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

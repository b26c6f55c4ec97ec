"""Sections as one HTML file that needs no other file, no network and no script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from linformer_fairseq import web
from linformer_fairseq.report.section import Part, Section
from linformer_fairseq.results.paper import SOURCE

_FOLDER = Path(__file__).parent
_TYPES = {".svg": "image/svg+xml", ".png": "image/png"}
"""Kinds of pictures; where there are several of a name, the first counts."""
MARK = "<title>Linformer: the paper's results beside ours</title>"
"""In each page."""
_BOX = '<{} class="box" tabindex="0" role="region" aria-label="{}">'
"""A frame that scrolls, also by the keyboard."""


def html(sections: Sequence[Section], results: Path) -> str:
    """The page.

    Args:
        sections: in their order.
        results: folder that the paths of pictures are relative to; no file outside of it is read.

    Raises:
        OSError: a picture cannot be read.
    """
    markdown = _markdown(results)
    links, bodies = [], []
    for section in sections:
        count = len(section.missing)
        note = f" <small>{count} missing</small>" if count else ""
        links.append(f'<li><a href="#{section.anchor}">{escape(section.title)}</a>{note}</li>')
        body = markdown.render("\n".join([section.about, "", *map(_text, section.parts)]))
        bodies.append(f'<section id="{section.anchor}">\n<h2>{escape(section.title)}</h2>\n{body}</section>')
    return Template((_FOLDER / "page.html").read_text(encoding="utf-8")).substitute(
        style="\n".join(path.read_text(encoding="utf-8") for path in (web.FOLDER / "base.css", _FOLDER / "page.css")),
        source=escape(SOURCE),
        title=MARK,
        links="\n".join(links),
        sections="\n".join(bodies),
    )


def _text(part: Part) -> str:
    """Markdown; what is missing is a block quote, which nothing else is."""
    if isinstance(part, str):
        return part
    command = (f"> {line}" for line in ["```", *part.command.splitlines(), "```"])
    return "\n".join(["", f"> **Missing:** {part.what}. Made by:", ">", *command, ""])


def _markdown(results: Path) -> MarkdownIt:
    """CommonMark with tables and without HTML; wide parts are in boxes that scroll, pictures in the page itself."""

    def heading(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        tokens[index].tag = max(tokens[index].tag, "h3")  # below the section's, also if made for a page of its own
        return self.renderToken(tokens, index, options, env)

    def paragraph(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        if tokens[index + 1].content.startswith("("):
            tokens[index].attrSet("class", "origin")
        return self.renderToken(tokens, index, options, env)

    def box(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return f"{_BOX.format('div', 'table')}\n<table>\n"

    def end_of_box(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        return "</table>\n</div>\n"

    def picture(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
        text = escape(tokens[index].content)
        source = _data_uri(results, unquote(str(tokens[index].attrs["src"])))
        if source is None:
            return text
        return f'{_BOX.format("span", "figure")}<img src="{source}" alt="{text}"></span>'

    markdown = MarkdownIt("js-default")
    rules = {"heading_open": heading, "heading_close": heading, "paragraph_open": paragraph, "image": picture}
    for name, rule in {**rules, "table_open": box, "table_close": end_of_box}.items():
        markdown.add_render_rule(name, rule)
    return markdown


def _data_uri(results: Path, name: str) -> str | None:
    """A picture in the folder of results, as SVG if it is there in this format; None if there is none of that name."""
    stem = Path(name).stem
    for ending, kind in _TYPES.items():
        path = (results / name).parent / f"{stem}{ending}"
        if path.is_file() and path.resolve().is_relative_to(results.resolve()):
            return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    return None

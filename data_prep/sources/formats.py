"""Readers of the text formats.

Each reader is ``reader(stream, name, options, errors, skip)`` and yields :class:`Record`. The parquet reader, which
needs a seekable file, is in ``parquet.py``.

The readers of ``datasets`` are not used for files, because they

* do not report the line of an error, and cannot replace single bytes of JSON lines that are not UTF-8,
* do not limit the size of a document: text without a separator fills the memory, as does JSON that is not in lines,
  which is read as a whole,
* separate documents only at ``\\n\\n``, not at lines of white space, and treat a lone ``\\r`` as the end of a line.
"""

import html
import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from data_prep.sources.lines import Limits, Piece, cut_blocks, decode, line_pieces, too_long
from data_prep.sources.source import Errors, Record
from data_prep.sources.streams import Readable
from data_prep.support.white_space import BLANK
from linformer_fairseq.files.errors import UserError

_BLANK_LINES = re.compile(rb"\n(?:%b\n)+" % BLANK)  # a line feed first, which is found quickly
_CLOSING_TAG = re.compile(rb"\n</doc>[ \t\r]*\n")
# WikiExtractor leaves quotes and "&" in a title as they are; other tools of the same format escape them.
_OPENING_TAG = re.compile(r"\s*<doc ([^\n]*)>[ \t]*(?:\n|$)")
_TITLE = re.compile(r'\btitle="(.*?)"(?=\s+\w+="|\s*$)')


@dataclass(frozen=True)
class ReadOptions:
    """How the documents of a file are read; the user's ``,key=value`` endings."""

    limits: Limits
    field: str = "text"
    """Key or column of the text."""


Reader = Callable[[Readable, str, ReadOptions, Errors, int], Iterator[Record]]


def read_text_blocks(
    stream: Readable, name: str, options: ReadOptions, errors: Errors, skip: int = 0
) -> Iterator[Record]:
    """One document per run of lines between blank lines."""
    pieces = line_pieces(stream, name, options.limits, errors)
    blocks = cut_blocks(pieces, _BLANK_LINES, name, options.limits.max_document_bytes)
    for piece, _ in islice(blocks, skip, None):
        text, replaced = decode(piece, name, errors)
        yield Record(text, f"{name}, line {piece.line}", replaced)


def read_json_lines(
    stream: Readable, name: str, options: ReadOptions, errors: Errors, skip: int = 0
) -> Iterator[Record]:
    """One document per line that is not blank, in ``options.field`` of the object that the line is.

    Raises:
        UserError: not JSON, not an object, or no text of that name in it.
    """
    for piece in islice(_lines(line_pieces(stream, name, options.limits, errors), name, options.limits), skip, None):
        value, replaced = _parse(piece, name, errors)
        yield _record(value, options.field, piece, name, errors, replaced)


def read_wikiextractor(
    stream: Readable, name: str, options: ReadOptions, errors: Errors, skip: int = 0
) -> Iterator[Record]:
    """One document per article of WikiExtractor's output, in either of its two forms.

    The title, which is the first line of an article, is left out, and ``&lt; &gt; &amp;``, which WikiExtractor makes
    of the characters, are undone.
    """
    pieces = line_pieces(stream, name, options.limits, errors)
    first = next(pieces, None)
    if first is None:
        return
    every = chain([first], pieces)
    if first.data.lstrip()[:1] == b"{":
        for piece in islice(_lines(every, name, options.limits), skip, None):
            value, replaced = _parse(piece, name, errors)
            record = _record(value, options.field, piece, name, errors, replaced)
            yield _article(record, str(value.get("title", "")))
        return
    articles = cut_blocks(every, _CLOSING_TAG, name, options.limits.max_document_bytes)
    for piece, closed in islice(articles, skip, None):
        if not closed and not piece.data.strip():
            return  # blank lines at the end of the file
        text, replaced = decode(piece, name, errors)
        head = _OPENING_TAG.match(text)
        if not head:
            raise UserError(
                f"{name}, line {piece.line}: expected WikiExtractor's <doc id=... title=...> or lines of JSON, found "
                f"{text[:80]!r}; for plain text say format=text"
            )
        body = text[head.end() :]
        if not closed or "\n<doc id=" in body:
            raise UserError(
                f"{name}, line {piece.line}: the article that begins here has no </doc>: the file was not written or "
                "copied to its end"
            )
        title = _TITLE.search(head.group(1))
        record = Record(body, f"{name}, line {piece.line}", replaced)
        yield _article(record, title.group(1) if title else "")


def _article(record: Record, title: str) -> Record:
    """An article without its title line, its three escaped characters as they were."""
    text = record.text
    if "&" in text:
        text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    head, _, rest = text.partition("\n")
    named = head.strip() and html.unescape(head).strip() == html.unescape(title).strip()
    return record._replace(text=(rest if named else text).strip("\n"))


def _lines(pieces: Iterator[Piece], name: str, limits: Limits) -> Iterator[Piece]:
    """Every line that is not blank, and is a document."""
    for piece in pieces:
        line, offset = piece.line, piece.offset
        for data in piece.data.split(b"\n")[:-1]:
            if len(data) - data.endswith(b"\r") > limits.max_document_bytes:
                raise too_long(name, line, limits.max_document_bytes)
            if data and not data.isspace():
                yield Piece(data, line, offset)
            line += 1
            offset += len(data) + 1


def _parse(piece: Piece, name: str, errors: Errors) -> tuple[dict[str, Any], bool]:
    """The JSON object of one line, and whether bytes were replaced."""
    text, replaced = decode(piece, name, errors)
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        if piece.line == 1 and text.lstrip().startswith("["):
            hint = "it looks like one JSON array; make lines of it with: jq -c '.[]'"
        else:
            hint = "expected one JSON object a line"
        start = max(0, error.pos - 30)
        raise UserError(
            f"{name}, line {piece.line}, column {error.colno}: not JSON ({error.msg}) near "
            f"{text[start : error.pos + 30]!r}; {hint}"
        ) from None
    except RecursionError:
        raise UserError(f"{name}, line {piece.line}: JSON nested too deeply; expected an object with a text") from None
    except ValueError:  # the only other one that json.loads raises
        raise UserError(
            f"{name}, line {piece.line}: an integer of more than {sys.get_int_max_str_digits():,} digits, which cannot "
            "be read; expected an object with a text"
        ) from None
    if not isinstance(value, dict):
        hint = "; make lines of an array with: jq -c '.[]'" if isinstance(value, list) else ""
        raise UserError(f"{name}, line {piece.line}: expected a JSON object, found {text[:60]!r}{hint}")
    return value, replaced


def _record(value: dict[str, Any], key: str, piece: Piece, name: str, errors: Errors, replaced: bool) -> Record:
    """The document in ``value[key]``."""
    where = f"{name}, line {piece.line}"
    if key not in value:
        raise UserError(f"{where}: no {key!r} in the record, which has {sorted(value)}; name the text's key: field=KEY")
    text = value[key]
    if not isinstance(text, str):
        raise UserError(
            f"{where}: {key!r} is {json.dumps(text)[:60]}, a string was expected; fix the record or leave it out, or "
            "name another key: field=KEY"
        )
    if rb"\u" in piece.data:  # only an escape can make half of a surrogate pair
        text, fixed = whole_characters(text, where, errors)
        replaced = replaced or fixed
    return Record(text.replace("\r\n", "\n") if "\r" in text else text, where, replaced)


def whole_characters(text: str, where: str, errors: Errors) -> tuple[str, bool]:
    """``text`` without halves of surrogate pairs, which UTF-8 cannot hold, and whether there were any."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        if errors == "strict":
            raise UserError(
                f"{where}: half a surrogate pair (\\u{ord(text[error.start]):04x}) at character {error.start:,} of the "
                "text; put U+FFFD in its place with --errors replace"
            ) from None
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), True
    return text, False

"""JSON lines and WikiExtractor's output: what is read of them, and what is said of records that are not right."""

import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.sources.formats import Reader, ReadOptions, read_json_lines, read_wikiextractor
from data_prep.sources.lines import Limits
from data_prep.sources.source import Errors, Record
from linformer_fairseq.files.errors import UserError


def read(
    reader: Reader,
    raw: bytes | str,
    errors: Errors = "strict",
    skip: int = 0,
    block: int = 1 << 20,
    field: str = "text",
) -> list[Record]:
    stream = io.BytesIO(raw.encode() if isinstance(raw, str) else raw)
    return list(reader(stream, "f", ReadOptions(Limits(1 << 20, block), field), errors, skip))


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]))), st.booleans(), st.integers(1, 60), st.integers(0, 3)
)
def test_json_lines_in_any_blocks(texts: list[str], ascii_only: bool, block: int, skip: int) -> None:
    raw = "".join(json.dumps({"id": 1, "body": text}, ensure_ascii=ascii_only) + "\n\n" for text in texts)
    found = read(read_json_lines, raw, skip=skip, block=block, field="body")
    expected = [(text.replace("\r\n", "\n"), f"f, line {2 * n + 1}", False) for n, text in enumerate(texts)]
    assert found == expected[skip:]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"text": "cut', r"f, line 2, column \d+: not JSON \(Unterminated string.*near .*cut.*one JSON object a line"),
        ('["a"]', r"f, line 2: expected a JSON object, found .*jq"),
        ('{"body": "x", "a": 1}', r"f, line 2: no 'text' in the record, which has \['a', 'body'\].*field=KEY"),
        ('{"text": null}', r"f, line 2: 'text' is null, a string was expected; fix the record or leave it out"),
        ('{"text": 12}', r"f, line 2: 'text' is 12, a string was expected; fix the record or leave it out"),
        ('{"text": "\\ud83d alone"}', r"f, line 2: half a surrogate pair \(\\ud83d\) at character 0.*--errors replace"),
        ('{"a":' * 100_000, r"f, line 2: JSON nested too deeply"),
        ('{"text": "x", "id": ' + "1" * 5_000 + "}", r"f, line 2: an integer of more than 4,300 digits"),
    ],
)
def test_bad_records_are_placed(line: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(read_json_lines, '{"text": "good"}\n' + line + "\n")


@pytest.mark.parametrize("block", [8, 1 << 20])
def test_a_json_line_over_the_limit_is_named(block: int) -> None:
    raw = b'{"text": "a"}\n{"text": "' + b"x" * 100 + b'"}\n'
    options = ReadOptions(Limits(64, block))
    with pytest.raises(UserError, match="f, line 2: the document .* longer than 64 bytes.*--max-document-bytes"):
        list(read_json_lines(io.BytesIO(raw), "f", options, "strict", 0))


@pytest.mark.parametrize("block", [1, 8, 1 << 20])
@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_json_line_of_exactly_the_limit_is_read(end: bytes, block: int) -> None:
    line = b'{"text": "' + b"x" * 52 + b'"}'
    (record,) = read_json_lines(io.BytesIO(line + end), "f", ReadOptions(Limits(64, block)), "strict", 0)
    assert record.text == "x" * 52
    with pytest.raises(UserError, match="longer than 63 bytes"):
        list(read_json_lines(io.BytesIO(line + end), "f", ReadOptions(Limits(63, block)), "strict", 0))


def test_an_array_over_several_lines_is_recognised() -> None:
    with pytest.raises(UserError, match="line 1, column 2: not JSON.* jq"):
        read(read_json_lines, '[\n {"text": "a"}\n]')


def test_replacing_in_json() -> None:
    raw = b'{"text": "a\xff"}\n{"text": "\\ud83d alone"}\n{"text": "\\ud83d\\ude00"}\n'
    found = read(read_json_lines, raw, "replace")
    assert [(record.text, record.replaced) for record in found] == [
        ("a\ufffd", True),
        ("\ufffd alone", True),
        ("\U0001f600", False),
    ]
    with pytest.raises(UserError, match="f, line 1: not UTF-8: byte 0xff at offset 11"):
        read(read_json_lines, raw)


_ARTICLES = [
    ("Anarchism", "Anarchism is\n\nSecond & third <b> paragraph.", "Anarchism is\n\nSecond & third <b> paragraph."),
    ('8"/55 gun & more', "Text.", "Text."),
    ("Empty", "", ""),
]


def _tagged() -> str:
    def escape(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    return "".join(
        f'<doc id="{n}" url="https://x/?curid={n}" title="{title}">\n{escape(title)}\n\n{escape(body)}\n\n</doc>\n'
        for n, (title, body, _) in enumerate(_ARTICLES)
    )


@pytest.mark.parametrize("block", [1, 13, 1 << 20])
def test_wikiextractor_with_tags(block: int) -> None:
    found = read(read_wikiextractor, _tagged(), block=block)
    assert [record.text for record in found] == [text for *_, text in _ARTICLES]
    assert [record.where for record in found] == ["f, line 1", "f, line 9", "f, line 15"]
    assert read(read_wikiextractor, _tagged(), skip=1, block=block) == found[1:]


@pytest.mark.parametrize("with_title", [True, False])
def test_wikiextractor_with_json(with_title: bool) -> None:
    raw = "".join(
        json.dumps({"id": "1", "title": title, "text": f"{title}\n\n{body}\n" if with_title else body}) + "\n"
        for title, body, _ in _ARTICLES
    )
    found = read(read_wikiextractor, raw)
    assert [record.text for record in found] == [text for *_, text in _ARTICLES]
    assert read(read_wikiextractor, raw, skip=2) == found[2:]


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (_tagged()[:-8], "f, line 15: the article that begins here has no </doc>"),
        (_tagged().replace("</doc>\n", "", 1), "f, line 1: the article that begins here has no </doc>"),
        (_tagged() + "stray\n", re.escape("f, line 21: expected WikiExtractor's <doc id=")),
        ("just text\n", "f, line 1: expected WikiExtractor's .* format=text"),
    ],
    ids=["cut off", "a lost end", "text between", "no articles"],
)
def test_wikiextractor_that_is_not_whole(raw: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read(read_wikiextractor, raw)

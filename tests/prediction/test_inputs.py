"""Reading texts: every format, and what is wrong with single lines or with the whole file."""

from __future__ import annotations

import bz2
import errno
import gzip
import io
import json
import lzma
import os
from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.prediction import inputs, items
from linformer_fairseq.prediction import parquet as rows
from linformer_fairseq.prediction.inputs import open_source
from linformer_fairseq.prediction.items import Source


def opened(path: Path | None, *fields: str, kind: str | None = None, stdin: bytes = b"") -> Source:
    return open_source(path, io.BytesIO(stdin), kind, fields)


def read(source: Source) -> list[tuple[str, object]]:
    """Id and text of every item; of an error, its words."""
    found = list(source.items)
    if source.total is not None:
        assert sum(item.size for item in found) <= source.total
    return [(item.id, str(item.text) if isinstance(item.text, ValueError) else item.text) for item in found]


def write(path: Path, content: bytes | str) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "some.txt", b"\xef\xbb\xbf one\ttext \r\n\n\xe9t\xe9\n\0a\nlast\x0cline\xc2\x85")
    source = opened(path)
    assert (source.name, source.place, source.total) == (str(path), "line", path.stat().st_size)
    assert read(source) == [
        ("1", "one\ttext"),
        ("2", "no text"),
        ("3", "not UTF-8: byte 0xe9 at offset 0 of the text"),
        ("4", "a zero byte at offset 0 of the text: binary data or UTF-16, expected UTF-8"),
        ("5", "last\x0cline\x85"),
    ]


def test_the_size_of_an_empty_file_is_unknown(tmp_path: Path) -> None:
    assert opened(write(tmp_path / "empty.txt", "")).total is None


def test_standard_input_is_lines_unless_said_otherwise() -> None:
    assert read(opened(None, stdin=b'{"text": "a"}\n')) == [("1", '{"text": "a"}')]
    assert read(opened(None, kind="jsonl", stdin=b'{"text": "a"}\n')) == [("1", "a")]


def test_a_line_without_end_is_skipped_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "LONGEST", 8)
    monkeypatch.setattr(items, "LONGEST", 8)
    long = b"x" * 100 + b"\n"
    found = read(opened(None, stdin=b"the end\n" + long + b"last"))
    assert found == [("1", "the end"), ("2", "longer than 8 bytes"), ("3", "last")]
    assert [item.size for item in opened(None, stdin=long + b"last").items] == [len(long), 4], "for the progress"


def test_tsv_without_a_header_is_texts_or_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "some.tsv", "one\n a \tb\na\tb\tc\n\tb\na\t \n\t\n")
    assert read(opened(path)) == [
        ("1", "one"),
        ("2", ("a", "b")),
        ("3", "expected a text, or two with a tab between them, found 3 columns; name: --field"),
        ("4", "no first text, expected a pair"),
        ("5", "no second text, expected a pair"),
        ("6", "no text"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv_with_a_header_has_named_columns(tmp_path: Path, end: str) -> None:
    lines = ["index\tquestion\tsentence", "7\twhy\tso", "8\twhy", "9\twhy\tso\tmore"]
    path = write(tmp_path / "DEV.TSV", "".join(line + end for line in lines))
    expected = "expected 3 columns as in the first line, found"
    assert read(opened(path, "sentence")) == [("2", "so"), ("3", f"{expected} 2"), ("4", f"{expected} 4")]
    assert read(opened(path, "sentence", "question"))[0] == ("2", ("so", "why"))
    with pytest.raises(UserError, match=r"no column 'text' in its first line, which has: index, question, sentence"):
        opened(path, "text")


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "some.tsv", "text\tid\ttext\na\tb\tc\n")
    with pytest.raises(UserError, match="several columns are called 'text'"):
        opened(path, "text")
    assert read(opened(path, "id")) == [("2", "b")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf16_is_refused_as_a_whole(tmp_path: Path, encoding: str) -> None:
    """ASCII letters in it are UTF-8, with a zero beside each."""
    mark = "" if encoding == "utf-16" else "\ufeff"
    path = write(tmp_path / "some.txt", f"{mark}one\ntwo\n".encode(encoding))
    with pytest.raises(UserError, match="is UTF-16, expected UTF-8"):
        read(opened(path))


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_compressed_text_is_refused_as_a_whole(module: Any) -> None:
    with pytest.raises(UserError, match="^standard input: is compressed; .* FILE | linformer ... -"):
        read(open_source(None, io.BytesIO(module.compress(b"one\ntwo\n")), None, []))


def test_only_the_first_line_says_what_an_input_is() -> None:
    """A mark there is none of the text; the same bytes on a later line are an invalid text, or a part of one."""
    later = b"a\n\xff\xfea\n" + gzip.compress(b"a") + b"\n\xef\xbb\xbfb\n"
    (_, one), (_, utf16), *binary, (_, mark) = read(opened(None, stdin=later))
    assert (one, mark) == ("a", "\ufeffb") and str(utf16).startswith("not UTF-8") and binary


def test_json_lines(tmp_path: Path) -> None:
    lines = ['{"text": "a\\n\\n b", "x": 1}', "{", "[1]", '{"x": "a"}', '{"text": 3}', '{"text": "\\ud800"}']
    lines.append('{"text": "a\\u0000"}')
    path = write(tmp_path / "some.jsonl", "\n".join(lines))
    first, *wrong = read(opened(path))
    assert first == ("1", "a b")
    expected = ["not JSON", "expected a JSON object, found '[1]'", "found none", "found 3", "half of a surrogate pair"]
    expected.append("a zero character at character 1 of 'text'")
    for number, ((place, text), words) in enumerate(zip(wrong, expected, strict=True), start=2):
        assert place == str(number) and words in str(text)
    assert read(opened(path, "x"))[3] == ("4", "a")
    pair = write(tmp_path / "pair.jsonl", json.dumps({"q": "why", "a": "so"}))
    assert read(opened(pair, "q", "a")) == [("1", ("why", "so"))]


def test_an_integer_that_python_does_not_read(tmp_path: Path) -> None:
    path = write(tmp_path / "some.jsonl", '{"text": "a", "number": ' + "9" * 5_000 + "}\n")
    assert read(opened(path)) == [("1", "not JSON that can be used: an integer has more than 4,300 digits")]


def test_the_error_of_a_line_is_kept_without_the_line(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"text": \n{"other": 1}\n')
    for item in open_source(tmp_path / "x.jsonl", None, None, ["text"]).items:
        error = item.text
        assert isinstance(error, ValueError)
        assert error.__traceback__ is error.__context__ is error.__cause__ is None


def test_parquet(tmp_path: Path) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "some.parquet"
    texts = pyarrow.array(["one", None, "two", ""])
    table = {"text": texts, "category": texts.dictionary_encode(), "number": [1, 2, 3, 4]}
    parquet.write_table(pyarrow.table(table), path, row_group_size=3)
    expected = [("1", "one"), ("2", "expected a text in 'text', found none"), ("3", "two"), ("4", "no text")]
    source = opened(path)
    assert (source.place, source.total, source.unit) == ("row", 4, "rows")
    assert read(source) == expected
    assert [text for _, text in read(opened(path, "category", "text"))][2] == ("two", "two")
    for field, words in (("body", "it has: text, category, number"), ("number", "of type int64")):
        with pytest.raises(UserError, match=words):
            opened(path, field)
    for item in opened(path).items:
        if isinstance(item.text, ValueError):
            assert item.text.__traceback__ is None  # it would keep the texts of its batch
    parquet.write_table(pyarrow.Table.from_arrays([texts, texts], ["text", "text"]), path)
    with pytest.raises(UserError, match="several columns are called 'text'"):
        opened(path)
    write(path, b"no such file")
    with pytest.raises(UserError, match="not a whole parquet file"):
        opened(path)


def test_what_is_no_text_in_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for module in (rows, items):
        monkeypatch.setattr(module, "LONGEST", 8)
    texts = pyarrow.array([b"a\xff", b"x" * 9, b"x" * 8]).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"text": texts}), tmp_path / "some.parquet")
    expected = ["not UTF-8: byte 0xff at offset 1 of the text", "longer than 8 bytes", "x" * 8]
    assert [text for _, text in read(opened(tmp_path / "some.parquet"))] == expected


def test_a_folder_of_documents(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    write(tmp_path / "b" / "1.txt", "\ufefftwo\n\nparagraphs\n")
    write(tmp_path / "a.txt", b"\xff\xfe")
    write(tmp_path / ".hidden", "x")
    os.mkfifo(tmp_path / "c")  # a pipe that nobody writes to would be waited for
    source = opened(tmp_path)
    assert (source.place, source.total, source.unit) == ("document", 3, "documents")
    assert read(source) == [
        ("a.txt", "not UTF-8: byte 0xff at offset 0 of the text"),
        ("b/1.txt", "two paragraphs"),
        ("c", "not a regular file"),
    ]


def test_a_document_may_be_as_long_as_a_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (inputs, items):
        monkeypatch.setattr(module, "LONGEST", 8)
    for length in (8, 9):
        write(tmp_path / str(length), "x" * length)
    assert read(opened(tmp_path)) == [("8", "x" * 8), ("9", "longer than 8 bytes")]


def test_a_folder_that_cannot_be_read_is_reported(tmp_path: Path, unreadable: Path) -> None:
    write(tmp_path / "text", "text")
    assert read(opened(tmp_path)) == [(unreadable.name, "cannot be read: Permission denied"), ("text", "text")]


def test_a_document_that_cannot_be_looked_at_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a folder that may be listed, but not entered; root enters any folder."""
    for name in "ab":
        write(tmp_path / name, "text")
    stat = os.stat

    def refuse(path: str | Path, **options: Any) -> os.stat_result:
        if Path(path) == tmp_path / "a":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    source = opened(tmp_path)
    monkeypatch.setattr(os, "stat", refuse)
    assert read(source) == [("a", "cannot be read: Permission denied"), ("b", "text")]


def test_what_cannot_be_opened_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "some.txt", "a\n")
    gz = write(tmp_path / "some.txt.gz", "a\n")
    csv = write(tmp_path / "some.CSV", 'text\n"a, b"\n')
    assert read(opened(csv, kind="lines")) == [("1", "text"), ("2", '"a, b"')]
    cases: list[tuple[Path | None, tuple[str, ...], str | None, str]] = [
        (tmp_path / "absent", (), None, "no such file"),
        (gz, (), None, "zcat .*some.txt.gz"),
        (write(tmp_path / "some.txt.XZ", "a\n"), (), None, "xzcat .*some.txt.XZ"),
        (csv, (), None, "some.CSV: CSV cannot be read.*TSV.*--format lines"),
        (csv, ("text",), None, "some.CSV: CSV cannot be read"),
        (path, ("text",), None, "lines have no columns"),
        (path, ("a", "b", "c"), "tsv", "--field a, b, c: expected"),
        (tmp_path, (), "tsv", "is a folder of documents"),
        (tmp_path, ("text",), None, "is a folder of documents"),
        (None, (), "parquet", "standard input"),
        (write(tmp_path / "empty.tsv", ""), ("text",), None, "the file is empty"),
    ]
    for where, fields, kind, words in cases:
        with pytest.raises(UserError, match=words):
            opened(where, *fields, kind=kind)
    with pytest.raises(UserError, match="standard input: is closed"):
        open_source(None, None, None, [])

"""Files as sources: formats by name, compressions, folders and globs, what is recorded, and what is refused."""

import bz2
import errno
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import tempfile
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from data_prep.sources import parse_source
from data_prep.sources.source import IterableUnit, Record, Unit
from linformer_fairseq.files.errors import UserError
from tests.data_prep.hub_server import parquet_bytes

TEXTS = [f"Document {n}: naïve Ω\nsecond line {'x' * (n % 50)}" for n in range(300)]
PLAIN = "\n\n".join(TEXTS).encode()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


COMPRESS = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}
# as pzstd writes them: a frame without text comes first
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
FORMATS = {
    "a.txt": PLAIN,
    "a.jsonl": "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode(),
    "a.parquet": parquet_bytes({"id": [*range(300)], "text": TEXTS}, row_group_size=70),
    "wiki_00": "".join(f'<doc id="1" url="" title="t">\nt\n\n{text}\n</doc>\n' for text in TEXTS).encode(),
}


def only(spec: object, **more: int) -> Unit:
    (unit,) = parse_source(str(spec), **more).units
    return unit


def texts(spec: object, skip: int = 0) -> list[str]:
    return [record.text for record in only(spec).documents(skip=skip)]


def test_zstandard_that_begins_with_a_frame_without_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt.zst").write_bytes(SKIPPABLE + zstd(PLAIN))
    (tmp_path / "a.txt").write_bytes(PLAIN)
    assert texts(tmp_path / "a.txt.zst") == texts(tmp_path / "a.txt")


@pytest.mark.parametrize("ending", ["", *COMPRESS])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_in_every_compression(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / (name + ending)
    path.write_bytes(COMPRESS[ending](FORMATS[name]) if ending else FORMATS[name])
    unit = only(path)
    first = list(unit.documents())
    assert [record.text for record in first] == TEXTS
    assert all(record.where.startswith(f"{path}, ") for record in first)
    assert unit.size == unit.position() == path.stat().st_size
    assert unit.provenance()["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    for skip in (1, 70, 71, 299, 300, 1000):
        assert list(unit.documents(skip=skip)) == first[skip:]


@pytest.mark.parametrize("ending", COMPRESS)
def test_files_put_together_from_several_compressed_ones(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(b"".join(COMPRESS[ending](PLAIN[start : start + 999]) for start in range(0, len(PLAIN), 999)))
    assert texts(path) == TEXTS


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("name", FORMATS)
def test_compressed_files_that_are_cut_off_or_damaged(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / (name + ending)
    whole = COMPRESS[ending](FORMATS[name])
    for keep in (len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:keep])
        with pytest.raises(
            UserError, match=rf"^{re.escape(str(path))}: the \w+ file ends too early, after [\d,]+ bytes"
        ):
            texts(path)
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes(byte ^ 0x5A for byte in whole[middle : middle + 64]) + whole[middle + 64 :])
    with pytest.raises(UserError, match=re.escape(str(path))):  # of one kind or another: the text may suffer first
        texts(path)


@pytest.mark.parametrize("ending", COMPRESS)
def test_what_follows_a_compressed_file_is_not_left_out_in_silence(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(COMPRESS[ending](PLAIN) + bytes(1024))  # padding
    assert texts(path) == TEXTS
    path.write_bytes(COMPRESS[ending](PLAIN) + b"rubbish" + COMPRESS[ending](PLAIN))
    with pytest.raises(UserError, match=r"a.txt\.\w+: the \w+ file cannot be decompressed near byte [\d,]+ of it"):
        texts(path)


@pytest.mark.parametrize("keep", [6, 100, -1])
def test_parquet_that_is_cut_off(keep: int, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(FORMATS["a.parquet"][:keep])
    with pytest.raises(UserError, match=f"{re.escape(str(path))}: not a whole parquet file"):
        texts(path)


def test_parquet_with_a_damaged_page_says_after_which_row(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    damaged = bytearray(FORMATS["a.parquet"])
    second_group = pyarrow.parquet.read_metadata(io.BytesIO(damaged)).row_group(1).column(1).data_page_offset
    damaged[second_group : second_group + 40] = bytes(40)
    path.write_bytes(damaged)
    with pytest.raises(UserError, match=f"{re.escape(str(path))}, after row 70: not a whole parquet file"):
        texts(path)


def test_a_full_disk_for_temporary_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet.zst"
    path.write_bytes(zstd(FORMATS["a.parquet"]))

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", fail)
    with pytest.raises(UserError, match=f"^{re.escape(tempfile.gettempdir())}: No space .*TMPDIR"):
        texts(path)


def test_parquet_with_texts_stored_as_differences(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": TEXTS, "title": TEXTS})
    pyarrow.parquet.write_table(table, path, use_dictionary=["title"], column_encoding={"text": "DELTA_BYTE_ARRAY"})
    assert texts(path) == texts(f"{path},field=title") == TEXTS


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"body": ["a"]}, "no column 'text'; it has: body; name the column: field=COLUMN"),
        ({"text": [1]}, "column 'text' is of type int64, text was expected"),
        ({"text": [b"a"]}, "column 'text' is of type binary, text was expected"),
        ({"text": ["a", None]}, "row 2: 'text' is null, a text was expected"),
        ({"text": ["a", "x" * 100]}, "row 2: the document is longer than 64 bytes; raise --max-document-bytes"),
    ],
)
def test_parquet_with_other_columns(columns: dict[str, list[object]], said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet_bytes(columns))
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}(:|,) {said}"):
        list(only(path, max_document_bytes=64).documents())


def test_parquet_with_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    binary = pyarrow.array([b"good", b"b\xffd"], pyarrow.binary())
    column = pyarrow.Array.from_buffers(pyarrow.string(), 2, binary.buffers())  # what a careless writer makes
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"text": column}), path)
    with pytest.raises(UserError, match="row 2: not UTF-8.* 0xff .*offset 1 .*--errors replace"):
        texts(path)
    assert [record[::2] for record in only(path).documents("replace")] == [("good", False), ("b\ufffdd", True)]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.txt", b"", r"the file is empty \(0 bytes\)"),
        ("a.txt.gz", PLAIN, "its name says a gzip file, its content does not begin as such a file does"),
        ("a.txt.gz", lzma.compress(PLAIN), "its name says a gzip file, its content is xz"),
        ("a.txt", gzip.compress(PLAIN), "its name says plain text, its content is gzip"),
        ("a.txt", lzma.compress(PLAIN), "its name says plain text, its content is xz"),
        ("a.txt", bz2.compress(PLAIN), "its name says plain text, its content is bzip2"),
        ("a.txt", zstd(PLAIN), "its name says plain text, its content is Zstandard"),
        ("a.txt", b"PK\x03\x04rest", "its name says plain text, its content is zip"),
        ("a.txt", FORMATS["a.parquet"], "its name says plain text, its content is parquet"),
        ("a.txt", "text".encode("utf-16"), "is UTF-16, expected UTF-8"),
        ("a.parquet", PLAIN, "its name says a parquet file, its content does not begin as such"),
        ("a.tokens", PLAIN, "not of a known format .*; say which it is, such as .*a.tokens,format=text"),
    ],
)
def test_names_and_contents_that_do_not_agree(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: {said}"):
        parse_source(str(path))


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("a.txt", "parquet", "format=parquet says a parquet file, its content does not begin as such"),
        ("a.parquet", "text", "format=text says plain text, its content is parquet; say the format that it has"),
    ],
)
def test_formats_and_contents_that_do_not_agree(name: str, kind: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FORMATS[name])
    with pytest.raises(UserError, match=re.escape(f"{path}: {said}")):
        parse_source(f"{path},format={kind}")


def test_compressed_twice_is_told_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(gzip.compress(PLAIN)))
    with pytest.raises(UserError, match="its content is gzip, plain text was expected"):
        texts(path)


@pytest.mark.parametrize(("name", "raw"), [("a.txt", b" \n\n\t\n"), ("a.jsonl", b"\n\n"), ("a.parquet", b"")])
def test_files_without_a_document(name: str, raw: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(raw or _no_rows())
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}: no document in it"):
        texts(path)


def _no_rows() -> bytes:
    return parquet_bytes({"text": pyarrow.array([], pyarrow.string())})


def test_text_that_only_begins_like_a_compressed_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("BZh11 is not all that bzip2 files begin with.\n")
    assert len(texts(path)) == 1


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files in two levels, read in the order of their names, and what a download leaves behind."""
    root = tmp_path / "folder"
    for name in ("b.txt", "a/z.txt", "a/wiki_00"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(FORMATS["wiki_00"] if "wiki" in name else f"{name}\n".encode())
    (root / ".cache").mkdir()
    (root / ".cache" / "lock.txt").write_text("x")
    return root


def _names(spec: object) -> list[str]:
    return [Path(unit.name).name for unit in parse_source(str(spec)).units]


def test_a_folder_is_read_with_all_below_it_in_order(folder: Path) -> None:
    source = parse_source(str(folder))
    assert _names(folder) == ["wiki_00", "z.txt", "b.txt"]
    assert source.ignored == (str(folder / ".cache"),)


def test_strange_files_in_a_folder_are_named_not_dropped(folder: Path) -> None:
    (folder / "a" / "notes.doc").write_text("x")
    with pytest.raises(UserError, match=r"folder: 1 of its 4 files are of no known format \(\S+notes.doc\).*glob"):
        parse_source(str(folder))
    assert _names(f"{folder},format=text") == ["notes.doc", "wiki_00", "z.txt", "b.txt"]


def test_globs(folder: Path) -> None:
    assert _names(folder / "**" / "*.txt") == ["z.txt", "b.txt"]
    assert _names(folder / "*") == ["wiki_00", "z.txt", "b.txt"]
    with pytest.raises(UserError, match=r"\*.jsonl: no file matches"):
        parse_source(str(folder / "*.jsonl"))


def test_links_are_followed_once(folder: Path) -> None:
    (folder / "a" / "up").symlink_to(folder)
    (folder / "c.txt").symlink_to(folder / "b.txt")
    assert _names(folder) == ["wiki_00", "z.txt", "b.txt", "c.txt"]
    assert _names(folder / "**" / "*.txt") == ["z.txt", "b.txt", "c.txt"]


def test_utf16_in_a_compressed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "text.txt.gz"
    path.write_bytes(gzip.compress("text".encode("utf-16")))
    (unit,) = parse_source(str(path)).units
    with pytest.raises(UserError, match="text.txt.gz: is UTF-16, expected UTF-8"):
        list(unit.documents())


def test_a_folder_that_cannot_be_read_is_refused(tmp_path: Path, unreadable: Path) -> None:
    (tmp_path / "read.txt").write_text("text")
    for pattern in ("", "**", "**/*.txt", "*/*.txt", "not_*/*.txt", "*/read.txt", "not_readable/*"):
        with pytest.raises(UserError, match=f"{unreadable}: cannot be read: Permission denied"):
            parse_source(str(tmp_path / pattern))
    assert _names(tmp_path / "*.txt") == ["read.txt"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.txt").write_text("text")
    assert _names(tmp_path / "o*" / "*.txt") == ["a.txt"]


@pytest.mark.parametrize("name", [b"caf\xe9.txt", b".caf\xe9"])
def test_names_that_are_not_utf8_are_refused(folder: Path, name: bytes) -> None:
    """The manifest names hidden files, too."""
    (folder / os.fsdecode(name)).write_text("text")
    with pytest.raises(UserError, match=r"caf\\xe9.* not UTF-8"):
        parse_source(str(folder))


def test_a_source_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / "a.txt").write_text("text")
    with pytest.raises(UserError, match=r"license=\\xe9: .*not UTF-8"):
        parse_source(f"{folder}/a.txt,license={os.fsdecode(bytes([0xE9]))}")


def test_a_link_to_itself_is_no_file(tmp_path: Path) -> None:
    link = tmp_path / "a.txt"
    link.symlink_to(link)
    with pytest.raises(UserError, match=f"{link}: no such file"):
        parse_source(str(link))


def test_places_with_nothing_to_read(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for place, said in (("missing.txt", "no such file"), ("empty", "no files in this folder"), ("gone.txt", "no such")):
        (tmp_path / "gone.txt").unlink(missing_ok=True)
        (tmp_path / "gone.txt").symlink_to("nowhere")
        with pytest.raises(UserError, match=f"{place}: {said}"):
            parse_source(str(tmp_path / place))
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UserError, match="pipe.txt: not a regular file"):
        parse_source(str(tmp_path / "pipe.txt"))


@pytest.mark.parametrize(
    ("ending", "said"),
    [
        (",wieght=2", r"unknown key wieght=; known here: weight=, format=, field=, lines=, group="),
        (",config=en", "unknown key config="),
        (",weight=0", "weight=0: expected a number above 0"),
        (",weight=inf", "weight=inf: expected a number above 0"),
        (",weight=nan", "weight=nan: expected a number above 0"),
        (",weight=1e30", "weight=1e30: expected a number above 0, at most 100"),
        (",weight=two", "weight=two: expected a number above 0"),
        (",format=csv", "format=csv: expected one of text, jsonl, wikiextractor, parquet"),
        (",lines=all", "lines=all: expected one of paragraphs, join"),
        (",group=0", "group=0: expected a number of records, 1 to 1,000,000,000"),
        (f",group={10**20}", f"group={10**20}: expected a number of records, 1 to 1,000,000,000"),
        (f",group={'9' * 5_000}", "99: expected a number of records, 1 to 1,000,000,000"),
        (",field=", "field= has no value"),
        (",group=2,group=3", "group= is given twice"),
    ],
)
def test_endings_that_mean_nothing(ending: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(PLAIN)
    with pytest.raises(UserError, match=re.escape(said)):
        parse_source(f"{path}{ending}")


def test_a_field_of_plain_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(PLAIN)
    with pytest.raises(UserError, match="field= is the name of a key or column"):
        parse_source(f"{tmp_path / 'a.txt'},field=body")
    (tmp_path / "b.jsonl").write_text('{"body": "b"}\n')
    assert len(parse_source(f"{tmp_path},field=body").units) == 2


def test_lines_between_any_blank_lines_are_joined(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "a\n\u00a0\nb\nc\n\x0b\u3000\nd"}))
    assert texts(f"{path},lines=join") == ["a\nb c\nd"]


def test_endings(tmp_path: Path) -> None:
    path = tmp_path / "a,b=c.json"
    path.write_text('{"t": "a1\\na2\\n \\n b1 \\nb2"}\n{"t": "c"}\n{"t": "d"}\n')
    assert texts(f"{path},field=t") == ["a1\na2\n \n b1 \nb2", "c", "d"]
    assert texts(f"{path},field=t,lines=join") == ["a1 a2\nb1 b2", "c", "d"]
    assert texts(f"{path},field=t,group=2") == ["a1\na2\n \n b1 \nb2\nc", "d"]
    assert texts(f"{path},field=t,group=2", skip=1) == ["d"]
    assert parse_source(f"{path},weight=2.5,field=t").weight == 2.5
    assert parse_source(f"{path},weight=100").weight == 100
    assert parse_source(f"{path},field=t").weight == 1


def test_a_group_over_the_limit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("aaaa\n\nbbbb\n\ncccc\n")
    assert texts(f"{path},group=3") == ["aaaa\nbbbb\ncccc"]
    with pytest.raises(UserError, match="a.txt, line 1: .* 3 records .* 12"):
        list(only(f"{path},group=3", max_document_bytes=12).documents())
    path.write_text("ääää\n\nöööö\n", encoding="utf-8")
    with pytest.raises(UserError, match="a.txt, line 1: .* 2 records .* 12"):
        list(only(f"{path},group=2", max_document_bytes=12).documents())


def test_a_file_that_changes_under_the_reader_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(PLAIN)
    unit = only(path)
    before = unit.identity()
    assert before == only(path).identity() == {**before, "path": str(path), "size": len(PLAIN)}
    list(unit.documents())
    path.write_bytes(PLAIN + b"more")
    assert only(path).identity() != before
    with pytest.raises(UserError, match="a.txt: it was changed while it was read"):
        unit.provenance()


def test_a_file_read_in_part_has_the_sha256_of_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(PLAIN)
    unit = only(path)
    next(unit.documents())
    assert unit.provenance()["sha256"] == hashlib.sha256(PLAIN).hexdigest()


def test_documents_that_are_not_in_files() -> None:
    unit = IterableUnit("made", lambda: ["a", "b", "c"], {"version": 1})
    assert list(unit.documents(skip=1)) == [Record("b", "made, document 2"), Record("c", "made, document 3")]
    assert unit.provenance() == {"name": "made", "version": 1}

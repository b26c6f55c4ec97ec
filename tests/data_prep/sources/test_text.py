"""Text files: where documents begin and end, what ends a line, and what is said of bad bytes."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.sources.formats import ReadOptions, read_text_blocks
from data_prep.sources.lines import Limits
from data_prep.sources.source import Errors, Record
from linformer_fairseq.files.errors import UserError


def read(
    raw: bytes, errors: Errors = "strict", skip: int = 0, block: int = 1 << 20, limit: int = 1 << 20
) -> list[Record]:
    return list(read_text_blocks(io.BytesIO(raw), "t.txt", ReadOptions(Limits(limit, block)), errors, skip))


def plainly(text: str) -> list[Record]:
    """The same documents by the rules as one would say them."""
    records: list[Record] = []
    lines: list[str] = []
    start = 0
    for number, line in enumerate([*text.removeprefix("\ufeff").split("\n"), ""], start=1):
        if line.strip():
            start = start or number
            lines.append(line.removesuffix("\r"))
        elif start:
            records.append(Record("\n".join(lines).rstrip("\r"), f"t.txt, line {start}"))
            lines, start = [], 0
    return records


_TEXTS = st.lists(
    st.sampled_from(
        ["a", "bc", " ", "\t", "\n", "\n\n", "\r\n", "\r", "é", "\U0001f600", "\x85", "\u2028", "\x0c", "\ufeff"]
    ),
    max_size=40,
).map("".join)


@given(_TEXTS, st.integers(1, 20))
def test_any_cut_into_read_blocks_gives_the_same_documents(text: str, block: int) -> None:
    assert read(text.encode(), block=block) == plainly(text)


@given(_TEXTS, st.integers(0, 8))
def test_skipping_leaves_out_the_first(text: str, skip: int) -> None:
    assert read(text.encode(), skip=skip) == plainly(text)[skip:]


def test_only_line_feeds_end_lines() -> None:
    (record,) = read("one\x85two\u2028three\x0cfour\r\nfive\n".encode())
    assert record.text == "one\x85two\u2028three\x0cfour\nfive"


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_bytes_that_are_not_utf8_are_placed_exactly(block: int) -> None:
    raw = "\ufeffé\r\n\r\ngood\r\nb".encode() + b"\xe9d\n"
    offset = raw.index(b"\xe9d")
    with pytest.raises(UserError, match=f"t.txt, line 4: not UTF-8: byte 0xe9 at offset {offset};"):
        read(raw, block=block)
    assert read(raw, "replace", block=block) == [
        ("é", "t.txt, line 1", False),
        ("good\nb\ufffdd", "t.txt, line 3", True),
    ]


def test_a_character_cut_off_by_the_end_of_the_file() -> None:
    with pytest.raises(UserError, match="line 1: not UTF-8: byte 0xe2 at offset 4"):
        read(b"abcd\xe2\x82")


@pytest.mark.parametrize("block", [8, 1 << 20])
def test_nul_bytes_are_binary_data(block: int) -> None:
    with pytest.raises(UserError, match="t.txt, line 3: a zero byte at offset 12:.*UTF-16"):
        read(b"text\n\nbinary\0more\n", block=block)
    assert read(b"a\0b\n", "replace") == [("a\ufffdb", "t.txt, line 1", True)]


@pytest.mark.parametrize(
    ("raw", "line"),
    [(b"short\n\n" + b"x" * 100, 3), (b"short\n\n" + b"x" * 100 + b"\n\nmore", 3), (b"a\n\n" + b"line\n" * 20, 3)],
    ids=["line", "line with an end", "many lines"],
)
@pytest.mark.parametrize("block", [1, 10, 1000])
def test_a_document_over_the_limit_is_named(raw: bytes, line: int, block: int) -> None:
    with pytest.raises(
        UserError, match=f"t.txt, line {line}: the document .* longer than 64 bytes.*--max-document-bytes"
    ):
        read(raw, block=block, limit=64)
    assert len(read(raw, block=block, limit=120)) >= 2


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\nmore\n", "\r\n\r\nmore\r\n"])
@pytest.mark.parametrize("document", ["x" * 64, "line\n" * 12 + "last"])
@pytest.mark.parametrize("block", [1, 65, 1000])
def test_a_document_of_exactly_the_limit_is_read_wherever_it_stands(document: str, end: str, block: int) -> None:
    raw = ("a\n\n" + document + end).encode()
    assert read(raw, block=block, limit=64)[1].text == document
    with pytest.raises(UserError, match="t.txt, line 3: the document .* longer than 63 bytes"):
        read(raw, block=block, limit=63)


_PEAK = r"""
import re, sys
from pathlib import Path
from linformer_fairseq.files.errors import UserError
from data_prep.sources import parse_source
(unit,) = parse_source(sys.argv[1], int(sys.argv[2])).units
def peak():  # not getrusage's, which a process inherits from the one that started it
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])
before = peak()
try:
    print([len(record.text) for record in unit.documents()])
except UserError as error:
    print(error)
print((peak() - before) // 1024)
"""


@pytest.mark.slow
def test_fifty_megabytes_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_bytes(b"word " * 10_000_000)

    def run(limit: int) -> tuple[str, int]:
        command = [sys.executable, "-c", _PEAK, str(path), str(limit)]
        said, peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        return said, int(peak)

    said, megabytes = run(8 << 20)
    assert re.search(r"long.txt, line 1: the document .* longer than 8,388,608 bytes", said)
    assert megabytes < 40
    said, megabytes = run(64 << 20)
    assert said == "[50000000]"
    assert megabytes < 300  # a few copies of the one document

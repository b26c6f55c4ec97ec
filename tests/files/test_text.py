"""Reading whole text files, and where a text can be divided."""

import re
from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.text import last_blank, read_text


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b" \n", "is empty"),
        ("a".encode("utf-16"), "is UTF-16, expected UTF-8"),
        (b"\xfe\xff\0a", "is UTF-16, expected UTF-8"),
        (b"a\nb\xe4", "line 2: not UTF-8: byte 0xe4 at offset 3"),
        (b"\xef\xbb\xbfa\xe4", "line 1: not UTF-8: byte 0xe4 at offset 4"),
    ],
)
def test_what_is_not_text_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=f"^{re.escape(str(path))}.*{re.escape(said)}"):
        read_text(path)


def test_a_byte_order_mark_of_utf8_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_bytes(b"\xef\xbb\xbfna\xc3\xafve\r\n")
    assert read_text(tmp_path / "file.txt") == "naïve\r\n"


def test_only_the_last_of_several_blanks_is_cut_at() -> None:
    assert last_blank("a   b   ", 0, 7) == 3  # GPT-2 has tokens of several blanks
    assert last_blank("a\tb", 0, 3) is None

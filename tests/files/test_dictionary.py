"""dict.txt: read as fairseq reads it, padded as fairseq pads it."""

from pathlib import Path

import pytest

from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError


def test_symbols_are_those_that_fairseq_reads(tmp_path: Path) -> None:
    from fairseq.data import Dictionary

    path = tmp_path / "dict.txt"
    path.write_text("a 3\n\u2028 2\n</s> 1 #fairseq:overwrite\n\u2581b 0\n", encoding="utf-8")
    assert [*dictionary.SPECIAL, *dictionary.read_symbols(path)] == Dictionary.load(str(path)).symbols
    assert dictionary.read_symbols(path) == ["a", "\u2028", "</s>", "\u2581b"]


def test_ends_of_lines_of_another_system(tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    for text in ("a 3\r\nb 2\r\n", "a 3\rb 2\r", "a 3\nb 2"):
        path.write_text(text, newline="")
        assert dictionary.read_symbols(path) == ["a", "b"]
    path.write_text("a 3\n\n")
    with pytest.raises(UserError, match="line 2"):
        dictionary.read_symbols(path)


def test_padding_goes_on_after_fillers_that_are_there(tmp_path: Path) -> None:
    """As in RoBERTa's dictionary, which ends with three."""
    path = tmp_path / "dict.txt"
    path.write_text("a 1\nmadeupword0000 0\nmadeupword0001 0")
    dictionary.pad(path)
    assert path.read_text().split("\n") == ["a 1", "madeupword0000 0", "madeupword0001 0", "<mask> 0", ""]
    path.write_text("a 1\nb 1\nmadeupword0000 0\nmadeupword0001 0\n")
    dictionary.pad(path)
    names = [f"madeupword{number:04d}" for number in range(9)]
    assert dictionary.read_symbols(path) == ["a", "b", *names[:2], "<mask>", *names[2:]]
    assert dictionary.index(path, ["a", "b"]) == {"a": 4, "b": 5, "madeupword0000": 6, "madeupword0001": 7}


def test_a_piece_behind_mask_is_no_padding(tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_text("a 1\n<mask> 0\nb 1\n")
    with pytest.raises(UserError, match="such as '<mask>'"):
        dictionary.index(path, ["a", "b"])


def test_a_vocabulary_ends_with_mask_and_then_its_padding(tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    dictionary.write(path, [("a", 3), ("madeupword0000", 0)])
    assert path.read_bytes() == b"a 3\nmadeupword0000 0\n"
    symbols = ["<s>", "<pad>", "</s>", "<unk>", "a", "madeupword0000", "<mask>"]
    assert dictionary.read_vocabulary(path) == symbols
    dictionary.pad(path)
    assert dictionary.read_vocabulary(path) == [*symbols, "madeupword0001"]
    assert dictionary.without_padding(dictionary.read_vocabulary(path)) == symbols
    assert (dictionary.embedding_rows(path, True), dictionary.embedding_rows(path, False)) == (7, 8)


def test_fillers_are_no_classes(tmp_path: Path) -> None:
    path = tmp_path / "dict.txt"
    path.write_text("pos 9\nneg 3\nmadeupword0000 0\nmadeupword0001 0\n")
    assert dictionary.read_labels(path) == ["pos", "neg"]


@pytest.mark.parametrize("line", ["nocount", " 3", "a x", "a"])
def test_a_line_that_fairseq_would_not_read_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "dict.txt"
    path.write_text(f"a 1\n{line}\nb 1\n")
    with pytest.raises(UserError, match=f"dict.txt, line 2: .*{line}"):
        dictionary.read_symbols(path)

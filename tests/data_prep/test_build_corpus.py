"""Text to train and valid: split by document, nothing twice, stable, clear errors."""

from pathlib import Path

import pytest

from data_prep import build_corpus
from data_prep.documents import Document, deduplicate, fingerprint, paragraphs, share, split
from data_prep.errors import DataError


def _paragraphs(folder: Path, name: str) -> list[str]:
    return [line for line in (folder / f"{name}.txt").read_text(encoding="utf-8").split("\n") if line]


def test_no_paragraph_is_on_both_sides_or_twice(corpus: Path) -> None:
    train, valid = _paragraphs(corpus, "train"), _paragraphs(corpus, "valid")
    assert len(train) + len(valid) == 400  # the 20 repeated blocks are gone, and nothing else
    assert 15 <= len(valid) <= 80
    assert len({fingerprint(p) for p in train + valid}) == 400


def test_own_text_is_kept_word_for_word(corpus: Path, own_text: Path) -> None:
    blocks = {" ".join(block.split()) for block in own_text.read_text(encoding="utf-8").split("\n\n")}
    assert blocks == {*_paragraphs(corpus, "train"), *_paragraphs(corpus, "valid")}


def test_documents_are_separated_by_one_empty_line(corpus: Path) -> None:
    text = (corpus / "train.txt").read_text(encoding="utf-8")
    assert "\n\n\n" not in text and not text.startswith("\n") and not text.endswith("\n\n")
    assert text.count("\n\n") == len(_paragraphs(corpus, "train")) - 1


def test_a_second_run_writes_the_same_bytes(own_text: Path, corpus: Path, tmp_path: Path) -> None:
    build_corpus.main(["--out", str(tmp_path), "--text", str(own_text), "--valid-share", "0.1"])
    for name in ("train.txt", "valid.txt", "stats.json"):
        assert (tmp_path / name).read_bytes() == (corpus / name).read_bytes()


def test_a_document_stays_on_its_side_when_others_come() -> None:
    documents = [Document(str(i), (f"paragraph number {i}",)) for i in range(200)]
    _, valid = split(documents, 0.2)
    _, valid_of_fewer = split(documents[::-1][:100], 0.2)
    assert {d.name for d in valid_of_fewer} == {d.name for d in valid} & {str(i) for i in range(100, 200)}
    assert 20 <= len(valid) <= 60


@pytest.mark.parametrize("count", [2, 3, 5])
def test_neither_side_is_empty(count: int) -> None:
    for start in range(20):
        documents = [Document(str(i), (f"document {start} {i}",)) for i in range(count)]
        for valid_share in (0.01, 0.99):
            train, valid = split(documents, valid_share)
            assert train and valid and len(train) + len(valid) == count


def test_deduplicate_keeps_the_first_and_levels_case_and_space() -> None:
    kept, dropped = deduplicate(
        [Document("a", ("One text.", "Two")), Document("b", ("one  TEXT.", "Three")), Document("c", ("two",))]
    )
    assert kept == [Document("a", ("One text.", "Two")), Document("b", ("Three",))]
    assert dropped == 2


def test_paragraphs_cut_at_blank_lines_and_lose_rules_and_controls() -> None:
    assert paragraphs("A\n  heading\n=====\n \t\nb\x00c\r\n\r\n  d   e\n\n\n***\n") == ["A heading", "b c", "d e"]


def test_share_depends_on_salt_and_text() -> None:
    assert share("x", "a") == share("x", "a") != share("x", "b")
    assert 0 <= share("x", "a") < 1


def _error(arguments: list[str]) -> str:
    with pytest.raises(DataError) as caught:
        build_corpus.main(arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "no such file"),
        (b"", "empty (0 bytes)"),
        (b" \n\n", "empty (3 bytes)"),
        (b"good\nbad \xe9t\xe9\n", "byte 0xe9 at offset 9 (line 2)"),
        (b"\xef\xbb\xbfab\xff", "byte 0xff at offset 5 (line 1)"),
        (b"short\n\ntext\n", "too little text: 9 characters"),
        (b"one block " * 4000, "one single document"),
    ],
)
def test_bad_text_is_refused_and_nothing_is_written(tmp_path: Path, content: bytes | None, expected: str) -> None:
    path = tmp_path / "in put.txt"
    if content is not None:
        path.write_bytes(content)
    message = _error(["--out", str(tmp_path / "out"), "--text", str(path)])
    assert expected in message
    assert not (tmp_path / "out").exists()


def test_bad_share_is_refused(tmp_path: Path, own_text: Path) -> None:
    assert "--valid-share 1.5" in _error(["--out", str(tmp_path), "--text", str(own_text), "--valid-share", "1.5"])

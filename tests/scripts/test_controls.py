"""The control of the small results, a bag of words; and the texts of the studies: passages of authors, film reviews."""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from data_prep import prepare_task
from linformer_fairseq.files.errors import UserError
from scripts.reproduce_tools import authors, bag_of_words, reviews


def test_a_bag_of_words_finds_the_word_that_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "SST-2"
    folder.mkdir()
    for split, count in (("train", 40), ("dev", 10)):
        rows = [f"a {'good' if i % 2 else 'bad'} film number {i} \t{i % 2}\n" for i in range(count)]
        (folder / f"{split}.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    bag_of_words.main(["sst2", "--from", str(folder), "--out", str(tmp_path / "sst2.json")])
    found = json.loads((tmp_path / "sst2.json").read_text())
    assert (found["bag_of_words"], found["majority"], found["train"], found["valid"]) == (100, 50, 40, 10)
    assert "sst2: bag of words 100.0 %" in capsys.readouterr().out


def test_a_bag_of_words_on_the_texts_that_a_model_reads(tmp_path: Path) -> None:
    """The word that tells is the last of each text, so a model that reads the beginnings cannot know it."""
    for split, count in (("train", 40), ("valid", 10)):
        rows = [f"{'ab'[i % 2]}\t{i} {split} {'and so on ' * 9}{('ball', 'sea')[i % 2]}\n" for i in range(count)]
        (tmp_path / f"{split}.tsv").write_text("".join(rows))
    files = [str(tmp_path / name) for name in ("train.tsv", "valid.tsv")]
    for name, cut in (("beginning", "head"), ("both", "head+tail")):
        _prepare(files, tmp_path / name, "--max-positions", "16", "--cut", cut)
        out = str(tmp_path / f"{name}.json")
        bag_of_words.main(["tsv", "--from", *files, "--data", str(tmp_path / name), "--out", out])
    found = {name: json.loads((tmp_path / f"{name}.json").read_text()) for name in ("beginning", "both")}
    assert {name: one["bag_of_words"] for name, one in found.items()} == {"beginning": 100, "both": 100}
    truncated = {name: one["truncated"] for name, one in found.items()}
    assert truncated["beginning"] == {"positions": 16, "bag_of_words": 50}
    assert truncated["both"] == {"positions": 16, "bag_of_words": 100}


@pytest.fixture
def prepared(tmp_path: Path) -> tuple[list[str], Path]:
    """Files of a task, and its data folder."""
    for split in ("train", "valid"):
        rows = [f"{'ab'[i % 2]}\t{i} {split} {('ball', 'sea')[i % 2]}\n" for i in range(8)]
        (tmp_path / f"{split}.tsv").write_text("".join(rows))
    files = [str(tmp_path / name) for name in ("train.tsv", "valid.tsv")]
    data = tmp_path / "data"
    _prepare(files, data, "--max-positions", "16")
    return files, data


def _prepare(files: list[str], data: Path, *options: str) -> None:
    prepare_task.main(["tsv", "--from", *files, "--tokenizer", "linformer-small", "--out", str(data), *options])


def _prepare_again(data: Path, *options: str) -> None:
    _prepare([str(data.parent / name) for name in ("train.tsv", "valid.tsv")], data, *options)


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (shutil.rmtree, "no such file; expected a task's folder"),
        (_prepare_again, "are not truncated"),
        (lambda data: _prepare_again(data, "--max-positions", "6", "--cut", "windows"), "are not truncated"),
        (lambda data: (data / "sentencepiece.bpe.model").unlink(), "sentencepiece.bpe.model"),
        (lambda data: _cut_off(data / "input0" / "valid.bin"), "valid.bin"),
        (lambda data: shutil.copytree(data / "input0", data / "input1"), "2 texts each"),
        (lambda data: [path.unlink() for path in (data / "label").glob("valid*")], "no classes for valid"),
        (lambda data: (data.parent / "valid.tsv").write_text("a\t1 of these\n"), "valid has other labels"),
    ],
    ids=["missing", "whole texts", "windows", "no tokenizer", "cut off", "pairs", "no labels", "other labels"],
)
def test_another_or_a_damaged_data_folder_is_refused(
    prepared: tuple[list[str], Path], break_it: Callable[[Path], object], message: str
) -> None:
    files, data = prepared
    break_it(data)
    with pytest.raises(UserError, match=message):
        bag_of_words.main(["tsv", "--from", *files, "--data", str(data), "--out", str(data.parent / "out.json")])
    assert not (data.parent / "out.json").exists()


def test_words_of_one_letter_count(tmp_path: Path) -> None:
    for split, count in (("train", 40), ("valid", 10)):
        rows = [f"{i % 2}\tthe film did{('', ' n')[i % 2]} please viewer {i} of {split}\n" for i in range(count)]
        (tmp_path / f"{split}.tsv").write_text("".join(rows))
    files = [str(tmp_path / name) for name in ("train.tsv", "valid.tsv")]
    bag_of_words.main(["tsv", "--from", *files, "--out", str(tmp_path / "letters.json")])
    found = json.loads((tmp_path / "letters.json").read_text())
    assert (found["task"], found["bag_of_words"], found["majority"], found["valid"]) == ("letters", 100, 50, 10)


@pytest.fixture
def library(tmp_path: Path) -> tuple[Path, Path]:
    """Three authors with four books of three paragraphs of 20 words each; the fourth author has one book."""
    books, listed = [], ["author_dir\tfile\tparagraphs"]
    for author in range(4):
        for title in range(4 if author < 3 else 1):
            listed.append(f"Author {author}\tBook {author}{title}.txt\t3")
            books.append("\n".join(" ".join(f"w{author}{title}{p}{i}" for i in range(20)) for p in range(3)))
    text, table = tmp_path / "books.txt.xz", tmp_path / "list.tsv"
    text.write_bytes(lzma.compress("\n\n".join(books).encode()))
    table.write_text("\n".join(listed) + "\n")
    return text, table


def test_no_book_is_on_both_sides(library: tuple[Path, Path], tmp_path: Path) -> None:
    text, table = library
    words = ["--books", str(text), "--list", str(table), "--out", str(tmp_path / "out"), "--authors", "3"]
    authors.main([*words, "--words", "25"])
    rows = {
        split: [line.split("\t") for line in (tmp_path / "out" / f"{split}.tsv").read_text().splitlines()]
        for split in ("train", "valid")
    }
    assert {split: len(found) for split, found in rows.items()} == {"train": 18, "valid": 6}, "two pieces a book"
    books = {split: {piece.split()[0][:3] for _, piece in found} for split, found in rows.items()}
    assert not books["train"] & books["valid"]
    for label, piece in rows["train"] + rows["valid"]:
        assert label == f"Author_{piece[1]}" and len(piece.split()) == 25
    with pytest.raises(UserError, match="--authors 4: 3 authors"):
        authors.main([*words[:-1], "4"])


def test_a_list_of_other_books_is_refused(library: tuple[Path, Path]) -> None:
    text, table = library
    table.write_text(table.read_text().replace("\t3\n", "\t2\n", 1))
    with pytest.raises(UserError, match="does not list the books"):
        authors.read_books(text, table)


def test_reviews_become_documents_of_pieces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those of train, by label and number; no label is in the text."""
    texts = {
        "train/pos/10_9.txt": "a b c d e<br /><br />f g",
        "train/pos/9_7.txt": " one ",
        "train/neg/3_1.txt": "x y z",
    }
    for name, text in {**texts, "test/pos/1_9.txt": "held out", "test/neg/1_2.txt": "held out"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    words = ["--from", str(tmp_path), "--out", str(tmp_path / "new" / "reviews.txt"), "--words", "3"]
    reviews.main(words)
    assert (tmp_path / "new" / "reviews.txt").read_text() == "x y z\n\none\n\na b c\nd e f\ng\n\n"
    assert capsys.readouterr().out == "3 reviews in 5 pieces\n"


@pytest.mark.parametrize(("count", "lengths"), [(0, []), (3, [3]), (331, [166, 165]), (990, [330, 330, 330])])
def test_pieces_of_a_review_have_about_one_length(count: int, lengths: list[int]) -> None:
    text = " ".join(map(str, range(count)))
    found = list(reviews.pieces(text, 330))
    assert [len(piece.split()) for piece in found] == lengths and " ".join(found) == text

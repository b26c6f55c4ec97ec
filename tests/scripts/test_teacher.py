"""Soft labels of bags of words: each example's are those of classifiers that have not seen it."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

from data_prep.tasks.soft_labels import of_examples, read_soft_labels
from linformer_fairseq.files.errors import UserError
from scripts.reproduce_tools import teacher

COUNT = 200
WORDS = ["the", "a", "film", "plot", "actor", "scene", "and", "with", "of", "music"]


def reviews(count: int, seed: int = 1) -> list[str]:
    """Lines of a label, and a text whose last word tells it."""
    generator = random.Random(seed)
    lines = []
    for number in range(count):
        text = " ".join(generator.choices(WORDS, k=6))
        lines.append(f"{('neg', 'pos')[number % 2]}\t{text} {('dull', 'moving')[number % 2]}")
    return lines


def files(folder: Path, train: list[str]) -> list[str]:
    for name, lines in (("train", train), ("valid", ["neg\tunlike all others", "pos\tand this"])):
        (folder / f"{name}.tsv").write_text("".join(f"{line}\n" for line in lines))
    return [str(folder / "train.tsv"), str(folder / "valid.tsv")]


def test_the_table_is_one_of_soft_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "teacher.tsv"
    teacher.main(["tsv", "--from", *files(tmp_path, reviews(COUNT)), "--out", str(out)])
    assert f"{out}: 100.0 % of" in capsys.readouterr().out
    found = of_examples(read_soft_labels(out, ("neg", "pos")), [str(number) for number in range(COUNT)])
    assert (found[::2, 0] > 0.5).all() and (found[1::2, 1] > 0.5).all()
    before = out.read_bytes()
    teacher.main(["tsv", "--from", *files(tmp_path, reviews(COUNT)), "--out", str(out)])
    assert out.read_bytes() == before


def test_no_example_teaches_itself(tmp_path: Path) -> None:
    """Labels that nothing in the texts tells cannot be predicted; fitted on all examples, it would repeat them."""
    generator = random.Random(1)
    labels = ["neg", "pos"] * (COUNT // 2)
    generator.shuffle(labels)
    train = [f"{label}\t{' '.join(f'word{generator.randrange(200)}' for _ in range(12))}" for label in labels]
    right = teacher.write(teacher.TASKS["tsv"], files(tmp_path, train), tmp_path / "teacher.tsv")
    assert 35 < right < 65


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ([*reviews(COUNT), "none\tof both"], "two classes, found neg, none, pos"),
        (reviews(8), "5 training examples of each class"),
    ],
)
def test_what_it_cannot_teach_is_refused(tmp_path: Path, train: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        teacher.write(teacher.TASKS["tsv"], files(tmp_path, train), tmp_path / "teacher.tsv")
    assert not (tmp_path / "teacher.tsv").exists()


def test_a_teacher_without_words_or_with_its_own_input_as_output_is_refused(tmp_path: Path) -> None:
    train, out = tmp_path / "train.tsv", tmp_path / "teacher.tsv"
    rows = "".join(f"{'ab'[i % 2]}\tword{i}\n" for i in range(20))
    train.write_text(rows)
    with pytest.raises(UserError, match="train.tsv: too few texts for a bag of words"):
        teacher.main(["tsv", "--from", str(train), "--out", str(out)])
    with pytest.raises(UserError, match="--out .*train.tsv: this file is read, and would be lost"):
        teacher.main(["tsv", "--from", str(train), "--out", str(train)])
    assert train.read_text() == rows and not out.exists()

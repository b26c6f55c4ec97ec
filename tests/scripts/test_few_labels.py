"""Soft labels of bags of words that learn from few labels, and from each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from data_prep.tasks.soft_labels import of_examples, read_soft_labels
from linformer_fairseq.files.errors import UserError
from scripts.reproduce_tools import few_labels
from scripts.reproduce_tools.bags import Bags

from .test_teacher import COUNT, files, reviews

KNOWN = 20


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """For all texts, and for those with labels."""
    for name in ("all", "few"):
        (tmp_path / name).mkdir()
    return tmp_path / "all", tmp_path / "few"


def made(folders: tuple[Path, Path], train: list[str], few: list[str], *more: str) -> np.ndarray:
    """The table of a run of the program, (examples, classes)."""
    out = folders[0] / "teacher.tsv"
    words = ["tsv", "--from", *files(folders[0], train), "--labelled", *files(folders[1], few), "--out", str(out)]
    few_labels.main([*words, *more])
    return of_examples(read_soft_labels(out, ("neg", "pos")), [str(number) for number in range(len(train))])


def test_few_labels_teach_the_others(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    train = reviews(COUNT)
    found = made(folders, train, train[:KNOWN])
    assert f"{KNOWN} training examples with a label, {COUNT - KNOWN} with" in capsys.readouterr().out
    assert found[:KNOWN].tolist() == [[1, 0], [0, 1]] * (KNOWN // 2)
    assert (found.argmax(axis=1) == np.arange(COUNT) % 2).mean() > 0.9
    assert ((found[KNOWN:] > 0) & (found[KNOWN:] < 1)).all()
    wrong = ["neg\t" + line.partition("\t")[2] for line in train[KNOWN:-1]] + ["pos\t" + train[-1].partition("\t")[2]]
    assert (made(folders, [*train[:KNOWN], *wrong], train[:KNOWN]) == found).all(), "labels that are not to be used"


def test_no_half_teaches_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    fits = []

    def judge(self: Bags, fitted: np.ndarray, second: np.ndarray, others: np.ndarray) -> np.ndarray:
        fits.append((fitted.tolist(), second.tolist(), others.tolist()))
        return np.full(len(others), len(fits) / 10)

    monkeypatch.setattr(Bags, "judge", judge)
    second = np.array([np.nan] * 4 + [0, 1] + [np.nan] * 4)
    few_labels.teach(["same words"] * 10, second)
    (known, labels, unknown), *rounds = fits
    assert (known, labels, unknown) == ([4, 5], [0, 1], [0, 1, 2, 3, 6, 7, 8, 9])
    assert len(rounds) == 2 * few_labels.ROUNDS
    for fitted, _, others in rounds:
        assert {4, 5} < {*fitted} and fitted == sorted(fitted)
        assert sorted(fitted + others) == list(range(10)) and len(others) == 4
    assert [set(targets) - {0, 1} for _, targets, _ in rounds] == [{0.1}, {0.1}, {0.3}, {0.2}, {0.5}, {0.4}]


def test_another_model_has_a_third_of_the_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bags, "judge", lambda self, fitted, second, others: np.full(len(others), 0.5))
    other = np.array([0.9, 0.9, 0.8, 0.2])
    found = few_labels.teach(["same words"] * 4, np.array([1, 0, np.nan, np.nan]), other)
    assert found == pytest.approx([1, 0, 1 / 3 + 0.8 / 3, 1 / 3 + 0.2 / 3])


def test_the_table_of_another_model_is_used(folders: tuple[Path, Path], tmp_path: Path) -> None:
    train = reviews(COUNT)
    table = tmp_path / "other.tsv"
    table.write_text("id\tneg\tpos\n" + "".join(f"{number}\t1.0\t0.0\n" for number in range(COUNT)))
    alone, found = made(folders, train, train[:KNOWN]), made(folders, train, train[:KNOWN], "--soft-labels", str(table))
    assert (found[KNOWN:, 0] > 1 / 3).all() and (found[KNOWN:, 0] > alone[KNOWN:, 0]).all()
    assert (found[:KNOWN] == alone[:KNOWN]).all()


@pytest.mark.parametrize(
    ("few", "message"),
    [
        (["no\tother classes", "yes\tthan those"], "expected the classes of --from, neg, pos, found no, yes"),
        (["neg\tnot among the texts", "pos\tnor this"], f"found 0 of the {COUNT} training examples"),
        (reviews(COUNT), f"found {COUNT} of the {COUNT} training examples"),
        ([reviews(COUNT)[0], "pos\tnot among the texts"], f"texts of both classes .* found 1 of the {COUNT}"),
    ],
)
def test_labels_that_cannot_teach_are_refused(folders: tuple[Path, Path], few: list[str], message: str) -> None:
    source, labelled = files(folders[0], reviews(COUNT)), folders[1] / "train.tsv"
    labelled.write_text("".join(f"{line}\n" for line in few))
    out = folders[0] / "teacher.tsv"
    with pytest.raises(UserError, match=message):
        few_labels.write(few_labels.TASKS["tsv"], source, [str(labelled)], None, out)
    assert not out.exists()

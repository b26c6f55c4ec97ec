"""The standard library as text and as a classification task."""

import json
import sys
from pathlib import Path

import pytest

from data_prep import build_corpus, stdlib_packages
from data_prep.documents import fingerprint
from data_prep.errors import DataError
from data_prep.stdlib_source import Docstring, docstrings, topics


@pytest.fixture(scope="module")
def source() -> list[Docstring]:
    return docstrings()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stdlib")
    build_corpus.build(folder, build_corpus.stdlib_documents())
    return folder


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    stdlib_packages.build(folder)
    return folder


def _rows(folder: Path, name: str) -> list[list[str]]:
    return [line.split("\t") for line in (folder / f"{name}.tsv").read_text(encoding="utf-8").splitlines()]


def test_nothing_is_imported_to_read_it() -> None:
    before = set(sys.modules)
    docstrings()
    assert not {"antigravity", "this", "turtle"} & (set(sys.modules) - before)


def test_docstrings_know_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "pack" / "tests").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text('"""Package."""\n')
    (tmp_path / "pack" / "tests" / "test_x.py").write_text('"""A test."""\n')
    (tmp_path / "pack" / "inner.py").write_text(
        'class A:\n    """Class."""\n    if True:\n        def f(self):\n            """Method."""\n'
    )
    (tmp_path / "broken.py").write_text("def (:\n")
    assert docstrings(tmp_path) == [
        Docstring("pack", "", "Package."),
        Docstring("pack.inner", "A", "Class."),
        Docstring("pack.inner", "A.f", "Method."),
    ]


def test_missing_topics_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no pydoc_data.topics.*--text FILE"):
        topics(tmp_path)


def test_there_is_enough_text_and_no_paragraph_twice(text: Path) -> None:
    sides = {n: (text / f"{n}.txt").read_text(encoding="utf-8").split("\n") for n in ("train", "valid")}
    marks = [fingerprint(line) for side in sides.values() for line in side if line]
    assert len(set(marks)) == len(marks)
    assert sum(len(line) for line in sides["train"]) > 1_200_000
    assert sum(len(line) for line in sides["valid"]) > 40_000


def test_task_has_classes_and_no_text_on_both_sides(task: Path) -> None:
    train, valid = _rows(task, "train"), _rows(task, "valid")
    labels = {row[0] for row in train}
    assert 6 <= len(labels) <= 8 and {row[0] for row in valid} == labels
    marks = [fingerprint(text) for _, text in train + valid]
    assert len(set(marks)) == len(marks)
    stats = json.loads((task / "stats.json").read_text())
    share = 100 * sum(row[0] == stats["majority_class"] for row in valid) / len(valid)
    assert stats["majority_accuracy"] == pytest.approx(share, abs=0.01)
    assert share < 30


def test_what_the_task_holds_out_is_not_in_the_pretraining_text(
    task: Path, text: Path, source: list[Docstring]
) -> None:
    written = {
        fingerprint(line) for n in ("train", "valid") for line in (text / f"{n}.txt").read_text().split("\n") if line
    }
    held_out = {fingerprint(row[1]) for row in _rows(task, "valid")}
    checked = 0
    for item in source:
        blocks = build_corpus.paragraphs(item.text)
        if fingerprint(" ".join(blocks)) in held_out:
            checked += 1
            assert not written & {fingerprint(block) for block in blocks}
    assert checked >= len(held_out)


def test_a_text_of_two_packages_is_no_example() -> None:
    long = "the very same words are the documentation of two packages, {}"
    source = [
        Docstring(f"package{p}.module", f"f{i}", f"function {i} of the package with number {p} does a thing")
        for p in range(6)
        for i in range(70)
    ]
    source += [Docstring("package0", "g", long.format("X")), Docstring("package1", "g", long.format("x"))]
    train, valid = stdlib_packages.task_examples(source)
    assert len(train) + len(valid) == 6 * 70
    with pytest.raises(DataError, match="only 5 packages"):
        stdlib_packages.task_examples([item for item in source if item.package != "package5"])


def test_both_are_the_same_on_a_second_run(text: Path, task: Path, tmp_path: Path) -> None:
    build_corpus.main(["--out", str(tmp_path / "text")])
    stdlib_packages.main(["--out", str(tmp_path / "task")])
    for first, second in ((text, tmp_path / "text"), (task, tmp_path / "task")):
        files = sorted(path.name for path in first.iterdir())
        assert files == sorted(path.name for path in second.iterdir())
        assert all((first / name).read_bytes() == (second / name).read_bytes() for name in files)

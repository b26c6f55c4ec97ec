"""The standard library as text and as a classification task."""

import json
import sys
from pathlib import Path

import pytest

from data_prep import build_corpus, stdlib_packages
from data_prep.corpus.text_shards import shard_files
from data_prep.stdlib.docstrings import Docstring, docstrings, fingerprint, paragraphs, topics
from data_prep.stdlib.task import task_examples
from linformer_fairseq.files.errors import UserError
from tests.data_prep.documents import read_documents
from tests.data_prep.processes import bytes_of, start

CORPUS_OPTIONS = ("--deduplicate", "paragraphs", "--valid-share", "0.06", "stdlib")


@pytest.fixture(scope="module")
def source() -> tuple[Docstring, ...]:
    return docstrings()


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stdlib")
    build_corpus.main(["--out", str(folder), *CORPUS_OPTIONS])
    return folder


def _lines(corpus: Path, split: str) -> list[str]:
    return [line for path in shard_files(corpus / split) for text in read_documents(path) for line in text.split("\n")]


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    stdlib_packages.build(folder)
    return folder


def _rows(folder: Path, name: str) -> list[list[str]]:
    return [line.split("\t") for line in (folder / f"{name}.tsv").read_text(encoding="utf-8").splitlines()]


@pytest.mark.slow
def test_nothing_is_imported_to_read_it(source: tuple[Docstring, ...]) -> None:
    assert "antigravity" in {item.module for item in source}
    assert not {"antigravity", "this"} & set(sys.modules)


def test_docstrings_know_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "pack" / "tests").mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text('"""Package."""\n')
    (tmp_path / "pack" / "tests" / "test_x.py").write_text('"""A test."""\n')
    (tmp_path / "pack" / "inner.py").write_text(
        'class A:\n    """Class."""\n    if True:\n        def f(self):\n            """Method."""\n'
    )
    (tmp_path / "broken.py").write_text("def (:\n")
    assert docstrings(tmp_path) == (
        Docstring("pack", "", "Package."),
        Docstring("pack.inner", "A", "Class."),
        Docstring("pack.inner", "A.f", "Method."),
    )


def test_missing_topics_are_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no pydoc_data.topics.*text of your own"):
        topics(tmp_path)


@pytest.mark.slow
def test_there_is_enough_text_and_no_paragraph_twice(text: Path) -> None:
    train, valid = _lines(text, "train"), _lines(text, "valid")
    assert len({*train, *valid}) == len(train) + len(valid)
    assert sum(map(len, train)) > 1_200_000
    assert sum(map(len, valid)) > 40_000


@pytest.mark.slow
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


@pytest.mark.slow
def test_what_the_task_holds_out_is_not_in_the_pretraining_text(
    task: Path, text: Path, source: tuple[Docstring, ...]
) -> None:
    written = {fingerprint(line) for split in ("train", "valid") for line in _lines(text, split)}
    held_out = {fingerprint(row[1]) for row in _rows(task, "valid")}
    checked = 0
    for item in source:
        blocks = paragraphs(item.text)
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
    train, valid = task_examples(source)
    assert len(train) + len(valid) == 6 * 70
    with pytest.raises(UserError, match="only 5 packages"):
        task_examples([item for item in source if item.package != "package5"])


@pytest.mark.slow
def test_both_are_the_same_in_another_process(text: Path, task: Path, tmp_path: Path) -> None:
    for program, *words in (
        ("build_corpus", "--out", tmp_path / "text", *CORPUS_OPTIONS),
        ("stdlib_packages", "--out", tmp_path / "task"),
    ):
        process = start(program, *words)
        output, _ = process.communicate()
        assert process.returncode == 0, output
    assert bytes_of(tmp_path / "text") == bytes_of(text)
    assert bytes_of(tmp_path / "task") == bytes_of(task)


def test_paragraphs_cut_at_blank_lines_and_lose_rules_and_controls() -> None:
    assert paragraphs("A\n  heading\n=====\n \t\nb\x00c\r\n\r\n  d   e\n\n\n***\n") == ["A heading", "b c", "d e"]

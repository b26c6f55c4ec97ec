"""A teacher's probabilities of the classes, and tables that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_prep.tasks.soft_labels import of_examples, read_soft_labels
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_data import read_task
from linformer_fairseq.files.tsv import tsv_line

LABELS = ("neg", "pos")
ZIP = b"PK\x05\x06" + bytes(18)
"""An empty archive, as numpy.savez writes it."""


def table(folder: Path, *lines: str, header: str = "id\tpos\tprediction\tneg") -> Path:
    path = folder / "teacher.tsv"
    path.write_text("".join(f"{line}\n" for line in (header, *lines)))
    return path


def test_columns_are_found_by_the_names_of_the_classes(tmp_path: Path) -> None:
    path = table(tmp_path, "a\t0.25\tneg\t0.75", "b\t1\tpos\t0", "not in train\t0\tneg\t1")
    found = of_examples(read_soft_labels(path, LABELS), ["b", "a"])
    assert found.dtype == np.float32 and found.tolist() == [[0, 1], [0.75, 0.25]]


def test_lines_of_one_text_are_averaged(tmp_path: Path) -> None:
    path = table(tmp_path, "a\t0.25\tneg\t0.75", "a\t0.75\tpos\t0.25", "a\t1\tpos\t0", "b\t0\tneg\t1")
    found = of_examples(read_soft_labels(path, LABELS), ["a", "b", "a"])
    np.testing.assert_allclose(found, [[1 / 3, 2 / 3], [1, 0], [1 / 3, 2 / 3]])


def test_rounded_probabilities_are_some(tmp_path: Path) -> None:
    found = of_examples(read_soft_labels(table(tmp_path, "a\t0.3333\tneg\t0.6666"), LABELS), ["a"])
    np.testing.assert_allclose(found, [[2 / 3, 1 / 3]], atol=1e-6)


def test_other_columns_may_hold_anything(tmp_path: Path) -> None:
    path = tmp_path / "teacher.tsv"
    path.write_bytes(b"id\tpos\ttext\tneg\na\t0.25\tcaf\xe9\t0.75\n")
    assert of_examples(read_soft_labels(path, LABELS), ["a"]).tolist() == [[0.75, 0.25]]


def test_names_of_classes_are_written_as_evaluate_does(tmp_path: Path) -> None:
    path = table(tmp_path, "a\t0.25\t0.75", header=tsv_line(("id", "a\\b", "pos")))
    assert of_examples(read_soft_labels(path, ["pos", "a\\b"]), ["a"]).tolist() == [[0.75, 0.25]]


@pytest.mark.parametrize(
    ("lines", "header", "message"),
    [
        (["a\t0.5"], "id\tpos", "teacher.tsv, line 1: .* neg, and found none in id . pos; expected what"),
        (["a\t0.5\t0.5"], "name\tneg\tpos", "line 1: .* id, and found none"),
        (
            ["a\t0.5\t0.5\t0"],
            "id\tneg\tpos\tneg",
            "line 1: .* neg, and found 2 .*; rename or remove the others",
        ),
        (["a\t1\t0", "b\t0.5"], "id\tneg\tpos", "line 3: expected 3 columns"),
        (["a\t1\tmuch"], "id\tneg\tpos", "line 2: .*neg, pos, which sum to 1"),
        (["a\t0.5\t0.6"], "id\tneg\tpos", "line 2: .*sum to 1"),
        (["a\t-0.5\t1.5"], "id\tneg\tpos", "line 2: .*sum to 1"),
        (["a\tnan\tnan"], "id\tneg\tpos", "line 2: .*sum to 1"),
        (["a\t1\t0"], "id\tneg\tpos", "--soft-labels: the table lacks 2 of the 3 examples of train .*'b'"),
    ],
)
def test_what_is_no_table_of_all_examples_is_refused(
    tmp_path: Path, lines: list[str], header: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        of_examples(read_soft_labels(table(tmp_path, *lines, header=header), LABELS), ["a", "b", "b", "c"])


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="teacher.tsv: no such file"):
        read_soft_labels(tmp_path / "teacher.tsv", LABELS)


def test_they_lie_beside_the_examples(prepare: Callable[..., Path], sst2: Path, tmp_path: Path) -> None:
    plain = read_task(prepare("sst2", sst2))
    with pytest.raises(UserError, match=r"soft_labels/train.npy: no such file.* --soft-labels"):
        plain.soft_labels("train")
    names = (plain.folder / "ids" / "train.txt").read_text().split()
    rows = [f"{name}\t{number / len(names)}\t{1 - number / len(names)}" for number, name in enumerate(names)]
    teacher = table(tmp_path, *reversed(rows), header="id\t1\t0")
    data = read_task(prepare("sst2", sst2, options=("--soft-labels", teacher)))
    expected = np.arange(len(names)) / len(names)
    np.testing.assert_allclose(data.soft_labels("train"), np.stack([1 - expected, expected], axis=1), atol=1e-6)
    manifest = json.loads((data.folder / "manifest.json").read_text())
    assert manifest["options"]["soft_labels"] == str(teacher)
    assert "soft_labels/train.npy" in manifest["sha256"]
    assert data.folder / "soft_labels" / "train.npy" in data.files


def test_each_window_has_those_of_its_text(prepare: Callable[..., Path], sst2: Path, tmp_path: Path) -> None:
    names = (prepare("sst2", sst2) / "ids" / "train.txt").read_text().split()
    rows = [f"{name}\t{number / len(names)}\t{1 - number / len(names)}" for number, name in enumerate(names)]
    teacher = table(tmp_path, *rows, header="id\t0\t1")
    data = read_task(
        prepare("sst2", sst2, options=("--soft-labels", teacher, "--max-positions", "6", "--cut", "windows"))
    )
    windows = (data.folder / "ids" / "train.txt").read_text().split()
    assert len(windows) > len(names)
    expected = [int(name) / len(names) for name in windows]
    np.testing.assert_allclose(data.soft_labels("train")[:, 0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("good", "agree", "warned"), [([0.9, 0.8, 0.4, 0.1], 4, False), ([0.9, 0.4, 0.2, 0.6], 2, True)]
)
def test_how_many_agree_with_the_labels_is_said(
    prepare: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    good: list[float],
    agree: int,
    warned: bool,
) -> None:
    texts = tmp_path / "train.tsv", tmp_path / "valid.tsv"
    texts[0].write_text("good\tfine\ngood\tbest\nbad\tpoor\nbad\tworst\n")
    texts[1].write_text("bad\tweak\n")
    teacher = table(tmp_path, *(f"{n}\t{one}\t{1 - one}" for n, one in enumerate(good)), header="id\tgood\tbad")
    folder = prepare("tsv", *texts, options=("--soft-labels", teacher))
    splits = json.loads((folder / "manifest.json").read_text())["splits"]
    assert [splits[name]["agree with their soft labels"] for name in ("train", "valid")] == [agree, None]
    said = capsys.readouterr().out
    assert f"{agree} ({25 * agree}.0 %)" in said
    assert ("warning: the soft labels" in said) == warned


def test_one_class_is_no_reason_to_doubt_the_teacher(
    prepare: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "train.tsv", tmp_path / "valid.tsv"
    for path in texts:
        path.write_text(f"good\t{path.stem}\n")
    prepare("tsv", *texts, options=("--soft-labels", table(tmp_path, "0\t1", header="id\tgood")))
    said = capsys.readouterr().out
    assert "warning: every example" in said and "warning: the soft labels" not in said


@pytest.mark.parametrize("wrong", [(np.nan, 1), (0.5, 0.6), (-0.5, 1.5), (np.inf, -np.inf), (3e38, 3e38)])
def test_what_are_no_probabilities_is_named(
    prepare: Callable[..., Path], sst2: Path, wrong: tuple[float, float]
) -> None:
    data = read_task(prepare("sst2", sst2))
    path = data.folder / "soft_labels" / "train.npy"
    path.parent.mkdir()
    values = np.full((len((data.folder / "ids" / "train.txt").read_text().split()), 2), 0.5, np.float32)
    values[1] = wrong
    np.save(path, values)
    with pytest.raises(UserError, match=r"soft_labels/train.npy, example 1, from 0: .* expected probabilities"):
        data.soft_labels("train")


def header(shape: str) -> bytes:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


HALVES = np.full((3, 2), 0.5, np.float32)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "damaged"),
        (b"\x93NUMPY\x01\x00v", "damaged"),
        (ZIP, "damaged"),
        (header("(3, 2)").replace(b"}", b" "), "damaged"),
        (header("(4000000000000, 2)"), r"float32 .4000000000000, 2., expected float32 .3, 2. by rows"),
        (header("(3, 2)") + bytes(23), "23 bytes of numbers"),
        (header("(3, 2)") + bytes(25), "25 bytes of numbers"),
        (np.zeros((3, 3), np.float32), r"float32 .3, 3., expected float32 .3, 2."),
        (HALVES[:2], r"float32 .2, 2., expected float32 .3, 2."),
        (np.asfortranarray(HALVES), "expected float32 .* by rows"),
        (HALVES.astype(np.float64), "float64 .*, expected float32"),
    ],
)
def test_damaged_ones_are_named(
    prepare: Callable[..., Path], sst2: Path, content: bytes | np.ndarray, message: str
) -> None:
    data = read_task(prepare("sst2", sst2))
    path = data.folder / "soft_labels" / "train.npy"
    path.parent.mkdir()
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content)
    with pytest.raises(UserError, match=f"soft_labels/train.npy: .*{message}.*prepare the task again"):
        data.soft_labels("train")


def test_a_file_that_cannot_be_read_is_named(prepare: Callable[..., Path], sst2: Path, monkeypatch: Any) -> None:
    data = read_task(prepare("sst2", sst2))
    path = data.folder / "soft_labels" / "train.npy"
    path.parent.mkdir()
    np.save(path, HALVES)

    def fail(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(UserError, match="soft_labels/train.npy: cannot be read: Permission denied"):
        data.soft_labels("train")

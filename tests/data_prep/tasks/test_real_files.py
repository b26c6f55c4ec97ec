"""The real files: every row is accounted for, and comes back as it was."""

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data_prep.tokenizers import load_tokenizer
from linformer_fairseq.files.task_inputs import without_breaks
from tests.data_prep.processes import manifest

_DATA = Path(os.environ.get("LINFORMER_DATA", ""))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("LINFORMER_DATA"), reason="LINFORMER_DATA does not name a folder of real data"
    ),
]

# Task, folder, columns of the texts in its files, column of the label.
_GLUE = [("sst2", "SST-2", [0], 1), ("qnli", "QNLI", [1, 2], 3), ("qqp", "QQP", [3, 4], 5)]


@pytest.fixture
def tokenizer_folder() -> Path:
    """RoBERTa's, whose decode gives back every text as it was."""
    pytest.importorskip("tiktoken")
    return _DATA / "bpe"


def items(prefix: Path) -> list[list[int]]:
    """What a .bin holds, by the sizes in the .idx."""
    index = prefix.with_suffix(".idx").read_bytes()
    count = int.from_bytes(index[18:26], "little")
    sizes = np.frombuffer(index, dtype="<i4", count=count, offset=26)
    tokens = np.fromfile(prefix.with_suffix(".bin"), dtype=np.uint16)
    return [part.tolist() for part in np.split(tokens, np.cumsum(sizes)[:-1])]


@pytest.mark.parametrize(("task", "folder", "texts", "label"), _GLUE)
def test_glue(
    prepare: Callable[..., Path], tokenizer_folder: Path, task: str, folder: str, texts: list[int], label: int
) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    out = prepare(task, _DATA / "glue", options=("--strict",))
    labels = manifest(out)["labels"]
    for split, name in (("train", "train"), ("valid", "dev"), ("test", "test")):
        path = _DATA / "glue" / folder / f"{name}.tsv"
        if not path.exists():
            assert split not in manifest(out)["splits"]
            continue
        rows = [line.split("\t") for line in path.read_bytes().decode().removesuffix("\n").split("\n")[1:]]
        for number, column in enumerate(texts):
            found = items(out / f"input{number}" / split)
            assert all(item[-1] == 2 for item in found)
            assert [tokenizer.decode(item[:-1]) for item in found] == [row[column].strip() for row in rows]
        if split != "test":
            assert items(out / "label" / split) == [[4 + labels.index(row[label]), 2] for row in rows]
    splits = manifest(out)["splits"]
    if task == "sst2":
        assert (splits["train"]["repeated texts"], splits["train"]["texts with several labels"]) == (371, 5)
        assert splits["valid"]["examples"] == splits["valid"]["official"] == 872
    if task == "qnli":
        assert splits["valid"]["texts also in train"] == 0


def test_imdb(prepare: Callable[..., Path], tokenizer_folder: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    out = prepare("imdb", _DATA / "aclImdb.tar.xz", options=("--strict",))
    with tarfile.open(_DATA / "aclImdb.tar.xz") as archive:
        expected = {
            member.name: without_breaks(archive.extractfile(member).read().decode()).strip(" \t")  # type: ignore[union-attr]
            for member in archive
            if member.name.endswith(".txt")
        }
    found = {}
    for split, folder in (("train", "train"), ("valid", "test")):
        names = (out / "ids" / f"{split}.txt").read_text().split()
        stored = items(out / "input0" / split)
        classes = [item[0] - 4 for item in items(out / "label" / split)]
        for name, item, number in zip(names, stored, classes, strict=True):
            assert name.startswith(("neg/", "pos/")[number])
            found[f"aclImdb/{folder}/{name}.txt"] = tokenizer.decode(item[:-1])
    assert found == expected
    assert len(found) == 7_500
    counts = [split["counts"]["with C1 control characters"] for split in manifest(out)["splits"].values()]
    assert sum(counts) == 241

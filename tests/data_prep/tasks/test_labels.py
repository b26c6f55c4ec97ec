"""Splits with labels, without, and what is neither."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from data_prep.tasks.examples import Limit, collect
from data_prep.tasks.rows import Row
from data_prep.tokenizers import load_tokenizer
from linformer_fairseq.files.errors import UserError


def rows(split: str, labels: list[str | None]) -> Iterator[Row]:
    for number, label in enumerate(labels):
        yield Row(split, (number, 0), str(number), (f"text {number}",), label, "file", number + 1)


def test_a_split_has_labels_for_all_or_for_none(tokenizer_folder: Path) -> None:
    tokenizer = load_tokenizer(tokenizer_folder)
    for labels in (["a", "b", "a"], [None, None, None]):
        assert collect(rows("test", labels), ("a", "b"), tokenizer, Limit()).splits["test"].labels == labels
    for mixed, count in ((["a", None, "b"], 1), ([None, None, "b"], 2)):
        with pytest.raises(UserError, match=f"^test: {count} of 3 .*no label"):
            collect(rows("test", mixed), ("a", "b"), tokenizer, Limit())


def test_a_mixed_test_set_of_the_hub_is_refused(prepare: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    from tests.data_prep.hub_server import parquet_bytes

    (tmp_path / "sst2").mkdir()
    for name, labels in (("train", [1, 0, 1]), ("validation", [1, 0, 1]), ("test", [1, -1, 0])):
        content = parquet_bytes({"sentence": [f"{name} {number}" for number in range(3)], "label": labels})
        (tmp_path / "sst2" / f"{name}-0.parquet").write_bytes(content)
    with pytest.raises(UserError, match="test: 1 of 3 examples have no label"):
        prepare("sst2", tmp_path / "sst2")
    assert not (tmp_path / "task").exists()

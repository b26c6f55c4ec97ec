"""Vectors in .npy and parquet files, as numpy and pyarrow read them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.prediction import vectors
from linformer_fairseq.prediction.results import Embedding
from linformer_fairseq.prediction.vectors import open_vectors

WIDTH = 3


def text(number: int) -> Embedding:
    return Embedding(np.full(WIDTH, number, dtype=np.float32), None, 1, False)


def tokens(*numbers: int) -> Embedding:
    found = np.array([[number] * WIDTH for number in numbers], dtype=np.float32)
    return Embedding(found, [f"t{number}" for number in numbers], 1, False)


def written(path: Path, *found: Embedding | None, of_tokens: bool = False) -> Path:
    with open_vectors(path, WIDTH, of_tokens) as out:
        for number, one in enumerate(found):
            out.add(f"id{number}", one)
        assert not path.exists(), "before it is whole"
    return path


@pytest.mark.parametrize("count", [0, 1, 12_345])
def test_an_array_of_any_length(tmp_path: Path, count: int) -> None:
    found = np.load(written(tmp_path / "v.npy", *map(text, range(count))))
    assert found.dtype == np.float32
    assert np.array_equal(found, np.repeat(np.arange(count, dtype=np.float32)[:, None], WIDTH, axis=1))
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_a_text_that_was_not_read_keeps_its_row(tmp_path: Path) -> None:
    found = np.load(written(tmp_path / "v.npy", text(1), None, text(2)))
    assert np.isnan(found[1]).all() and found[[0, 2], 0].tolist() == [1, 2]


def test_arrays_of_tokens(tmp_path: Path) -> None:
    path = written(tmp_path / "v.npy", tokens(1, 2), None, tokens(3), of_tokens=True)
    assert np.load(path)[:, 0].tolist() == [1, 2, 3]
    assert np.load(tmp_path / "v.lengths.npy").tolist() == [2, 0, 1]


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_parquet(tmp_path: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(vectors, "_ROWS", rows)
    found = parquet.read_table(written(tmp_path / "v.parquet", text(1), None, text(2)))
    assert found.to_pylist() == [
        {"id": "id0", "vector": [1] * WIDTH},
        {"id": "id1", "vector": None},
        {"id": "id2", "vector": [2] * WIDTH},
    ]
    path = written(tmp_path / "t.parquet", tokens(1, 2), None, of_tokens=True)
    assert parquet.read_table(path).to_pylist() == [
        {"id": "id0", "tokens": ["t1", "t2"], "vectors": [[1] * WIDTH, [2] * WIDTH]},
        {"id": "id1", "tokens": None, "vectors": None},
    ]


@pytest.mark.parametrize(("rows", "values", "groups"), [(4, 2 * WIDTH, [2, 1, 2]), (3, 100, [3, 2])])
def test_a_row_group_ends_after_so_many_rows_or_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, values: int, groups: list[int]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(vectors, "_ROWS", rows)
    monkeypatch.setattr(vectors, "_VALUES", values)
    found = [tokens(1), tokens(2), tokens(3, 4), tokens(5), tokens(6)]
    about = parquet.read_metadata(written(tmp_path / "t.parquet", *found, of_tokens=True))
    assert [about.row_group(number).num_rows for number in range(about.num_row_groups)] == groups


def test_nothing_is_left_of_what_failed(tmp_path: Path) -> None:
    for name in ("v.npy", "v.parquet"):
        with pytest.raises(ZeroDivisionError), open_vectors(tmp_path / name, WIDTH, True) as out:
            out.add("1", tokens(1))
            raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_another_ending_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"v.csv: expected a name that ends with .npy or .parquet"):
        written(tmp_path / "v.csv")

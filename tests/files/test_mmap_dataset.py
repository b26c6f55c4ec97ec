"""fairseq's mmap datasets: ours are fairseq's byte for byte, and appear whole or not at all."""

from pathlib import Path

import numpy as np
import pytest

from linformer_fairseq.files import mmap_dataset
from linformer_fairseq.files.dictionary import EOS
from linformer_fairseq.files.mmap_dataset import open_dataset
from tests.binarised import write_items


@pytest.mark.parametrize(("vocabulary", "dtype"), [(60_000, np.uint16), (70_000, np.int32)])
def test_element_type_holds_the_ids(tmp_path: Path, vocabulary: int, dtype: type) -> None:
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    ids = [np.array([vocabulary - 1, 4, EOS]), np.array([EOS])]
    mmap_dataset.write_dataset(tmp_path / "x", ids, vocabulary)
    dataset = MMapIndexedDataset(str(tmp_path / "x"))
    assert [dataset[i].tolist() for i in range(2)] == [[vocabulary - 1, 4, EOS], [EOS]]
    assert dataset._index.dtype == dtype


@pytest.mark.parametrize(("vocabulary", "dtype"), [(65_499, np.uint16), (65_500, np.int32)])
def test_an_index_is_fairseqs_byte_for_byte(
    tmp_path: Path, vocabulary: int, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As fairseq writes that element type; for a large vocabulary it would itself choose uint32."""
    import torch
    from fairseq.data import indexed_dataset

    monkeypatch.setattr(mmap_dataset, "_CHUNK", 7)  # several chunks
    ids = [np.arange(4, 4 + size % 11) for size in range(1, 60)]
    mmap_dataset.write_dataset(tmp_path / "ours", ids, vocabulary)
    builder = indexed_dataset.MMapIndexedDatasetBuilder(str(tmp_path / "theirs.bin"), dtype=dtype)
    for item in ids:
        builder.add_item(torch.from_numpy(item))
    builder.finalize(str(tmp_path / "theirs.idx"))
    for suffix in ("bin", "idx"):
        assert (tmp_path / f"ours.{suffix}").read_bytes() == (tmp_path / f"theirs.{suffix}").read_bytes()


def test_an_interrupted_write_leaves_no_files(tmp_path: Path) -> None:
    def ids():  # type: ignore[no-untyped-def]
        yield np.array([4, EOS])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mmap_dataset.write_dataset(tmp_path / "x", ids(), 100)
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_is_read(tmp_path: Path) -> None:
    write_items(tmp_path / "x", [[4, 5, EOS], [EOS], [70_001, EOS]], vocabulary=70_002)
    dataset = open_dataset(tmp_path / "x")
    assert (dataset.items, dataset.dtype) == (3, np.int32)
    assert dataset.sizes.tolist() == [3, 1, 2] and dataset.offsets.tolist() == [0, 12, 16]
    assert [dataset.item(number) for number in range(3)] == [[4, 5, EOS], [EOS], [70_001, EOS]]

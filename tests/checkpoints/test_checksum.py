"""A checkpoint with its checksum is read by everybody, and nothing can happen to it unnoticed."""

import errno
import io
import random
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq.checkpoints.checksum import Bytes, ChecksumWriter, check_bytes
from linformer_fairseq.checkpoints.reading import read_checkpoint
from tests.checkpoint_files import make_state, save


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save(tmp_path / "checkpoint_last.pt", 7)


def _found(path: Path, content: bytes) -> Bytes:
    path.write_bytes(content)
    return check_bytes(path)[0]


def test_torch_reads_it(checkpoint: Path) -> None:
    expected = make_state(7)["model"]["weight"]
    for weights_only in (True, False):
        for mmap in (True, False):
            state = torch.load(checkpoint, weights_only=weights_only, mmap=mmap)
            assert torch.equal(state["model"]["weight"], expected)
    with checkpoint.open("rb") as file:
        assert torch.equal(torch.load(file, weights_only=True)["model"]["weight"], expected)
    assert torch.equal(read_checkpoint(checkpoint)["model"]["weight"], expected)


def test_zip_programs_read_it(checkpoint: Path, tmp_path: Path) -> None:
    torch.save(make_state(7), tmp_path / "plain.pt")
    with zipfile.ZipFile(checkpoint) as archive, zipfile.ZipFile(tmp_path / "plain.pt") as plain:
        assert archive.testzip() is None
        assert archive.comment.startswith(b"linformer-fairseq sha256 ")
        sizes = {Path(entry.filename).name: entry.file_size for entry in plain.infolist()}
        assert {Path(entry.filename).name: entry.file_size for entry in archive.infolist()} == sizes


def test_sound(checkpoint: Path) -> None:
    assert check_bytes(checkpoint) == (Bytes.SOUND, "")


@pytest.mark.parametrize("size", [1, 21, 22, 23])
def test_it_is_written_in_any_pieces(tmp_path: Path, size: int) -> None:
    plain = io.BytesIO()
    torch.save(make_state(7), plain)
    with (tmp_path / "pieces.pt").open("wb") as file:
        writer = ChecksumWriter(file)
        plain.seek(0)
        while piece := plain.read(size):
            writer.write(piece)
        writer.finish()
    assert check_bytes(tmp_path / "pieces.pt") == (Bytes.SOUND, "")


@pytest.mark.slow
def test_every_flipped_bit_is_seen(checkpoint: Path) -> None:
    content, generator = checkpoint.read_bytes(), random.Random(1)
    # any bit of the end, where the checksum stands, and one of each byte before it
    places = [(len(content) - 1 - at, bit) for at in range(200) for bit in range(8)]
    places += [(at, generator.randrange(8)) for at in range(0, len(content) - 200)]
    unseen = []
    for at, bit in places:
        flipped = bytearray(content)
        flipped[at] ^= 1 << bit
        if _found(checkpoint, bytes(flipped)) is not Bytes.DAMAGED:
            unseen.append((at, bit))
    assert unseen == []


@pytest.mark.slow
def test_every_truncation_is_seen(checkpoint: Path) -> None:
    content = checkpoint.read_bytes()
    assert [length for length in range(len(content)) if _found(checkpoint, content[:length]) is not Bytes.DAMAGED] == []


@pytest.mark.parametrize("more", [b"\0", b"x" * 22, bytes(4096), None], ids=["zero", "text", "page", "itself"])
def test_appended_bytes_are_seen(checkpoint: Path, more: bytes | None) -> None:
    content = checkpoint.read_bytes()
    assert _found(checkpoint, content + (content if more is None else more)) is Bytes.DAMAGED


def test_without_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "theirs.pt"
    torch.save(make_state(7), path)
    assert check_bytes(path) == (Bytes.NO_CHECKSUM, "")
    content = path.read_bytes()
    assert [length for length in range(len(content)) if _found(path, content[:length]) is not Bytes.DAMAGED] == []

    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = bytes(65_535)
    assert check_bytes(path) == (Bytes.NO_CHECKSUM, "")

    tensor = content.index(torch.full((5,), 7.0).numpy().tobytes())
    flipped = bytearray(content)
    flipped[tensor] ^= 1
    path.write_bytes(flipped)
    found, reason = check_bytes(path)
    assert found is Bytes.DAMAGED and "data/0" in reason


def test_a_failing_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: zipfile.ZipFile) -> None:
        raise OSError(errno.EIO, "Input/output error")

    torch.save(make_state(7), tmp_path / "theirs.pt")
    monkeypatch.setattr(zipfile.ZipFile, "testzip", fails)
    with pytest.raises(OSError, match="Input/output error"):
        check_bytes(tmp_path / "theirs.pt")


def test_broken_archives_raise_nothing(tmp_path: Path) -> None:
    path = tmp_path / "theirs.pt"
    torch.save({"a": torch.ones(2)}, path)
    content, generator = path.read_bytes(), random.Random(2)
    found = []
    for at in range(len(content)):
        flipped = bytearray(content)
        flipped[at] ^= 1 << generator.randrange(8)
        found.append(_found(path, bytes(flipped)))
    assert found.count(Bytes.DAMAGED) > 100


def test_written_before_zip(tmp_path: Path) -> None:
    path = tmp_path / "old.pt"
    torch.save(make_state(7), path, _use_new_zipfile_serialization=False)
    assert check_bytes(path) == (Bytes.NOTHING, "")


@pytest.mark.parametrize("content", [b"", b"dummy", b"PK\x03\x04" + bytes(100)])
def test_something_else(tmp_path: Path, content: bytes) -> None:
    assert _found(tmp_path / "other.pt", content) is Bytes.DAMAGED


def test_a_large_file_is_not_held_in_memory(tmp_path: Path) -> None:
    path, size = tmp_path / "large.pt", 64 * 2**20
    state = torch.zeros(size, dtype=torch.uint8)
    tracemalloc.start()
    with path.open("wb") as file:
        writer: Any = ChecksumWriter(file)
        torch.save(state, writer)
        writer.finish()
    assert check_bytes(path)[0] is Bytes.SOUND
    assert tracemalloc.get_traced_memory()[1] < size // 4
    tracemalloc.stop()


def test_the_reason_of_a_failed_write_is_kept() -> None:
    class FullDisk(io.BytesIO):
        def write(self, data: Any) -> int:
            if self.tell() > 500 and len(data):
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().write(data)

    writer: Any = ChecksumWriter(FullDisk())
    with pytest.raises(RuntimeError, match="unexpected pos"):  # all that torch says
        torch.save(make_state(7), writer)
    assert writer.failure.errno == errno.ENOSPC

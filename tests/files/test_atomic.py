"""A file is at every moment the old one or the whole new one."""

import errno
import os
from pathlib import Path

import pytest

from linformer_fairseq.files.atomic import atomic_open, write_file

OLD, NEW = b"old" * 100, b"new" * 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    return path


@pytest.mark.parametrize("durable", [False, True])
def test_the_old_file_is_there_until_the_new_one_is_whole(path: Path, durable: bool) -> None:
    with atomic_open(path, "wb", durable=durable) as stream:
        for _ in range(3):
            stream.write(NEW)
            stream.flush()
            assert path.read_bytes() == OLD
    assert path.read_bytes() == NEW * 3
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(errno.ENOSPC, "No space left on device")])
def test_what_ends_the_writing_leaves_the_old_file(path: Path, error: type[BaseException] | BaseException) -> None:
    with pytest.raises(type(error) if isinstance(error, BaseException) else error), atomic_open(path, "wb") as stream:
        stream.write(NEW)
        raise error
    assert path.read_bytes() == OLD
    assert list(path.parent.iterdir()) == [path]


def test_an_error_names_the_file_and_not_the_temporary_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError) as caught, atomic_open(path) as stream:
        stream.write("x")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    with pytest.raises(IsADirectoryError) as named:  # by the rename
        write_file(path.parent, "x")
    assert (named.value.filename, named.value.filename2) == (str(path.parent), None)
    with pytest.raises(FileNotFoundError) as other, atomic_open(path):  # of another file: its own name stays
        (path.parent / "absent").read_bytes()
    assert other.value.filename == str(path.parent / "absent")


def test_a_durable_file_is_on_the_disk_before_it_is_renamed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("fsync"), fsync(descriptor))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (calls.append("rename"), rename(self, to))[1])
    write_file(path, NEW, durable=True)
    assert calls == ["fsync", "rename", "fsync"]  # the file, its name, the folder
    write_file(path, NEW)
    assert calls[3:] == ["rename"]


def test_text_is_utf8_with_line_feeds_and_its_folder_is_made(tmp_path: Path) -> None:
    write_file(tmp_path / "a" / "b" / "x.txt", "naïve\nend\n")
    assert (tmp_path / "a" / "b" / "x.txt").read_bytes() == b"na\xc3\xafve\nend\n"
    write_file(tmp_path / "a" / "b" / "x.txt", b"\r\n")
    assert (tmp_path / "a" / "b" / "x.txt").read_bytes() == b"\r\n"

"""PathManager.copy, through which fairseq makes checkpoint_last.pt, never shows half a file."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from fairseq.file_io import PathManager

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)

OLD, NEW = b"old" * 100, b"new" * 1000


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    source, target = tmp_path / "checkpoint1.pt", tmp_path / "checkpoint_last.pt"
    source.write_bytes(NEW)
    target.write_bytes(OLD)
    return source, target


def _copy(source: Path, target: Path) -> Any:
    return PathManager.copy(str(source), str(target), overwrite=True)


def test_copies(files: tuple[Path, Path]) -> None:
    source, target = files
    assert _copy(source, target)
    assert target.read_bytes() == source.read_bytes() == NEW
    assert sorted(path.name for path in target.parent.iterdir()) == ["checkpoint1.pt", "checkpoint_last.pt"]


def test_target_is_whole_while_it_is_written(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = files
    seen = []

    def slow_copy(reader: Any, writer: Any, *_: Any) -> None:
        for _ in range(3):
            writer.write(reader.read(len(NEW) // 3))
            writer.flush()
            seen.append(target.read_bytes())

    monkeypatch.setattr(shutil, "copyfileobj", slow_copy)
    _copy(source, target)
    assert seen == [OLD, OLD, OLD]
    assert target.read_bytes() == NEW


def test_failed_copy_changes_nothing(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = files

    def full_disk(reader: Any, writer: Any, *_: Any) -> None:
        writer.write(reader.read(10))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full_disk)
    with pytest.raises(OSError, match="No space left"):
        _copy(source, target)
    assert target.read_bytes() == OLD
    assert len(list(target.parent.iterdir())) == 2


def test_file_is_on_disk_before_it_is_renamed(files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = files
    calls = []
    fsync, rename = __import__("os").fsync, Path.replace
    monkeypatch.setattr("os.fsync", lambda descriptor: (calls.append("fsync"), fsync(descriptor))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (calls.append("rename"), rename(self, to))[1])
    _copy(source, target)
    assert calls == ["fsync", "rename", "fsync"]  # the file, its name, the folder


def test_no_overwrite_unless_asked(files: tuple[Path, Path]) -> None:
    source, target = files
    assert PathManager.copy(str(source), str(target)) is False
    assert target.read_bytes() == OLD

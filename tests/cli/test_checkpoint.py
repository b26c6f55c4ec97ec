"""`linformer checkpoint verify`."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from linformer_fairseq.checkpoints import folder as folder_module
from linformer_fairseq.checkpoints.writing import write_checkpoint
from linformer_fairseq.cli import main
from linformer_fairseq.files import run_record
from linformer_fairseq.files.locks import Lock
from tests.checkpoint_files import damage, make_state
from tests.messages import says

Save = Callable[[Path, int], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, updates in (("1_2", 2), ("1_1400", 1400), ("last", 1400), ("best", 2)):
        write_checkpoint(make_state(updates), str(tmp_path / f"checkpoint_{name}.pt"))
    return tmp_path


def _verify(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    status = main(["checkpoint", "verify", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_sound_folder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, output = _verify(capsys, folder)
    size = (folder / "checkpoint_last.pt").stat().st_size
    assert status == 0
    assert output.splitlines() == [
        f"{folder}/checkpoint_1_1400.pt: sound, 1,400 updates, {size:,} bytes",
        f"{folder}/checkpoint_1_2.pt: sound, 2 updates, {size:,} bytes",
        f"{folder}/checkpoint_best.pt: sound, 2 updates, {size:,} bytes",
        f"{folder}/checkpoint_last.pt: sound, 1,400 updates, {size:,} bytes",
        f"{folder}: a run goes on from checkpoint_last.pt (1400 updates)",
    ]


def test_damaged_folder_is_only_looked_at(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder / "checkpoint_last.pt")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    status, output = _verify(capsys, folder)
    assert status == 1
    assert says(output, f"{folder}/checkpoint_last.pt", "damaged", "SHA-256")
    assert says(output.splitlines()[-1], folder, "checkpoint_1_1400.pt", "1400 updates")
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_set_aside(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("last", "1_1400", "best"):  # a run would not look at the best one: older than what it goes on from
        damage(folder / f"checkpoint_{name}.pt")
    write_checkpoint(make_state(700), str(folder / "checkpoint_1_700.pt"))
    status, output = _verify(capsys, "--set-aside", folder)
    assert status == 0
    assert output.splitlines()[-4:] == [
        f"{folder}/checkpoint_last.pt -> checkpoint_last.pt.damaged",
        f"{folder}/checkpoint_1_1400.pt -> checkpoint_1_1400.pt.damaged",
        f"{folder}/checkpoint_best.pt -> checkpoint_best.pt.damaged",
        f"{folder}/checkpoint_1_700.pt copied to checkpoint_last.pt",
    ]
    assert _verify(capsys, folder)[0] == 0
    state = torch.load(folder / "checkpoint_last.pt", weights_only=True)
    assert state["optimizer_history"][-1]["num_updates"] == 700


def test_a_folder_with_an_active_run_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(folder / "checkpoint_last.pt")
    with Lock(folder / run_record.LOCK, sign=True):
        before = sorted(folder.iterdir())
        status, output = _verify(capsys, "--set-aside", folder)
        assert status == 1 and says(output, f"--set-aside {folder}", "another process", f"process {os.getpid()} on")
        assert sorted(folder.iterdir()) == before
    assert _verify(capsys, "--set-aside", folder, folder)[0] == 0


def test_files_with_a_suffix(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in folder.iterdir():
        path.rename(folder / f"{path.stem}_x.pt")
    status, output = _verify(capsys, folder)
    said = output.splitlines()[-1]
    assert status == 0 and said.endswith("checkpoint_suffix=_x goes on from checkpoint_last_x.pt (1400 updates)")
    damage(folder / "checkpoint_last_x.pt")
    status, output = _verify(capsys, "--set-aside", folder)
    assert status == 0 and output.splitlines()[-1].endswith("checkpoint_1_1400_x.pt copied to checkpoint_last_x.pt")
    assert _verify(capsys, folder)[0] == 0
    (folder / "checkpoint_last_x.pt").unlink()
    assert says(_verify(capsys, folder)[1], "goes on from checkpoint_1_1400_x.pt (1400 updates)")


@pytest.mark.parametrize("suffixes", [("-shard0",), ("-shard0", "-shard1"), ("_x", "_y")])
def test_files_that_are_no_run_by_themselves(
    folder: Path, capsys: pytest.CaptureFixture[str], suffixes: tuple[str, ...]
) -> None:
    for path in sorted(folder.iterdir()):
        for suffix in suffixes:
            (folder / f"{path.stem}{suffix}.pt").write_bytes(path.read_bytes())
        path.unlink()
    before = sorted(folder.iterdir())
    status, output = _verify(capsys, "--set-aside", folder)
    assert status == 1 and says(output, f"{folder}: nothing to go on from")
    assert sorted(folder.iterdir()) == before


def test_links_to_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("last", "1_2"):
        (folder / f"checkpoint_{name}.pt").unlink()
        (folder / f"checkpoint_{name}.pt").symlink_to("nowhere")
    for path in (folder, folder / "checkpoint_last.pt"):
        status, output = _verify(capsys, path)
        assert status == 1 and says(output, f"{folder}/checkpoint_last.pt", "link to nowhere")
    assert says(_verify(capsys, folder)[1], f"{folder}: a run goes on from checkpoint_1_1400.pt")
    assert _verify(capsys, "--set-aside", folder)[0] == 0
    assert _verify(capsys, folder)[0] == 0
    assert (folder / "checkpoint_last.pt").is_file() and (folder / "checkpoint_1_2.pt.damaged").is_symlink()


def test_nothing_sound(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in folder.iterdir():
        damage(path)
    before = sorted(folder.iterdir())
    for words in ([], ["--set-aside"]):
        status, output = _verify(capsys, *words, folder)
        assert status == 1 and says(output, f"{folder}: nothing to go on from", *words, "renames nothing" * bool(words))
    assert sorted(folder.iterdir()) == before


def test_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, weights = folder / "theirs.pt", folder / "weights.pt"
    torch.save(make_state(5), theirs)
    torch.save({"weight": torch.ones(2)}, weights)
    status, output = _verify(capsys, theirs, folder / "checkpoint_last.pt")
    assert status == 0 and says(output, theirs, "no checksum", "5 updates")
    status, output = _verify(capsys, theirs, weights)
    assert status == 1 and says(output, weights, "number of updates")


def test_a_folder_that_is_no_run_s_has_a_line_for_each_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (other := tmp_path / "other").mkdir()
    (other / "a.pt").touch()
    (folder / "checkpoint_last.pt").rename(other / "b.pt")
    status, output = _verify(capsys, other)
    first, second = output.splitlines()
    assert status == 1 and says(first, other / "a.pt", "damaged") and says(second, other / "b.pt", "sound")


def test_wrong_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "empty").mkdir()
    for words, message in (
        ([folder / "nowhere"], "nowhere: no such file or folder"),
        ([folder / "empty"], "empty: no checkpoints there"),
        (["--set-aside", folder / "checkpoint_last.pt"], "checkpoint_last.pt: expected a run's folder"),
    ):
        status, output = _verify(capsys, *words)
        assert status == 1
        assert output.startswith("linformer checkpoint: error: ") and message in output


def test_last_one_that_cannot_be_loaded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save({"weight": torch.ones(2)}, folder / "checkpoint_last.pt")
    before = sorted(folder.iterdir())
    for words in ([], ["--set-aside"]):
        status, output = _verify(capsys, *words, folder)
        assert status == 1 and output.splitlines()[-1].startswith(f"{folder}: nothing to go on from")
    assert sorted(folder.iterdir()) == before


def test_each_file_is_read_once(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    check = folder_module.check_bytes
    monkeypatch.setattr(folder_module, "check_bytes", lambda path: (read.append(path.name), check(path))[1])
    _verify(capsys, folder)
    assert sorted(read) == sorted(path.name for path in folder.iterdir())


def test_several_folders(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad"
    bad.mkdir()
    write_checkpoint(make_state(5), str(bad / "checkpoint_last.pt"))
    damage(bad / "checkpoint_last.pt")
    status, output = _verify(capsys, bad, folder)
    assert status == 1
    assert f"{bad}: nothing to go on from" in output and f"{folder}: a run goes on" in output

"""A step's folder: one at a time, carried on, whole or empty, and nobody else's."""

from pathlib import Path

import pytest

from data_prep.support.errors import DataError
from data_prep.support.step import Step, file_state
from tests.data_prep.processes import bytes_of

KEY = {"program": "test", "option": 1}


class Killed(BaseException):
    """Stands for SIGKILL."""


def work(out: Path, key: dict[str, object] = KEY) -> Step:
    """A program: two parts, then the outputs."""
    with Step(out, key) as step:
        if step.manifest is None:
            for name in ("a", "b"):
                if not (step.work / name).exists():
                    (step.work / name).write_text("part")
            (step.outputs / "folder").mkdir(exist_ok=True)
            (step.outputs / "folder" / "x.txt").write_text("xx")
            (step.outputs / "y.txt").write_text("yyy")
            step.finish({"count": 2})
    return step


def test_outputs_appear_with_their_manifest(tmp_path: Path) -> None:
    step = work(tmp_path / "out")
    assert step.manifest is not None and step.manifest["count"] == 2
    assert step.manifest["files"] == {"folder/x.txt": 2, "y.txt": 3}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["folder", "manifest.json", "y.txt"]


def test_a_finished_step_is_not_done_again(tmp_path: Path) -> None:
    work(tmp_path)
    with Step(tmp_path, KEY) as step:
        assert step.manifest == work_manifest(tmp_path)


def work_manifest(out: Path) -> object:
    import json

    return json.loads((out / "manifest.json").read_text())


def test_killed_at_any_rename_or_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    work(tmp_path / "whole")
    expected = bytes_of(tmp_path / "whole")
    rename, remove = Path.replace, shutil.rmtree
    for moment in range(100):
        calls = 0

        def count(moment: int = moment) -> None:
            nonlocal calls
            calls += 1
            if calls == moment + 1:
                raise Killed

        def replace(self: Path, target: Path) -> Path:
            count()
            return rename(self, target)

        def rmtree(path: Path, ignore_errors: bool = False) -> None:
            count()
            for file in sorted(path.glob("*.json")):  # half of it
                file.unlink()
            count()
            remove(path, ignore_errors=ignore_errors)

        monkeypatch.setattr(Path, "replace", replace)
        monkeypatch.setattr(shutil, "rmtree", rmtree)
        out = tmp_path / f"out{moment}"
        try:
            work(out)
        except Killed:
            monkeypatch.setattr(Path, "replace", rename)
            monkeypatch.setattr(shutil, "rmtree", remove)
            work(out)
            assert bytes_of(out) == expected, moment
        else:
            break
    assert 6 < moment < 99


def test_unfinished_work_is_kept_for_the_same_step_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Step(tmp_path, KEY) as step:
        (step.work / "part").write_text("1")
        (step.outputs / ".y.txt.123.tmp").write_text("half")
    with Step(tmp_path, KEY) as step:
        assert step.resumed and (step.work / "part").exists()
        assert not list(step.outputs.iterdir())  # what a killed process had not renamed is no output
    with Step(tmp_path, {**KEY, "option": 2}) as step:
        assert not step.resumed and not (step.work / "part").exists()
    assert "starting afresh" in capsys.readouterr().out


def test_one_at_a_time(tmp_path: Path) -> None:
    with Step(tmp_path, KEY), pytest.raises(DataError, match="another process is writing"), Step(tmp_path, KEY):
        pass
    with Step(tmp_path, KEY):
        pass


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(DataError, match="holds other files"), Step(tmp_path, KEY):
        pass
    assert bytes_of(tmp_path) == {"thesis.tex": b"mine"}
    with pytest.raises(DataError, match="is a file"), Step(tmp_path / "thesis.tex", KEY):
        pass


def test_finished_data_of_other_options_is_left_alone(tmp_path: Path) -> None:
    work(tmp_path)
    before = bytes_of(tmp_path)
    with pytest.raises(DataError, match="other inputs or options"):
        work(tmp_path, {**KEY, "option": 2})
    assert bytes_of(tmp_path) == before
    (tmp_path / "y.txt").unlink()
    with pytest.raises(DataError, match="y.txt: is missing or has changed"):
        work(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        work(tmp_path)


def test_a_changed_file_has_another_state(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a")
    before = file_state(path)
    path.write_text("ab")
    assert file_state(path) != before

"""A step's folder: one at a time, carried on, whole or empty, and nobody else's."""

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from data_prep.support.step import Step, file_state
from linformer_fairseq.files.errors import UserError
from tests.data_prep.processes import bytes_of, manifest

KEY = {"program": "test", "option": 1}


class Killed(BaseException):
    """Stands for SIGKILL."""


def work(out: Path, key: dict[str, object] = KEY, redo: bool = False, **more: str) -> Step:
    """A program: first one output, which is trusted from then on, then the others."""
    with Step(out, key, redo) as step:
        if step.manifest is None:
            if not (step.work / "state").exists():
                (step.outputs / "folder").mkdir(exist_ok=True)
                (step.outputs / "folder" / "x.txt").write_text("xx")
                (step.work / "state").write_text("x is written")
            for name, content in {"y": "yyy", **more}.items():
                (step.outputs / f"{name}.txt").write_text(content)
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
        assert step.manifest == manifest(tmp_path)


class Moments:
    """Kills at the n-th rename or removal; a folder is removed in two halves, ``key.json`` in the second."""

    def __init__(self, patch: pytest.MonkeyPatch, moment: int) -> None:
        self._left = moment
        rename, unlink, remove = Path.replace, Path.unlink, shutil.rmtree

        def replace(path: Path, target: Path) -> Path:
            self._pass()
            return rename(path, target)

        def remove_file(path: Path, missing_ok: bool = False) -> None:
            self._pass()
            unlink(path, missing_ok)

        def rmtree(path: Path, ignore_errors: bool = False) -> None:
            self._pass()
            for inside in sorted(path.rglob("*"), reverse=True):
                if inside.name != "key.json":
                    inside.rmdir() if inside.is_dir() else unlink(inside)
            self._pass()
            remove(path, ignore_errors=ignore_errors)

        patch.setattr(Path, "replace", replace)
        patch.setattr(Path, "unlink", remove_file)
        patch.setattr(shutil, "rmtree", rmtree)
        # A killed process cleans nothing up, and the system lets go of its lock.
        patch.setattr(Step, "__exit__", lambda step, *_: step._lock.release())

    def _pass(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Killed


def killed(moment: int, program: Callable[[], object]) -> bool:
    """Whether the program came to that moment, and ended there."""
    with pytest.MonkeyPatch.context() as patch:
        Moments(patch, moment)
        try:
            program()
        except Killed:
            return True
    return False


def test_killed_at_any_rename_or_removal(tmp_path: Path) -> None:
    work(tmp_path / "whole")
    expected = bytes_of(tmp_path / "whole")
    moment = 0
    while killed(moment, lambda out=tmp_path / f"out{moment}": work(out)):
        work(tmp_path / f"out{moment}")
        assert bytes_of(tmp_path / f"out{moment}") == expected, moment
        moment += 1
    assert moment > 6


def test_killed_while_the_work_on_something_else_is_removed(tmp_path: Path) -> None:
    work(tmp_path / "whole")
    moment = 0
    while True:
        out = tmp_path / f"out{moment}"
        with pytest.raises(Killed), Step(out, KEY) as step:
            (step.outputs / "folder").mkdir()
            (step.outputs / "folder" / "x.txt").write_text("xx")
            (step.work / "state").write_text("x is written")
            raise Killed
        if not killed(moment, lambda out=out: work(out, {**KEY, "option": 2})):
            break
        if not (out / "manifest.json").exists() and not (out / ".unfinished" / "manifest.json").exists():
            work(out)
            assert bytes_of(out) == bytes_of(tmp_path / "whole"), moment
        moment += 1
    assert moment > 6


def test_what_is_done_anew_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    work(tmp_path / "old", redo=True, z="only in the old", w="old")
    work(tmp_path / "new", redo=True, w="new")
    old, new = bytes_of(tmp_path / "old"), bytes_of(tmp_path / "new")
    moment = 0
    while True:
        out = tmp_path / f"out{moment}"
        work(out, redo=True, z="only in the old", w="old")
        if not killed(moment, lambda out=out: work(out, redo=True, w="new")):
            break
        left = {name: data for name, data in bytes_of(out).items() if not name.startswith(".unfinished")}
        publishing = (out / ".unfinished" / "manifest.json").exists()
        # what is there can be used, or it has no manifest and the next run completes it
        assert left in (old, new) or (publishing and "manifest.json" not in left), moment
        work(out, redo=True, w="new")
        assert bytes_of(out) == new, moment
        moment += 1
    assert moment > 8
    assert bytes_of(out) == new


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError), Step(tmp_path / "new", KEY, redo=True):
        raise ValueError
    assert list(tmp_path.iterdir()) == []
    work(tmp_path / "old", redo=True)
    before = bytes_of(tmp_path / "old")
    with (
        pytest.raises(UserError, match="No space left on device; make room"),
        Step(tmp_path / "old", KEY, True) as step,
    ):
        (step.outputs / "half").write_text("x")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert bytes_of(tmp_path / "old") == before


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the reason"), Step(tmp_path, KEY, redo=True):
        raise UserError("the reason")
    assert tmp_path.is_dir()


def test_a_folder_that_cannot_be_removed_does_not_hide_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "rmdir", refuse)
    with pytest.raises(UserError, match="the reason"), Step(tmp_path / "new", KEY, redo=True):
        raise UserError("the reason")


def test_unfinished_work_of_another_program_is_refused(tmp_path: Path) -> None:
    with Step(tmp_path, {**KEY, "program": "build_corpus 2"}) as step:
        (step.work / "part").write_text("1")
    with pytest.raises(UserError, match=r"data_prep\.build_corpus, another program"), Step(tmp_path, KEY):
        pass
    assert (tmp_path / ".unfinished" / "part").exists()
    with Step(tmp_path, {**KEY, "program": "build_corpus 2"}) as step:
        assert step.resumed
        key = step.work / "key.json"
        key.write_text(key.read_text().split()[0])  # as earlier versions wrote it
    with Step(tmp_path, {**KEY, "program": "build_corpus 2"}) as step:
        assert step.resumed


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


def test_work_of_a_key_that_is_the_same_so_far_goes_on(tmp_path: Path) -> None:
    other = {**KEY, "option": 2}
    with Step(tmp_path, KEY) as step:
        (step.work / "part").write_text("1")
    with Step(tmp_path, other, same_so_far=KEY) as step:
        assert step.resumed and (step.work / "part").exists()
    with Step(tmp_path, KEY) as step:
        assert not step.resumed, "what was added may differ"
        (step.outputs / "x").write_text("x")
        step.finish({})
    with Step(tmp_path, other, same_so_far=KEY) as step:
        assert step.manifest is not None


def test_one_at_a_time(tmp_path: Path) -> None:
    with Step(tmp_path, KEY), pytest.raises(UserError, match="another process is writing"), Step(tmp_path, KEY):
        pass
    with Step(tmp_path, KEY):
        pass


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match="holds other files"), Step(tmp_path, KEY):
        pass
    assert bytes_of(tmp_path) == {"thesis.tex": b"mine"}
    with pytest.raises(NotADirectoryError, match="is a file"), Step(tmp_path / "thesis.tex", KEY):
        pass


def test_finished_data_of_other_options_is_left_alone(tmp_path: Path) -> None:
    work(tmp_path)
    before = bytes_of(tmp_path)
    with pytest.raises(UserError, match="other inputs or options"):
        work(tmp_path, {**KEY, "option": 2})
    assert bytes_of(tmp_path) == before
    (tmp_path / "y.txt").unlink()
    with pytest.raises(UserError, match="y.txt: is missing or has changed"):
        work(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="not JSON"):
        work(tmp_path)


def test_a_changed_file_has_another_state(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a")
    before = file_state(path)
    path.write_text("ab")
    assert file_state(path) != before

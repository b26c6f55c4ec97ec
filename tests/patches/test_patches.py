"""The patches are all in one table, say what they do, and replace each function once."""

import functools
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import fairseq_cli.train  # noqa: F401 (a program whose functions are replaced once it is imported)
import pytest

from linformer_fairseq import patches, register
from linformer_fairseq.patches import PATCHES, replace

FOLDER = Path(patches.__file__).parent


def doubled(function: Callable[[], int]) -> Callable[[], int]:
    return functools.wraps(function)(lambda: 2 * function())


def plus(count: int) -> Callable[[Callable[[], int]], Callable[[], int]]:
    def make(function: Callable[[], int]) -> Callable[[], int]:
        return functools.wraps(function)(lambda: function() + count)

    return make


def three() -> int:
    return 3


def name(patch: ModuleType) -> str:
    return patch.__name__.rpartition(".")[2]


def replaced() -> list[object]:
    """What stands now where fairseq's functions stood."""
    return [
        getattr(sys.modules[owner] if isinstance(owner, str) else owner, attribute)
        for patch in PATCHES
        for owner, attribute, _ in patch.REPLACED
    ]


def test_each_patch_once_and_the_later_one_around() -> None:
    owner = SimpleNamespace(three=three)
    for _ in range(2):
        replace(owner, "three", doubled)
        replace(owner, "three", plus(1))  # made anew at each call, and still the same patch
    assert owner.three() == 7
    assert owner.three.__name__ == "three" and three() == 3


def test_every_file_is_in_the_table() -> None:
    assert sorted(map(name, PATCHES)) == sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("patch", PATCHES, ids=name)
def test_every_patch_says_what_fairseq_does_and_what_it_does(patch: ModuleType) -> None:
    assert re.match(r"[^\n]+\.\n\nWhat fairseq does: .*\n\nThe patch: ", patch.__doc__ or "", re.DOTALL)
    assert patch.REPLACED


def test_a_second_installation_changes_nothing() -> None:
    patches.install()
    before = replaced()
    assert all(getattr(function, "_linformer_patches", ()) for function in before)
    patches.install()
    assert all(one is other for one, other in zip(replaced(), before, strict=True))


@pytest.mark.parametrize(
    "started",
    [
        {"__spec__": SimpleNamespace(name="fairseq_cli.train")},
        {"__spec__": None, "__file__": "/venv/site-packages/fairseq_cli/train.py"},
    ],
    ids=["module", "file"],
)
def test_the_running_program_is_patched(monkeypatch: pytest.MonkeyPatch, started: dict[str, Any]) -> None:
    """``python -m fairseq_cli.train`` has the functions of this module as those of ``__main__``."""
    functions = ("train", "validate_and_save", "should_stop_early")
    main = SimpleNamespace(**started, **dict.fromkeys(functions, three))
    monkeypatch.setitem(sys.modules, "__main__", main)  # type: ignore[arg-type]
    patches.install()
    assert all(getattr(main, function) is not three for function in functions)


@pytest.mark.parametrize("started", [{}, {"__file__": None}, {"__file__": "/x/train.py"}])
def test_other_programs_are_not_patched(monkeypatch: pytest.MonkeyPatch, started: dict[str, Any]) -> None:
    main = SimpleNamespace(**started, train=three)
    monkeypatch.setitem(sys.modules, "__main__", main)  # type: ignore[arg-type]
    patches.install()
    assert main.train is three


def test_a_run_that_is_stopped_has_looked_at_its_loss_before() -> None:
    assert list(map(name, PATCHES)).index("not_learning") < list(map(name, PATCHES)).index("stopping")


def test_register_patches_a_program_that_was_imported_since(monkeypatch: pytest.MonkeyPatch) -> None:
    program: Any = ModuleType("fairseq_cli.train")
    program.train = program.validate_and_save = program.should_stop_early = lambda *_: None
    register()
    monkeypatch.setitem(sys.modules, "fairseq_cli.train", program)
    register()
    assert all(hasattr(function, "__wrapped__") for function in (program.train, program.validate_and_save))

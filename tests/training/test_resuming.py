"""The command that messages name for resuming a run."""

from types import SimpleNamespace
from typing import Any

import pytest

from linformer_fairseq.training.resuming import command_to_resume, resumed

OPTIONS = {
    "save_dir": "runs/a",
    "restore_file": "checkpoint_last.pt",
    "reset_optimizer": False,
    "reset_lr_scheduler": False,
    "reset_meters": False,
    "reset_dataloader": False,
}


@pytest.mark.parametrize(
    ("changed", "command"),
    [
        ({}, "the same command"),
        ({"restore_file": "./runs/a/checkpoint_last.pt"}, "the same command"),
        (
            {"restore_file": "runs/b/checkpoint_last.pt"},
            "the same command without --restore-file runs/b/checkpoint_last.pt",
        ),
        ({"restore_file": "roberta.pt"}, "the same command without --restore-file roberta.pt"),
        (
            {"restore_file": "roberta.pt", "reset_optimizer": True, "reset_lr_scheduler": True},
            "the same command without --restore-file roberta.pt, --reset-optimizer, --reset-lr-scheduler",
        ),
        (
            {"reset_meters": True, "reset_dataloader": True},
            "the same command without --reset-meters, --reset-dataloader",
        ),
    ],
)
def test_without_the_options_that_begin_anew(changed: dict[str, Any], command: str) -> None:
    assert command_to_resume(SimpleNamespace(**{**OPTIONS, **changed})) == command


@pytest.mark.parametrize(("state", "updates", "expected"), [({}, 7, True), ({}, 0, False), (None, 7, False)])
def test_only_parameters_are_no_run(state: dict[str, Any] | None, updates: int, expected: bool) -> None:
    assert resumed(state, SimpleNamespace(get_num_updates=lambda: updates)) == expected

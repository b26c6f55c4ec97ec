"""Empty batches, which processes that have fewer batches than others are given."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from linformer_fairseq.patches import filler_batches

REAL: dict[str, Any] = {"net_input": {}}


def taken(samples: list[Any], **trainer: Any) -> list[Any]:
    """The batches that fairseq's step is given."""
    ((_, _, make),) = filler_batches.REPLACED
    step: Callable[..., list[Any]] = make(lambda self, given, raise_oom=False: given)
    model = SimpleNamespace(base_layers=trainer.pop("base_layers", 0))
    return step(
        SimpleNamespace(**{"is_fsdp": False, "tpu": False, "cfg": SimpleNamespace(model=model), **trainer}), samples
    )


@pytest.mark.parametrize(
    ("samples", "left"),
    [
        ([REAL, REAL], [REAL, REAL]),
        ([REAL, {}], [REAL]),
        ([REAL, {}, {}], [REAL]),
        ([REAL, None], [REAL]),
        ([{}, {}], [{}]),
        ([{}], [{}]),
    ],
)
def test_those_behind_others_are_left_out_and_one_is_kept(samples: list[Any], left: list[Any]) -> None:
    given = list(samples)
    assert taken(given) == left and given == samples


@pytest.mark.parametrize("trainer", [{"is_fsdp": True}, {"tpu": True}, {"base_layers": 1}])
def test_where_processes_meet_in_each_batch_all_are_kept(trainer: dict[str, Any]) -> None:
    assert taken([REAL, {}], **trainer) == [REAL, {}]

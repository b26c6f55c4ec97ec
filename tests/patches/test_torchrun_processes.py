"""The processes that torchrun starts are those of one run."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.distributed import utils

import linformer_fairseq.models  # noqa: F401 (installs the patches)


def options(**given: Any) -> SimpleNamespace:
    usual = {"distributed_init_method": None, "distributed_world_size": 1, "distributed_rank": 0, "device_id": 0}
    return SimpleNamespace(
        **usual | {"tpu": False, "pipeline_model_parallel": False, "distributed_no_spawn": False} | given
    )


@pytest.fixture
def torchrun(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], None]:
    def start(rank: int, world_size: int) -> None:
        values = {"MASTER_ADDR": "localhost", "MASTER_PORT": "29500", "RANK": rank, "WORLD_SIZE": world_size}
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    return start


def test_their_number_is_that_of_the_run(torchrun: Callable[[int, int], None]) -> None:
    torchrun(1, 2)
    found = options()
    utils.infer_init_method(found)
    assert found == options(
        distributed_init_method="env://", distributed_world_size=2, distributed_rank=1, distributed_no_spawn=True
    )


def test_each_process_has_a_gpu_of_its_own(
    torchrun: Callable[[int, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    torchrun(3, 4)
    found = options()
    utils.infer_init_method(found)
    assert found.device_id == 1


def test_what_is_given_and_single_processes_stay(torchrun: Callable[[int, int], None]) -> None:
    given = options(distributed_init_method="tcp://localhost:1", distributed_world_size=2, distributed_rank=1)
    torchrun(1, 4)
    found = SimpleNamespace(**vars(given))
    utils.infer_init_method(found)
    assert found == given
    torchrun(0, 1)
    found = options()
    utils.infer_init_method(found)
    assert found == options()

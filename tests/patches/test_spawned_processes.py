"""A signal to a fairseq-train that started its processes itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq.distributed import utils

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.patches.spawned_processes import _handing_on
from tests.fairseq_config import parse
from tests.messages import says

# fairseq starts a process for each GPU: here there are said to be two, and the run is on the CPU nevertheless.
PROGRAM = """
import torch
torch.cuda.device_count = lambda: 2
from fairseq_cli.train import cli_main
if __name__ == "__main__":
    cli_main()
"""


@pytest.mark.slow
def test_both_processes_save_and_the_status_is_that_of_a_stopped_run(
    train_words: Callable[..., list[str]], tiny_settings: dict[str, Any], tmp_path: Path
) -> None:
    program = tmp_path / "two_gpus.py"
    program.write_text(PROGRAM)
    settings = {
        **tiny_settings,
        "dataset.disable_validation": True,
        "checkpoint.save_interval_updates": 0,
        "checkpoint.no_epoch_checkpoints": True,
        "optimization.max_update": 100_000,
        "common.log_interval": 1,
        "distributed_training.distributed_world_size": 2,
        "distributed_training.distributed_backend": "gloo",
        "distributed_training.ddp_backend": "legacy_ddp",
    }
    words = [sys.executable, str(program), *train_words("fairseq-train", settings, tmp_path / "run")]
    log = tmp_path / "log.txt"
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    with log.open("w") as output, subprocess.Popen(words, env=environment, stdout=output, stderr=output) as process:
        try:
            while "num_updates" not in log.read_text():
                assert process.poll() is None, log.read_text()
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=120) == 85, log.read_text()
        finally:
            process.kill()
    text = log.read_text()
    assert says(text, "SIGTERM: stopped after update", "resumes from it") and "Traceback" not in text
    assert read_checkpoint(tmp_path / "run/checkpoint_last.pt")["optimizer_history"][-1]["num_updates"] > 0


def _config(**distributed: Any) -> Any:
    return SimpleNamespace(distributed_training=SimpleNamespace(**distributed))


def test_before_there_are_processes_the_program_ends() -> None:
    call = _handing_on(lambda cfg, main: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        call(_config(distributed_init_method="tcp://x:1", distributed_no_spawn=False), None)
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def test_one_that_starts_none_handles_its_own_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    call = _handing_on(lambda cfg, main: signal.getsignal(signal.SIGTERM) is before)
    assert call(_config(distributed_init_method="env://", distributed_no_spawn=True), None)


@pytest.mark.parametrize("flags", [[], ["--fp16"], ["--bf16"]], ids=str)
def test_the_signal_is_handed_on_in_any_precision(
    tiny_corpus: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str]
) -> None:
    handlers = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    for name in ("RANK", "WORLD_SIZE", "SLURM_NODELIST", "SLURM_STEP_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        torch.multiprocessing, "spawn", lambda **given: handlers.append(signal.getsignal(signal.SIGTERM))
    )
    words = ["--task", "masked_lm", "--arch", "roberta", "--batch-size", "1", "--optimizer", "adam"]
    before = signal.getsignal(signal.SIGTERM)
    utils.call_main(
        parse(tiny_corpus, *words, "--criterion", "masked_lm", "--distributed-world-size", "2", *flags), None
    )
    assert len(handlers) == 1 and handlers[0] not in (before, signal.SIG_DFL)

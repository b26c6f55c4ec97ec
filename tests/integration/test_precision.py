"""fairseq's half precisions, as far as they run on a CPU.

``--fp16`` does with ``--fp16-no-flatten-grads`` only (the flat copy asks for the current GPU), and ``--amp`` is
plain fp32 there (fairseq asks for CUDA's autocast).
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq.checkpoints.reading import read_checkpoint


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "optimizer", "stored"),
    [
        (["bf16"], "FP16Optimizer", torch.float32),
        (["memory_efficient_bf16"], "MemoryEfficientFP16Optimizer", torch.bfloat16),
        (["fp16", "fp16_no_flatten_grads"], "FP16Optimizer", torch.float32),
        (["memory_efficient_fp16"], "MemoryEfficientFP16Optimizer", torch.float16),
        (["amp"], "AMPOptimizer", torch.float32),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_trains(
    train: Callable[..., str],
    tiny_settings: dict[str, Any],
    tmp_path: Path,
    flags: list[str],
    optimizer: str,
    stored: torch.dtype,
) -> None:
    settings = {
        **tiny_settings,
        **{f"common.{flag}": True for flag in flags},
        "optimization.max_update": 4,
        "checkpoint.save_interval_updates": 1,
    }
    train("fairseq-train", settings, tmp_path)
    first, last = (read_checkpoint(tmp_path / name) for name in ("checkpoint_1_1.pt", "checkpoint_last.pt"))
    assert last["optimizer_history"][-1]["num_updates"] == 4
    weight = "encoder.sentence_encoder.layers.0.fc1.weight"
    # Stored as float32 in any case; half a number's digits are zero where only rounded weights were trained.
    assert last["optimizer_history"][-1]["optimizer_name"] == optimizer
    trained = last["model"][weight]
    assert trained.dtype == torch.float32
    # Of bfloat16 numbers, all but the smallest are float16 numbers as well: eight digits go into eleven.
    told = [torch.bfloat16] if stored == torch.bfloat16 else [torch.float16, torch.bfloat16]
    rounded = [kind for kind in told if torch.equal(trained.to(kind).float(), trained)]
    assert rounded == [kind for kind in told if kind == stored]
    assert not torch.equal(first["model"][weight], last["model"][weight])
    assert all(value.isfinite().all() for value in last["model"].values() if value.is_floating_point())

"""A run as `linformer pretrain` leaves it."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_run(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory, run_fairseq: Callable[..., str]) -> Path:
    """The folder of a pretraining of 20 updates in three epochs, written by fairseq and the launcher."""
    runs = tmp_path_factory.mktemp("runs")
    sizes = {"layers": 2, "embed_dim": 32, "ffn_embed_dim": 64, "attention_heads": 2}
    words = [f"model.encoder_{key}={value}" for key, value in sizes.items()]
    words += ["model=linformer_base", "model.projected_dim=8", "run_config=cpu", f"task.data={tiny_corpus}"]
    words += ["task.tokens_per_sample=32", "run.tokens_per_update=256", "run.tokens_per_batch=256", f"run.runs={runs}"]
    words += ["optimization.max_update=20", "lr_scheduler.warmup_updates=2", "common.log_interval=5"]
    words += ["checkpoint.save_interval_updates=10", "run.paper.figure3=[a,c]"]
    run_fairseq("linformer", "pretrain", *words, cwd=runs)
    return runs / "linformer_base_n32_k8_layerwise_s1"

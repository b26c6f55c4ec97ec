"""What the tests of starting runs share: folders that look like data, a small task, and small real runs."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.forked import Forked

TINY = (
    *("run_config=cpu", "model._name=linformer_roberta_tiny", "model.projected_dim=8", "task.tokens_per_sample=32"),
    *("run.tokens_per_batch=256", "run.tokens_per_update=512", "lr_scheduler.warmup_updates=2"),
    *("common.log_interval=1", "checkpoint.save_interval_updates=1000"),
)


@pytest.fixture
def own_data(tiny_corpus: Path, tmp_path: Path) -> Path:
    """A copy of the tiny corpus, to be spoilt."""
    return Path(shutil.copytree(tiny_corpus, tmp_path / "data"))


@pytest.fixture(scope="session")
def start_linformer(start_fairseq: Callable[..., Forked]) -> Callable[..., Forked]:
    """``start_linformer(word, ..., cwd=folder)`` starts the command."""
    return functools.partial(start_fairseq, "linformer")


@pytest.fixture(scope="session")
def linformer(run_fairseq: Callable[..., str]) -> Callable[..., str]:
    """``linformer(word, ..., cwd=folder, status=0)`` runs the command to its end and returns what it printed."""
    return functools.partial(run_fairseq, "linformer")


@pytest.fixture(scope="session")
def pretraining(tiny_corpus: Path) -> Callable[..., Sequence[str]]:
    """``pretraining(updates)``: the words of a tiny pretraining on the CPU."""

    def words(updates: int) -> Sequence[str]:
        return ("pretrain", *TINY, f"task.data={tiny_corpus}", f"optimization.max_update={updates}")

    return words


@pytest.fixture(scope="session")
def pretrained(
    linformer: Callable[..., str],
    pretraining: Callable[..., Sequence[str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The run folder of a finished pretraining of three updates: n = 32, k = 8, layerwise."""
    folder = tmp_path_factory.mktemp("pretrained")
    linformer(*pretraining(3), cwd=folder)
    return folder / "runs" / "linformer_base_n32_k8_layerwise_s1"

"""Training through fairseq as a user runs it: fairseq-train, in this process, with the time of each update."""

from __future__ import annotations

import contextlib
import itertools
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.efficiency.errors import BenchmarkError
from benchmarks.efficiency.models.fairseq_task import encoder_options
from benchmarks.efficiency.models.registry import MODELS
from benchmarks.efficiency.sizes import Sizes


def command(
    name: str,
    sizes: Sizes,
    n: int,
    k: int | None,
    *,
    batch: int,
    updates: int,
    optimizer: str,
    dtype: torch.dtype,
    dropout: float,
    device: torch.device,
) -> list[str]:
    """The words behind fairseq-train.

    Args:
        name, sizes, n, k: the model.
        batch: sequences of an update.
        updates: how many.
        optimizer: fairseq's name of it.
        dtype, dropout, device: as in a user's run.
    """
    model: dict[str, Any] = {
        "arch": "roberta_base" if k is None else "linformer_roberta_base",
        **{name.replace("_", "-"): value for name, value in encoder_options(sizes, n, dropout).items()},
    }
    if k is not None:
        model |= {"projected-dim": k, "sharing": "layerwise"}
    run: dict[str, Any] = {
        "task": "dummy_masked_lm",
        "criterion": "masked_lm",
        "tokens-per-sample": n,
        "dict-size": sizes.vocabulary - 5,  # it adds as many
        "dataset-size": batch * (updates + 1),
        "batch-size": batch,
        "max-update": updates,
        "optimizer": optimizer,
        "adam-betas": "(0.9,0.98)",
        "adam-eps": 1e-6,
        "weight-decay": 0.01,
        "clip-norm": 0.0,
        "lr": 1e-4,
        "lr-scheduler": "polynomial_decay",
        "warmup-updates": 1,
        "total-num-update": 1_000_000,
        "log-format": "simple",
        "log-interval": 100,
    }
    words = [word for key, value in (run | model).items() for word in (f"--{key}", str(value))]
    words += ["--no-save", "--disable-validation"]
    words += ["--compile-encoder"] if MODELS[name].compiled else []
    words += ["--bf16"] if dtype == torch.bfloat16 else []
    words += ["--cpu"] if device.type == "cpu" else []
    return words


def seconds_of_updates(words: list[str]) -> list[float]:
    """Seconds between the beginnings of successive updates, so that all that lies between them counts.

    Raises:
        BenchmarkError: the run failed.
    """
    import fairseq.benchmark.dummy_masked_lm  # noqa: F401  registers the task
    from fairseq.trainer import Trainer
    from fairseq_cli import train

    import linformer_fairseq  # noqa: F401  what --user-dir imports

    begun: list[float] = []
    original = Trainer.train_step

    def train_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        begun.append(time.perf_counter())
        return original(self, *args, **kwargs)

    with tempfile.TemporaryDirectory(prefix="training_benchmark_") as folder:
        log = Path(folder, "log")
        with (
            _logging_to(log),
            mock.patch.object(sys, "argv", ["fairseq-train", *words, "--save-dir", folder]),
            mock.patch.object(Trainer, "train_step", train_step),
        ):
            try:
                train.cli_main()
            except SystemExit as error:
                if error.code:
                    last = log.read_text().strip().splitlines()[-1:]
                    raise BenchmarkError(f"fairseq-train {' '.join(words)} ended with {error.code}: {last}") from error
    return [later - earlier for earlier, later in itertools.pairwise(begun)]


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Let what is logged and printed go to a file meanwhile: it is written, as in a user's run."""
    root, level = logging.getLogger(), logging.root.manager.disable
    kept, root_level = root.handlers[:], root.level
    with path.open("w") as stream, contextlib.redirect_stdout(stream):
        handler = logging.StreamHandler(stream)
        root.handlers[:] = [handler]
        root.setLevel(logging.INFO)
        logging.disable(logging.NOTSET)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            root.handlers[:] = kept
            root.setLevel(root_level)
            logging.disable(level)

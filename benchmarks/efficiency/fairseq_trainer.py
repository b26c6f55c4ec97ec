"""Training with fairseq-train as a user runs it, but in this process and with a callback before each update."""

from __future__ import annotations

import contextlib
import logging
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

from benchmarks.efficiency.bare import Batch
from benchmarks.efficiency.models.fairseq_task import dictionary, encoder_options
from benchmarks.efficiency.models.registry import MODELS
from linformer_fairseq import register
from linformer_fairseq.files.dictionary import PAD
from linformer_fairseq.files.errors import UserError

if TYPE_CHECKING:
    from benchmarks.efficiency.stretch import Job

TASK = "benchmark_masked_lm"


class _Enough(Exception):
    """Raised to end the run."""


def command(job: Job, device: torch.device) -> list[str]:
    """The arguments of fairseq-train."""
    model: dict[str, Any] = {
        "arch": "roberta_base" if job.k is None else "linformer_roberta_base",
        **{name.replace("_", "-"): value for name, value in encoder_options(job.sizes, job.n, job.dropout).items()},
    }
    if job.k is not None:
        model |= {"projected-dim": job.k, "sharing": "layerwise", "projection": MODELS[job.model].projection}
    run: dict[str, Any] = {
        "task": TASK,
        "criterion": "masked_lm",
        "batch-size": job.sequences,
        "required-batch-size-multiple": 1,
        "max-update": job.warm_up + job.updates + 1,
        "optimizer": job.optimizer,
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
        "distributed-world-size": 1,  # fairseq's default is the number of GPUs
    }
    words = [word for key, value in (run | model).items() for word in (f"--{key}", str(value))]
    words += ["--no-save", "--disable-validation"]
    words += ["--compile-encoder"] if MODELS[job.model].compiled else []
    words += ["--checkpoint-activations"] if MODELS[job.model].recomputes else []
    words += ["--bf16"] if job.dtype == "bfloat16" else []
    words += ["--cpu"] if device.type == "cpu" else []
    return words


def train(words: list[str], batch: Batch, vocabulary: int, before_update: Callable[[int], bool]) -> Any:
    """Run fairseq-train with the same batch in every update; returns its Trainer.

    Args:
        words: arguments from `command`.
        batch: the batch of every update.
        vocabulary: number of symbols of the dictionary.
        before_update: called with the number of updates done; ends the run by returning True.

    Raises:
        UserError: the run failed, or ended before that.
        RuntimeError: an update failed; the memory may not suffice for it.
    """
    from fairseq.trainer import Trainer
    from fairseq_cli import train as fairseq_train

    register()  # as importing --user-dir does

    _register_task(batch, vocabulary)
    trainers: list[Any] = []
    done = 0
    original = Trainer.train_step

    def train_step(self: Any, samples: Any) -> Any:
        nonlocal done
        if before_update(done):
            trainers.append(self)
            raise _Enough
        done += 1
        # By default fairseq skips an update for which a GPU's memory does not suffice, and goes on.
        return original(self, samples, raise_oom=True)

    with tempfile.TemporaryDirectory(prefix="training_benchmark_") as folder:
        log = Path(folder, "log")
        with (
            _logging_to(log),
            mock.patch.object(sys, "argv", ["fairseq-train", *words, "--save-dir", folder]),
            mock.patch.object(Trainer, "train_step", train_step),
            contextlib.suppress(_Enough, SystemExit),
        ):
            fairseq_train.cli_main()
        if not trainers:
            last = log.read_text().strip().splitlines()[-1:]
            raise UserError(f"fairseq-train {' '.join(words)} ended after {done} updates: {last}")
    return trainers[0]


def _register_task(batch: Batch, vocabulary: int) -> None:
    """fairseq's task dummy_masked_lm with our batch and vocabulary; its own dictionary is padded to a multiple of 8."""
    from fairseq.benchmark.dummy_dataset import DummyDataset
    from fairseq.tasks import LegacyFairseqTask, register_task

    sequences, length = batch.tokens.shape
    example = {
        "id": 1,
        "net_input": {"src_tokens": batch.tokens, "src_lengths": batch.tokens.ne(PAD).sum(1)},
        "target": batch.target.masked_fill(~batch.masked, PAD),
        "nsentences": sequences,
        "ntokens": int(batch.tokens.ne(PAD).sum()),
    }

    @register_task(TASK)
    class BenchmarkMaskedLMTask(LegacyFairseqTask):
        """Masked language modelling with the same batch in every update."""

        source_dictionary = target_dictionary = dictionary(vocabulary)

        def load_dataset(self, split: str, **_: Any) -> None:
            self.datasets[split] = DummyDataset(example, sequences * (self.args.max_update + 1), length)


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Redirects logs and standard output to a file, so that they are written as in a user's run."""
    root, level = logging.getLogger(), logging.root.manager.disable
    kept, root_level = root.handlers[:], root.level
    with path.open("w") as stream, contextlib.redirect_stdout(stream):
        handler = logging.StreamHandler(stream)
        root.handlers[:] = [handler]
        root.setLevel(logging.INFO)
        logging.disable(logging.NOTSET)
        try:
            yield
        finally:
            root.handlers[:] = kept
            root.setLevel(root_level)
            logging.disable(level)

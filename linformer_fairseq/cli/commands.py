"""The commands of `linformer`: the options of each, and the module that does its work."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

from linformer_fairseq.cli.arguments import analysis, environment, models, prediction, programs, results, training


class Command(NamedTuple):
    """An entry of `COMMANDS`."""

    help: str
    """One line, for `linformer --help`."""
    declare: Callable[[argparse.ArgumentParser], None]
    """Adds the options to the command's parser; its docstring is the command's description."""
    module: str
    """In this package: it has ``run(arguments)``, which does the work and returns the exit status."""
    cleans_up: bool = False
    """SIGTERM ends it as Ctrl-C does, so that temporary files are removed. The training commands handle signals
    themselves; the programs of `data` and `benchmark` continue from what an interrupted one left."""


COMMANDS: dict[str, Command] = {
    "analyse": Command(
        "analyse why k can be small: the rank of attention (Figure 1), Theorems 1 and 2",
        analysis.analyse,
        "analyse",
        cleans_up=True,
    ),
    "benchmark": Command(
        "measure speed and memory of inference (Tables 1 and 3, Figure 2) and training",
        programs.benchmark,
        "benchmark",
    ),
    "card": Command(
        "write a model card of what a checkpoint and its run folder say", models.card, "card", cleans_up=True
    ),
    "checkpoint": Command(
        "verify the checkpoints of a run, or export a model for sharing (`release`)",
        models.checkpoint,
        "checkpoint",
        cleans_up=True,
    ),
    "convert": Command(
        "make a Linformer of a pretrained RoBERTa (fairseq's or Hugging Face's)",
        models.convert,
        "convert",
        cleans_up=True,
    ),
    "data": Command("prepare data for pretraining and finetuning, and inspect it", programs.data, "data"),
    "demo": Command("try a model on a web page: masked words, classes, attention", prediction.demo, "demo"),
    "doctor": Command("print versions, and problems of this environment", environment.doctor, "doctor"),
    "embed": Command("write vectors of texts", prediction.embed, "embed", cleans_up=True),
    "evaluate": Command(
        "evaluate a finetuned checkpoint on a prepared task, and write its predictions",
        results.evaluate,
        "evaluate",
        cleans_up=True,
    ),
    "experiments": Command("list the paper's runs (`linformer experiments list`)", training.experiments, "experiments"),
    "export": Command(
        "convert a model for transformers, onnxruntime or torch.export", models.export, "export", cleans_up=True
    ),
    "fill-mask": Command(
        "print the most probable tokens for a mask", prediction.fill_mask, "fill_mask", cleans_up=True
    ),
    "finetune": Command("finetune a pretrained checkpoint on a prepared task", training.finetune, "training"),
    "import": Command("convert a model of transformers to fairseq", models.import_, "export", cleans_up=True),
    "predict": Command("classify texts with a finetuned checkpoint", prediction.predict, "predict", cleans_up=True),
    "pretrain": Command("pretrain a model: one of the paper's runs, or your own", training.pretrain, "training"),
    "report": Command(
        "write one HTML page on all results: the paper's beside ours", results.report, "report", cleans_up=True
    ),
    "results": Command(
        "collect results of runs, and make the paper's Table 2 and Figure 3", results.results, "results"
    ),
    "user-dir": Command("print the folder for fairseq's --user-dir", environment.user_dir, "user_dir"),
}

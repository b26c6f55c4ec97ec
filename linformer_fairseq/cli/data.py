"""`linformer data`: runs the programs of `data_prep`."""

from __future__ import annotations

import argparse

from data_prep import (
    binarize,
    build_corpus,
    gpt2_bpe,
    inspect_data,
    prepare_pretraining,
    prepare_task,
    train_sentencepiece,
)
from data_prep.support.program import run_program

PROGRAMS = {
    "pretraining": prepare_pretraining.main,
    "corpus": build_corpus.main,
    "vocabulary": train_sentencepiece.main,
    "gpt2": gpt2_bpe.main,
    "binarize": binarize.main,
    "task": prepare_task.main,
    "inspect": inspect_data.main,
}


def run(arguments: argparse.Namespace) -> int:
    """Run the program; returns 0. If it fails, it ends the process."""
    name = arguments.program
    run_program(lambda: PROGRAMS[name](arguments.options, prog=f"linformer data {name}"))
    return 0

"""The commands that run the programs of `data_prep` and `benchmarks`, which declare their options themselves."""

from __future__ import annotations

import argparse

from benchmarks import PROGRAMS


def benchmark(parser: argparse.ArgumentParser) -> None:
    """Measure speed and memory of inference (the paper's Tables 1 and 3 and Figure 2, short inputs) and of training.

    `linformer benchmark PROGRAM --help` describes a program.
    """
    _programs(parser, PROGRAMS)


def data(parser: argparse.ArgumentParser) -> None:
    """Prepare data for fairseq from text, and inspect it.

    `linformer data PROGRAM --help` describes a program. For pretraining, run `pretraining`, or its steps: corpus,
    vocabulary (or gpt2), binarize. For finetuning, run `task`. To resume a program that was stopped, repeat its
    command.
    """
    _programs(
        parser,
        {
            "pretraining": "corpus, vocabulary and binarize in one command",
            "corpus": "clean text, remove duplicates, split by document",
            "vocabulary": "train a sentencepiece model on a corpus",
            "gpt2": "get the files of RoBERTa's GPT-2 BPE",
            "binarize": "convert a corpus to fairseq's binary format, for masked_lm",
            "task": "prepare SST-2, QNLI, QQP, IMDB or labelled text for sentence_prediction",
            "inspect": "print counts, lengths and samples, and verify the files",
        },
    )


def _programs(parser: argparse.ArgumentParser, programs: dict[str, str]) -> None:
    """Declare a program name and its options, which the program's own parser reads."""
    lines = [f"  {name:<12}{text}" for name, text in programs.items()]
    parser.description = "\n".join([parser.description or "", "", "programs:", *lines])
    parser.add_argument("program", choices=programs, metavar="PROGRAM", help="one of the programs above")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="options of the program")

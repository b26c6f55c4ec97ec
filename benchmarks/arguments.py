"""The options of each `linformer benchmark` program; the docstring of each function is the program's description.

This module does not import torch, so that `--help` is fast and works without it. The programs are in `efficiency`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from benchmarks.efficiency import presets, sizes
from benchmarks.efficiency.models.registry import MODELS, TRAINABLE
from benchmarks.measuring import RESULTS
from linformer_fairseq.files.option_types import count

DTYPES = ("float32", "bfloat16", "float16")
OPTIMIZERS = ("adam", "fused_adamw")
PATHS = ("bare", "trainer")
"""Training loops: a plain one, and that of fairseq's trainer."""
LEAST_ROUNDS, LEAST_UPDATES = 5, 10
"""Fewer rounds or timed updates of `training` are refused."""


def inference(parser: argparse.ArgumentParser) -> None:
    """Time and memory of a forward pass, by length and k: Tables 1 and 3 and Figure 2 of the paper.

        linformer benchmark inference --preset table1 --dtype bfloat16 --layers 1
        linformer benchmark inference --preset table3 --device cuda --dtype float16 --largest-batch
        linformer benchmark inference --preset short --dtype bfloat16
        linformer benchmark inference --lengths 512 1024 --projected-dims 64 128 --models linformer roberta_sdpa_core

    All models run in the same process, in rounds; each timed pass follows an untimed one. Ratios are medians over the
    rounds. A pass that is predicted to take too much time or memory is skipped, and recorded as skipped. The results
    are written after every step, and --resume continues an interrupted measurement, or adds other --lengths to it.

    --positions builds the models for more positions than the inputs have. --padded yes makes batches like those of
    finetuning: one sequence of T tokens, the others of T / 2 to T tokens, drawn with a fixed seed and padded on the
    right. Padding is not counted as tokens.
    """
    parser.add_argument(
        "--preset", choices=presets.INFERENCE, help="a measurement of the paper, short inputs, or one long pass"
    )
    _device(parser)
    parser.add_argument("--dtype", choices=DTYPES, help="type of weights and features (float32)")
    parser.add_argument("--lengths", type=count, nargs="+", metavar="T", help="lengths of inputs (512 1024 2048 4096)")
    parser.add_argument("--positions", type=count, metavar="N", help="n of the models (each length)")
    parser.add_argument("--projected-dims", type=count, nargs="+", metavar="K", help="k of the models (128)")
    parser.add_argument(
        "--models", nargs="+", metavar="NAME", help=f"any of {', '.join(MODELS)} (all that are installed)"
    )
    parser.add_argument("--tokens", type=count, help="tokens of a batch, with padding (16384)")
    parser.add_argument("--batches", type=count, nargs="+", metavar="B", help="also measure batches of B sequences")
    parser.add_argument("--padded", choices=("no", "yes", "both"), help="batches with padding (no)")
    parser.add_argument("--rounds", type=count, help="timed passes of each model (5)")
    parser.add_argument("--long-rounds", type=count, help=f"the same for T above {presets.LONG:,} (as --rounds)")
    _threads(parser)
    parser.add_argument("--max-seconds", type=float, help="longest pass; longer ones are skipped (60)")
    parser.add_argument("--largest-batch", action="store_true", help="use the largest batch that fits, as in Table 3")
    parser.add_argument("--memory-limit", type=float, metavar="GIB", help="for weights and a pass (CPU: 80 %% of free)")
    _out(parser, "inference_...json")
    _resume(parser)
    sizes.add_arguments(parser)


def training(parser: argparse.ArgumentParser) -> None:
    """Speed of training with a plain loop and with fairseq's trainer, in tokens per second.

        linformer benchmark training --lengths 512 1024 4096
        linformer benchmark training --preset short                                inputs of 16 to 256 tokens, padded
        linformer benchmark training --models linformer_core roberta_sdpa_core     without fairseq

    The plain loop (`bare`) is a forward pass, masked-LM loss on every 7th position, a backward pass and torch's AdamW.
    The other (`trainer`) is fairseq-train with its iterator, logging and scheduler, measured from the beginning of an
    update to the beginning of the next. Both train on the same batch, with the same vocabulary and data type:
    --dtype bfloat16 is that of `fairseq-train --bf16`, with parameters, activations and gradients in bfloat16, and
    float32 copies of the parameters in the optimizer. Results also give the share of the device's matrix-product rate.

    In each round every model and loop runs in a new process, alone in memory: first --warm-up untimed updates, then
    --updates timed ones. Ratios are medians over the rounds. Models that do not depend on fairseq, such as the dense
    rival roberta_sdpa_core, are measured with the plain loop only.
    """
    trained = presets.TRAINED
    parser.add_argument("--preset", choices=presets.TRAINING, help="sets lengths, n, k and padding of a measurement")
    _device(parser)
    _dtype(parser, DTYPES[:2])
    parser.add_argument("--lengths", type=count, nargs="+", metavar="T", help="lengths of sequences (512)")
    parser.add_argument("--positions", type=count, metavar="N", help="n of the models (each length)")
    parser.add_argument("--projected-dims", type=count, nargs="+", metavar="K", help="k of the models (128)")
    parser.add_argument("--padded", action="store_true", default=None, help="sequences of T / 2 to T tokens")
    models = f"any of {', '.join(TRAINABLE)} ({' '.join(trained)})"
    parser.add_argument("--models", nargs="+", metavar="NAME", default=trained, help=models)
    parser.add_argument("--tokens", type=count, default=8192, help="tokens of an update, with padding (%(default)s)")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam", help="optimizer of all models (%(default)s)")
    parser.add_argument("--dropouts", type=float, nargs="+", metavar="P", default=[0.0, 0.1], help="dropout (0 0.1)")
    parser.add_argument("--paths", nargs="+", choices=PATHS, default=list(PATHS), help="training loops (both)")
    rounds = f"runs of each model, at least {LEAST_ROUNDS} (%(default)s)"
    parser.add_argument("--rounds", type=count, default=LEAST_ROUNDS, help=rounds)
    updates = f"timed updates in a round; at least {LEAST_UPDATES} in all rounds together (%(default)s)"
    parser.add_argument("--updates", type=count, default=2, help=updates)
    parser.add_argument("--warm-up", type=count, default=1, help="untimed updates before them (%(default)s)")
    _threads(parser)
    _out(parser, "training_...json")
    _resume(parser)
    sizes.add_arguments(parser)


def prediction(parser: argparse.ArgumentParser) -> None:
    """Speed of `linformer predict` and of a Hugging Face pipeline with a RoBERTa of the same size, on the same files.

        LINFORMER_DATA=DIR linformer benchmark prediction --dtype bfloat16
        linformer benchmark prediction --bpe DIR --documents FILE --sentences FILE

    Both read a file with a text on each line, encode it with the same GPT-2 BPE, truncate it to n tokens and write the
    classes. Weights are random. The pipeline runs with each of several batch sizes; ours with its default. All run once
    in each of several rounds, after an untimed run on a few texts. The files are made of LINFORMER_DATA unless they are
    given: articles of Wikipedia of at least 4,000 characters, and SST-2's development set.
    """
    _device(parser)
    _dtype(parser)
    parser.add_argument(
        "--bpe", type=Path, metavar="DIR", help="encoder.json, vocab.bpe, dict.txt (LINFORMER_DATA/bpe)"
    )
    parser.add_argument("--documents", type=Path, metavar="FILE", help="a long text on each line")
    parser.add_argument("--sentences", type=Path, metavar="FILE", help="a sentence on each line")
    parser.add_argument("--texts", type=count, default=64, metavar="N", help="texts taken of each file (%(default)s)")
    parser.add_argument("--positions", type=count, default=512, metavar="N", help="n of the models (%(default)s)")
    parser.add_argument(
        "--projected-dim", type=count, default=128, metavar="K", help="k of the Linformer (%(default)s)"
    )
    parser.add_argument(
        "--batch-sizes",
        type=count,
        nargs="+",
        default=[1, 8, 32],
        metavar="B",
        help="batch sizes of the pipeline (1 8 32)",
    )
    parser.add_argument("--rounds", type=count, default=5, help="timed runs of each model (%(default)s)")
    _threads(parser)
    _out(parser, "prediction_...json")
    sizes.add_arguments(parser, vocabulary=False)


def precision(parser: argparse.ArgumentParser) -> None:
    """Accuracy and speed of a finetuned model in float32, bfloat16, int8, compiled, and in ONNX Runtime.

        linformer benchmark precision RUN work/sst2

    Every form of the model classifies the development set of a task on a CPU, once before and once in each of several
    rounds. It prints the accuracy, how many labels differ from float32's, and the speed. Needs the extra `onnx`.
    """
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a finetuned checkpoint, its run folder, or a folder made by `linformer checkpoint release`",
    )
    parser.add_argument("data", type=Path, metavar="TASK", help="a folder made by `linformer data task`")
    parser.add_argument("--batch-size", type=count, default=32, metavar="N", help="examples per batch (%(default)s)")
    parser.add_argument("--rounds", type=count, default=5, help="timed runs of each model (%(default)s)")
    _threads(parser)
    _out(parser, "precision_cpu.json")


def ablation(parser: argparse.ArgumentParser) -> None:
    """Time of one layer with one part changed at a time.

        linformer benchmark ablation --dtype bfloat16
        linformer benchmark ablation --dtype float32 --training --tokens 8192
        linformer benchmark ablation --dtype bfloat16 --lengths 28 64 --positions 512 --tokens 2048

    The layer has RoBERTa-base's size and k = 128, and runs on a CPU or a GPU, without fairseq. All variants run in one
    process, in rounds; each timed pass follows an untimed one. A ratio above 1 means that the variant is slower than
    the unchanged layer.
    """
    _one_layer(parser, "ablation", rounds=11)


def profile(parser: argparse.ArgumentParser) -> None:
    """Time of one Linformer layer and one dense layer by operation, measured with torch.profiler on a CPU.

        linformer benchmark profile --dtype bfloat16 --lengths 512 4096

    The share of an operation does not include the operations that it calls. Total time, page faults and memory are
    measured without the profiler. On a GPU the profile does not tell operations apart.
    """
    _one_layer(parser, "profile", rounds=5)


def optimizer(parser: argparse.ArgumentParser) -> None:
    """Time of a step of fairseq's Adam and of `fused_adamw`, on float32 parameters of RoBERTa-base's shapes."""
    _device(parser)
    parser.add_argument("--rounds", type=count, default=11, help="timed runs of each optimizer (%(default)s)")
    _threads(parser)
    _out(parser, "optimizer_...json")
    sizes.add_arguments(parser)


def padding(parser: argparse.ArgumentParser) -> None:
    """Share of padding in finetuning batches, by length window. Window 0 gives fairseq's own batches.

        linformer benchmark padding work/sst2 [--batch-size 32] [--windows 0 2048]

    TASK is a folder made by `linformer data task`. The batches are those of the first epoch of training.
    """
    parser.add_argument("tasks", type=Path, nargs="+", metavar="TASK", help="folder of a prepared task")
    parser.add_argument("--batch-size", type=count, default=32, help="examples per batch (%(default)s)")
    windows = "examples that are sorted by length at a time (0 2048)"
    parser.add_argument("--windows", type=int, nargs="+", default=[0, 2048], help=windows)
    _out(parser, "padding.json")


def selfcheck(parser: argparse.ArgumentParser) -> None:
    """Check that the benchmarks set up each model as its own users do.

        linformer benchmark selfcheck --dtype bfloat16

    Each model is built twice: by the benchmarks, and by a few plain lines of its library's documented use
    (documented.py). The two run in turns, in processes of their own, which are new in each of five rounds; the time of
    a process is the median of three passes, each after an untimed one. Memory is measured in separate processes whose
    heap returns freed memory at once. The median ratio of times has to be within 5 %, operations and peak memory within
    10 %; otherwise the exit status is 1.
    """
    _device(parser)
    _dtype(parser)
    parser.add_argument(
        "--lengths", type=count, nargs="+", metavar="N", default=[512, 4096], help="lengths of inputs (512 4096)"
    )
    parser.add_argument("--projected-dim", type=count, metavar="K", default=128, help="k of the models (%(default)s)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="models to check (all that are installed)")
    parser.add_argument("--tokens", type=count, default=4096, help="tokens of a batch (%(default)s)")
    parser.add_argument("--rounds", type=count, default=5, help="timed runs of each model (%(default)s)")
    _threads(parser)
    _out(parser, "selfcheck_...json")
    _resume(parser)
    sizes.add_arguments(parser)
    parser.set_defaults(layers=2)


def energy(parser: argparse.ArgumentParser) -> None:
    """Estimate the energy of a million tokens in inference, from stored speeds and the power of the device.

        linformer benchmark inference --preset figure2 --dtype bfloat16
        linformer benchmark energy --watts 350

    Prints J = watts x 1,000,000 / (tokens per second) of Linformers and of the dense rival for n = 512, 4,096 and
    16,384. This assumes constant power while a model computes, the same for all models; no meter is read. How many
    times less energy a Linformer takes does not depend on the watts.
    """
    parser.add_argument("--watts", type=float, required=True, metavar="W", help="power of the device under load")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of JSON files (results/efficiency of the clone)"
    )


def report(parser: argparse.ArgumentParser) -> None:
    """Make tables and plots of all measurements from their JSON files.

        linformer benchmark report --results results/efficiency --out results/efficiency

    Writes README.md with a section for each file, and plots if matplotlib is installed. `linformer benchmark readme`
    updates the tables in the documentation.
    """
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of JSON files (results/efficiency of the clone)"
    )
    parser.add_argument("--out", type=Path, help="folder for README.md and plots (that of --results)")


def readme(parser: argparse.ArgumentParser) -> None:
    """Update the tables in the documentation from the JSON files in results/.

    Replaces the text between <!-- NAME --> and <!-- /NAME --> where NAME is a table of measurements; other markers are
    left alone. With --check nothing is changed, and the exit status is 1 if a page is out of date.
    """
    parser.add_argument("--check", action="store_true", help="only check whether the pages are up to date")


def _one_layer(parser: argparse.ArgumentParser, kind: str, rounds: int) -> None:
    """The options of programs that measure a single layer."""
    _device(parser)
    _dtype(parser)
    parser.add_argument("--lengths", type=count, nargs="+", metavar="T", default=[512], help="lengths of inputs (512)")
    parser.add_argument("--positions", type=count, metavar="N", help="n of the layer (each length)")
    parser.add_argument("--projected-dim", type=count, metavar="K", default=128, help="k of the layer (%(default)s)")
    parser.add_argument("--tokens", type=count, default=16384, help="tokens of a batch (%(default)s)")
    parser.add_argument("--rounds", type=count, default=rounds, help="timed runs of each variant (%(default)s)")
    _threads(parser)
    parser.add_argument("--training", action="store_true", help="forward and backward pass")
    _out(parser, f"{kind}_...json")


def _device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cpu", help="cpu or cuda (%(default)s)")


def _dtype(parser: argparse.ArgumentParser, choices: Sequence[str] = DTYPES) -> None:
    parser.add_argument(
        "--dtype", choices=choices, default="float32", help="type of weights and features (%(default)s)"
    )


def _threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=count, help="CPU threads (torch's default)")


def _out(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--out", type=Path, help=f"file for the results (results/efficiency/{name} in the clone)")


def _resume(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--resume", action="store_true", help="continue the measurement in that file")

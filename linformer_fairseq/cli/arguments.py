"""What can be typed after `linformer`: the options of each command, and its description as the docstring.

Nothing here needs torch or fairseq, so that a help text appears at once; the work is done by the modules that
`linformer_fairseq.cli` names beside these functions.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import PROGRAMS

ROWS = Path("results/runs.jsonl")
"""Where the rows of results are, unless said otherwise."""


def benchmark(parser: argparse.ArgumentParser) -> None:
    """Measure time and memory as the paper does: inference (Table 3, Figure 2, short inputs), training, reports.

    `linformer benchmark PROGRAM --help` describes a program.
    """
    _programs(parser, PROGRAMS)


def checkpoint(parser: argparse.ArgumentParser) -> None:
    """Check checkpoints, and make small ones to hand on.

    `linformer checkpoint verify DIR` reads every checkpoint of a run's folder, holds it against the checksum in it, and
    says which one the run would go on from. Files that another program wrote carry no checksum; of them the CRCs of the
    zip archive are checked.

    `linformer checkpoint release FILE --data DATA --out DIR` makes a folder that `from_pretrained`, `pretrained=` and
    `linformer evaluate` take: the weights in half precision without the optimizer, the dictionary and the tokenizer.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    verify = actions.add_parser(
        "verify",
        help="hold checkpoints against their checksums, and say which one a run would go on from",
        description="Check checkpoint files. The exit status is 1 if one is damaged or cannot be loaded.",
    )
    verify.add_argument("paths", type=Path, nargs="+", metavar="DIR_OR_FILE", help="a run's folder, or a checkpoint")
    verify.add_argument(
        "--set-aside",
        action="store_true",
        help="rename the damaged files of a DIR to NAME.damaged and, as the run itself does when it is started again, "
        "put the newest sound one in checkpoint_last.pt's place; the exit status is then 0 if there is one",
    )
    release = actions.add_parser(
        "release",
        help="make a folder to hand on: weights in half precision, dictionary and tokenizer",
        description="Make a folder to hand on of a checkpoint: model.safetensors (weights in half precision, the "
        "options that build the model, a checksum; no optimizer, no pickle), the dictionary and the tokenizer.",
    )
    release.add_argument("checkpoint", type=Path, metavar="FILE", help="checkpoint of a pretraining or a finetuning")
    release.add_argument("--data", type=Path, required=True, metavar="DIR", help="the data that it was trained on")
    release.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to make")


def data(parser: argparse.ArgumentParser) -> None:
    """Prepare data, from text to what fairseq reads, and look into it.

    `linformer data PROGRAM --help` describes a program. `pretraining` does all for a pretraining, or step by step:
    corpus, vocabulary (or gpt2), binarize. For finetuning: task. A program that was stopped goes on when the same
    command is given again.
    """
    _programs(
        parser,
        {
            "pretraining": "all of it in one command: corpus, vocabulary, binarize",
            "corpus": "clean text, remove duplicates, split by document",
            "vocabulary": "train a sentencepiece model on a corpus",
            "gpt2": "get the files of RoBERTa's GPT-2 BPE instead",
            "binarize": "turn a corpus into the folder that masked_lm reads",
            "task": "prepare SST-2, QNLI, QQP, IMDB or labelled text for sentence_prediction",
            "inspect": "counts, lengths, samples, and a check of every .idx against its .bin",
        },
    )


def doctor(parser: argparse.ArgumentParser) -> None:
    """Print the versions of what Linformer uses, and say what is missing or wrong.

    The exit status is 1 if something required is missing or wrong, and 0 otherwise: warnings and missing optional
    parts do not count.
    """


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Score a finetuned checkpoint on a task prepared with `linformer data task`.

    Prints the accuracy, and F1 where the task asks for it; the numbers are those of fairseq's own validation. Writes
    each example's prediction, and the file that GLUE's server takes for a test set.
    """
    parser.add_argument(
        "checkpoint",
        help="checkpoint of a finetuning with --task sentence_prediction, or the name of a model that comes with the "
        "package",
    )
    parser.add_argument("data", type=Path, metavar="TASK", help="the folder that `linformer data task` wrote")
    parser.add_argument("--split", help="train, valid or test (default: test with --submission, otherwise valid)")
    parser.add_argument(
        "--batch-size", type=int, default=32, metavar="N", help="examples at once (default: %(default)s)"
    )
    parser.add_argument("--device", help="cpu, cuda, cuda:1 ... (default: a GPU where there is one)")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 (default: float32)")
    parser.add_argument(
        "--compile-encoder", action="store_true", help="through torch.compile; pays for many thousands of examples"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="table of id, prediction, label and probability")
    parser.add_argument(
        "--submission",
        type=Path,
        metavar="FILE",
        help="GLUE's submission file, of the test split unless --split says otherwise; in a folder it gets GLUE's own "
        "name for it",
    )


def experiments(parser: argparse.ArgumentParser) -> None:
    """What the configs in configs/experiment are: the runs of the paper.

    `linformer experiments list` composes each of them and prints a table: n, k, sharing, parameters, an update in
    sequences, tokens and operations, all tokens, and where the paper shows the run. `linformer pretrain
    experiment=NAME` starts one, and with --dry-run says more about it.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    action = actions.add_parser(
        "list",
        help="a table of all experiments",
        description="Compose each experiment and print a table of them. Operations are those of matrix products, "
        "forward and backward; without data, parameters are counted with RoBERTa's vocabulary.",
    )
    action.add_argument("--format", choices=("text", "markdown"), default="text", help="default: %(default)s")
    action.add_argument("--config-dir", type=Path, metavar="DIR", help="configs of your own in place of the project's")


def finetune(parser: argparse.ArgumentParser) -> None:
    """Finetune a pretrained checkpoint on a task that `linformer data task` made.

      linformer finetune task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt run_config=gpu
      linformer finetune --multirun task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt

    What the model is (n, k, sharing, projection, size) is read from the checkpoint. With --multirun the grid of the
    config runs: three learning rates with five seeds each. The run folder is runs/NAME/TASK_lrLR_sSEED.

    Exit status: 0 finished, 1 failed, 85 stopped by a signal with a checkpoint saved, 130 Ctrl-C.
    """
    _training(parser)


def pretrain(parser: argparse.ArgumentParser) -> None:
    """Pretrain by a config: masked-language modelling on the folder that `linformer data pretraining` made.

      linformer pretrain experiment=linformer_base_n512_k128_layerwise task.data=work/bin run_config=gpu
      linformer pretrain --dry-run model=roberta_base task.tokens_per_sample=1024 task.data=work/bin

    `linformer experiments list` names the experiments. run_config is cpu, gpu (one), node (all of this machine,
    through torchrun), srun (inside a SLURM job) or slurm (submits one). Paths are relative to where you stand. The run
    folder is runs/NAME; the same command goes on where a run stopped.

    Exit status: 0 finished, 1 failed, 85 stopped by a signal with a checkpoint saved, 130 Ctrl-C.
    """
    _training(parser)


def results(parser: argparse.ArgumentParser) -> None:
    """Collect the results of runs, and make the paper's table and figure from them.

    `linformer results collect runs` makes one row per run, in a file that can be committed; `linformer results table2`
    and `linformer results figure3` put the rows beside the paper's. Runs of another size than the paper's are labelled
    so. `linformer results perplexity` is for any pretrainings, `linformer results accuracy` for any finetunings.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    gather = actions.add_parser(
        "collect",
        help="one row per run from the run folders below DIR",
        description="Read the run folders in and below DIR and put a row for each into a file of JSON lines, in the "
        "place of an earlier row of the same run. Damaged folders are named and left out. The fields of a row are "
        "described in results/README.md.",
    )
    gather.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="a run's folder, or one above it")
    gather.add_argument("--out", type=Path, default=ROWS, metavar="FILE", help="the rows (default: %(default)s)")
    table = actions.add_parser(
        "table2",
        help="the paper's Table 2 beside ours",
        description="Print accuracy on SST-2, IMDB, QNLI and QQP: the paper's Table 2, and ours as medians over seeds.",
    )
    table.add_argument("--format", choices=("markdown", "latex"), default="markdown", help="default: %(default)s")
    table.add_argument("--out", type=Path, metavar="FILE", help="write there instead of printing")
    figure = actions.add_parser(
        "figure3",
        help="the paper's Figure 3 from our runs",
        description="Draw validation perplexity against updates in the four panels of the paper's Figure 3, as PNG "
        "and SVG; one figure for each scale that there are runs of.",
    )
    figure.add_argument("--out", type=Path, metavar="DIR", help="folder of the files (default: that of the rows)")
    perplexity = actions.add_parser(
        "perplexity",
        help="perplexity of all pretrainings, and their curves",
        description="Print the perplexity of all pretrainings, seeds together, with their speed and that of a RoBERTa "
        "after the same time; and draw their curves over tokens and over hours of training, as PNG and SVG.",
    )
    perplexity.add_argument("--out", type=Path, metavar="FILE", help="write the table there instead of printing")
    perplexity.add_argument("--figure", type=Path, metavar="DIR", help="folder of the figure (default: none is drawn)")
    accuracy = actions.add_parser(
        "accuracy",
        help="accuracy of all finetunings",
        description="Print the accuracy of all finetunings by model and task, seeds together, with their time.",
    )
    accuracy.add_argument("--out", type=Path, metavar="FILE", help="write the table there instead of printing")
    accuracy.add_argument(
        "--controls",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="what a bag of words makes of the tasks: JSON files that scripts.reproduce_tools.bag_of_words wrote",
    )
    for reader in (table, figure, perplexity, accuracy):
        reader.add_argument("--runs", type=Path, default=ROWS, metavar="FILE", help="rows (default: %(default)s)")


def _training(parser: argparse.ArgumentParser) -> None:
    """The options of both; everything else on the line is an override of the config."""
    parser.add_argument(
        "overrides", nargs="*", metavar="KEY=VALUE", help="overrides of the config, as Hydra reads them"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="check, and print config, size, cost and memory; start nothing"
    )
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="run every combination of values given with commas (lr=1e-5,2e-5)"
    )
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="configs of your own in place of the project's")
    parser.set_defaults(takes_more=True)


def user_dir(parser: argparse.ArgumentParser) -> None:
    """Print the folder that --user-dir takes: `fairseq-train DATA --user-dir "$(linformer user-dir)" ...`."""


def _programs(parser: argparse.ArgumentParser, programs: dict[str, str]) -> None:
    """A program has a parser of its own, which reads everything after its name."""
    lines = [f"  {name:<12}{text}" for name, text in programs.items()]
    parser.description = "\n".join([parser.description or "", "", "programs:", *lines])
    parser.add_argument("program", choices=programs, metavar="PROGRAM", help="one of the programs above")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="its options")

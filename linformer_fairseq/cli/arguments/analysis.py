"""The options of `linformer analyse`."""

from __future__ import annotations

import argparse
from pathlib import Path

from linformer_fairseq.cli.arguments import add_device
from linformer_fairseq.files.option_types import count, seed

_ANALYSED = (
    "a Linformer, fairseq's RoBERTa (checkpoint, or folder with one), a folder of Hugging Face's RoBERTa or BERT, or a "
    "model that comes with the package"
)


def analyse(parser: argparse.ArgumentParser) -> None:
    """Compute why k can be small, and when it cannot: the rank of attention, and the paper's theorems in numbers.

    `linformer analyse spectrum` is Figure 1 of the paper: singular values of the attention matrix P of every layer and
    head, with controls. `linformer analyse theory` computes what Theorems 1 and 2 are about. `linformer analyse
    attention` shows P and E for a text. `linformer analyse limits` measures how well tokens are predicted by the length
    of the input and by the position of the text in it, `linformer analyse insertion` how a finetuned model's classes
    depend on tokens in front of the text. They write JSON, PNG and SVG to a folder; to go on with a stopped run, repeat
    its command.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    values = actions.add_parser(
        "spectrum",
        help="singular values of P for every layer and head (Figure 1)",
        description="Average the normalized cumulative singular values of P (of a Linformer: of P-bar) over blocks of "
        "text, for every layer and head, beside controls: the model before training, softmax of random logits of the "
        "same size, and uniform P. Print how many singular values make up 90, 95 and 99 % of their sum, also as a "
        "projected_dim for training. Texts are joined and cut into full blocks; some are chosen at random.",
    )
    values.add_argument("checkpoint", metavar="CHECKPOINT", help=_ANALYSED)
    values.add_argument(
        "--sentences", type=count, default=1000, metavar="N", help="blocks (default: %(default)s; the paper: 10000)"
    )
    values.add_argument("--length", type=int, metavar="T", help="tokens of a block (default: the model's n)")
    values.add_argument(
        "--index",
        type=int,
        metavar="I",
        help="which singular value the heat map is for (default: a quarter of them, as the paper's 128 of 512)",
    )
    theorems = actions.add_parser(
        "theory",
        help="errors of Theorems 1 and 2 over k and n, beside the bounds",
        description="Compute the relative errors that the paper's Theorems 1 and 2 are about, over n and k, for inputs "
        "that are drawn and for those of a model's layers; check three steps of the proofs; compare with mean pooling, "
        "Performer and Nystrom attention at equal cost.",
    )
    theorems.add_argument("--checkpoint", metavar="CHECKPOINT", help=f"inputs of its layers, too: {_ANALYSED}")
    theorems.add_argument("--text", type=Path, metavar="FILE", help="text for the model, as for `spectrum`")
    theorems.add_argument(
        "--lengths", type=int, nargs="+", default=[64, 128, 256, 512], metavar="N", help="n (default: %(default)s)"
    )
    theorems.add_argument(
        "--projected-dims",
        type=int,
        nargs="+",
        metavar="K",
        help="k; only those below an n are used with it (default: 8, 16, ... 256, those below the largest n)",
    )
    theorems.add_argument(
        "--samples",
        type=int,
        default=16,
        metavar="N",
        help="inputs, or blocks of text; least squares are fitted to half of them (default: %(default)s)",
    )
    maps = actions.add_parser(
        "attention",
        help="P and E for a text, as figures and as a page to click",
        description="Compute P (of a Linformer: P-bar and E) of every layer and head for one text, of up to n tokens. "
        "Write them as JSON, as figures, and as one HTML file that needs no network: layer, head and token are chosen "
        "by a click.",
    )
    maps.add_argument("checkpoint", metavar="CHECKPOINT", help=_ANALYSED)
    maps.add_argument("--text", required=True, help="the text itself; line breaks in it become spaces")
    bounds = actions.add_parser(
        "limits",
        help="masked tokens predicted by the length of the input, and by the position of the text in it",
        description="Predict masked tokens (15 %) of blocks of n tokens as they are and cut into pieces of T tokens; "
        "and of their first part behind s tokens of another block. Print accuracy, perplexity, and how much the "
        "features of the text change.",
    )
    bounds.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a Linformer, fairseq's RoBERTa (checkpoint, or folder with one), or a model that comes with the package",
    )
    bounds.add_argument(
        "--sentences", type=count, default=200, metavar="N", help="blocks of n tokens (default: %(default)s)"
    )
    bounds.add_argument("--lengths", type=int, nargs="+", metavar="T", help="tokens (default: 16, 32, ... and n)")
    bounds.add_argument(
        "--shifts", type=int, nargs="+", metavar="S", help="tokens in front; up to n / 2 (default: 1, 2, 4, ...)"
    )
    shifted = actions.add_parser(
        "insertion",
        help="classes of a finetuned model when tokens of other examples are inserted in front of a text",
        description="Classify examples of a task as they are, and with s tokens of other examples in front of the "
        "text, or behind it. Print the accuracy, and the share of examples whose class changes. Only examples that fit "
        "into n with the largest s are used.",
    )
    shifted.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a finetuned checkpoint, its run folder, or a folder made by `linformer checkpoint release`",
    )
    shifted.add_argument("task", type=Path, metavar="TASK", help="a folder made by `linformer data task`")
    shifted.add_argument(
        "--split", default="valid", metavar="NAME", help="split of the task, with labels (default: %(default)s)"
    )
    shifted.add_argument(
        "--shifts", type=int, nargs="+", metavar="S", help="inserted tokens (default: 1, 2, 4, ... up to n / 8)"
    )
    shifted.add_argument(
        "--examples", type=count, default=1000, metavar="N", help="at most; chosen at random (default: %(default)s)"
    )
    shifted.add_argument(
        "--batch", type=count, default=32, metavar="B", help="examples at a time (default: %(default)s)"
    )
    for one in (values, bounds):
        one.add_argument(
            "input", type=Path, metavar="FILE", help="text: lines, .tsv, .jsonl, .parquet, or a folder of documents"
        )
        one.add_argument("--batch", type=count, default=8, metavar="B", help="blocks at a time (default: %(default)s)")
    for one in (values, theorems, maps, bounds):
        one.add_argument(
            "--data",
            type=Path,
            metavar="DIR",
            help="folder with the dictionary and the tokenizer of a fairseq checkpoint (default: the checkpoint's "
            "folder if it has them, otherwise the data folder of the training)",
        )
    for one in (values, theorems, maps, bounds, shifted):
        add_device(one)
        one.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the results")
    for one in (values, theorems, bounds, shifted):
        one.add_argument(
            "--seed",
            type=seed,
            default=1,
            help="seed for the choice of blocks or examples, and for what is drawn (default: 1)",
        )
    page = actions.add_parser(
        "report",
        help="a page on all results in a folder",
        description="Write README.md for the results in and below a folder.",
    )
    page.add_argument("folder", type=Path, metavar="DIR", help="folder with results of the other actions")

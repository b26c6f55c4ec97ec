"""The options of the commands that write models, or what is said about them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from linformer_fairseq.cli.arguments import add_device
from linformer_fairseq.files.option_types import count, seed

TEXT_TOKENS = 32_768
"""How many tokens of a text a conversion is compared on, unless another number is given."""


def card(parser: argparse.ArgumentParser) -> None:
    """Write a model card in the format of the Hugging Face hub: Markdown with metadata in front.

      linformer evaluate RUN work/sst2 --results sst2.json
      linformer card RUN --results sst2.json --license mit --language en --out README.md

    The card has the architecture, the data with their licences, the training, the scores with what measured them, and
    the limits. All of it comes from the checkpoint, run.json and logs in its folder, conversion.json, and the manifest
    of the data folder; what these do not say is "not recorded". `linformer export hf` writes a card into its folder.
    """
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a checkpoint, a run folder (its checkpoint_best.pt), a folder made by `linformer checkpoint release`, "
        "`convert` or `import`, or a model that comes with the package",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file (default: stdout)")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of the data that it was trained on (default: the one that the checkpoint or the run names)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="scores to put into the card: a file of `linformer evaluate --results`; can be repeated",
    )
    parser.add_argument(
        "--license",
        type=_of_form(r"[a-z0-9][a-z0-9.+-]*", "an identifier of the hub, such as mit or apache-2.0"),
        metavar="ID",
        help="licence of the model, in the words of the hub (not verified): mit, apache-2.0, ...",
    )
    parser.add_argument(
        "--language",
        type=_of_form(r"[a-z]{2,3}", "a code of ISO 639, such as en"),
        metavar="CODE",
        help="language of the model: en, de, ...",
    )


def _of_form(pattern: str, expected: str) -> Callable[[str], str]:
    """The type of an argument that is written like ``pattern``."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise argparse.ArgumentTypeError(f"{value!r}: expected {expected}")
        return value

    return check


def checkpoint(parser: argparse.ArgumentParser) -> None:
    """Verify checkpoints, and export models for sharing.

    `linformer checkpoint verify DIR` reads every checkpoint in a run folder, verifies its checksum, and prints from
    which one the run would resume. Files written by other programs have no checksum; for them the CRCs of the zip
    archive are verified.

    `linformer checkpoint release CHECKPOINT --data DATA --out DIR` exports a model to a folder: the weights in half
    precision without the optimizer state, the dictionary and the tokenizer. The folder can be passed to
    `from_pretrained`, `pretrained=` and `linformer evaluate`. Of several checkpoints, it is the mean of their weights.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    verify = actions.add_parser(
        "verify",
        help="verify checksums, and print which checkpoint a run would resume from",
        description="Verify checkpoint files. The exit status is 1 if one is damaged or cannot be loaded.",
    )
    verify.add_argument("paths", type=Path, nargs="+", metavar="DIR_OR_FILE", help="a run folder, or a checkpoint")
    verify.add_argument(
        "--set-aside",
        action="store_true",
        help="rename damaged files in DIR to NAME.damaged and copy the newest valid checkpoint to checkpoint_last.pt, "
        "as resuming the run does; the exit status is then 0. If no checkpoint is valid, nothing is renamed; a folder "
        "in which a run is active is refused",
    )
    release = actions.add_parser(
        "release",
        help="export a model for sharing: weights in half precision, dictionary and tokenizer",
        description="Export the model of a checkpoint to a folder: model.safetensors (weights in half precision, the "
        "options of the model, a checksum; no optimizer state, no pickle), the dictionary and the tokenizer.",
    )
    release.add_argument(
        "checkpoints",
        nargs="+",
        metavar="CHECKPOINT",
        help="checkpoint of a pretraining or finetuning, or its run folder (its checkpoint_best.pt); of several of "
        "the same model, the mean of their weights is exported, with the options of the first",
    )
    release.add_argument("--data", type=Path, required=True, metavar="DIR", help="the data folder it was trained on")
    release.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder for the model")


def convert(parser: argparse.ArgumentParser) -> None:
    """Make a Linformer of a pretrained RoBERTa: all weights are kept, and projections E and F are added.

      linformer convert roberta.base work/converted --projected-dim 128 --text book.txt
      linformer convert FacebookAI/roberta-base work/converted --projected-dim 256 --max-positions 4096 --text book.txt

    With --text, prints how close the result is to the source before any training: the perplexity of masked tokens of
    both, and the relative error of the attention's output in each layer. The folder OUT can be passed to
    `from_pretrained`, and to `linformer pretrain` and `finetune` as pretrained=OUT. With k = n, the result computes
    the same as the source; with --projection linear, for inputs of n tokens only, and not with --start random.
    """
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="checkpoint of fairseq's RoBERTa, a folder with one (model.pt), a folder of Hugging Face's RoBERTa "
        "(config.json, safetensors, tokenizer), or its name on the Hugging Face hub",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="new folder for the model")
    parser.add_argument(
        "--projected-dim", required=True, metavar="K", help="k, or a list with one per layer, as for training"
    )
    parser.add_argument(
        "--sharing",
        choices=("none", "headwise", "key_value", "layerwise"),
        default="layerwise",
        help="how heads and layers share E and F (default: %(default)s)",
    )
    parser.add_argument(
        "--projection",
        choices=("linear", "mean_pool", "convolution"),
        help="kind of the projection from n positions to k rows (default: convolution; with --start dct: linear)",
    )
    parser.add_argument(
        "--start",
        choices=("window_means", "random", "dct", "least_squares"),
        default="window_means",
        help="initial values of E and F (default: %(default)s); least_squares fits them to the text",
    )
    parser.add_argument(
        "--max-positions",
        type=int,
        metavar="N",
        help="n (default: the source's); a larger one repeats the position embeddings",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with the dictionary and the tokenizer of a fairseq checkpoint (default: the checkpoint's folder)",
    )
    parser.add_argument(
        "--text",
        type=Path,
        metavar="FILE",
        help="text on which source and result are compared, one paragraph per line; least_squares needs it, too",
    )
    parser.add_argument(
        "--text-tokens",
        type=count,
        metavar="N",
        help="number of tokens of --text to compare on; least_squares fits E and F to those after them (default: "
        f"{TEXT_TOKENS})",
    )
    parser.add_argument(
        "--seed", type=seed, default=1, help="seed of random E and F, and of the choice of masked tokens (default: 1)"
    )
    add_device(parser)


def export(parser: argparse.ArgumentParser) -> None:
    """Convert a model to the format of another library.

    `linformer export hf MODEL OUT` writes a folder for Hugging Face's transformers: config.json, safetensors, a fast
    tokenizer, and the modelling code, which transformers runs with trust_remote_code=True. `linformer export onnx` and
    `linformer export torch` write the model as a graph, with the same tokenizer.
    """
    formats = parser.add_subparsers(title="formats", metavar="FORMAT", dest="format", required=True)
    hugging_face = formats.add_parser(
        "hf",
        help="a folder for AutoModel.from_pretrained(OUT, trust_remote_code=True)",
        description="Write a folder that transformers loads with trust_remote_code=True. The weights keep their "
        "precision; of several classification heads, the one that was trained is exported.",
    )
    onnx = formats.add_parser(
        "onnx",
        help="an ONNX model, for onnxruntime",
        description="Write an ONNX model that takes input_ids and attention_mask, int64 (B, T) padded on the right, "
        "with any B and 2 <= T <= n, and returns logits in fp32.",
    )
    onnx.add_argument(
        "--int8", action="store_true", help="write a second model with matrix products in int8 (dynamic quantization)"
    )
    program = formats.add_parser(
        "torch",
        help="a program of torch.export, for torch.export.load and AOTInductor",
        description="Write a program of torch.export that takes input_ids and attention_mask, int64 (B, T) padded on "
        "the right, with any B and 2 <= T <= n, and returns logits in fp32.",
    )
    for one in (hugging_face, onnx, program):
        one.add_argument(
            "model",
            metavar="MODEL",
            help="a checkpoint, its run folder, a folder made by `linformer checkpoint release`, `linformer convert` "
            "or `linformer import hf`, or a model that comes with the package",
        )
        one.add_argument("out", type=Path, metavar="OUT", help="new folder for the model")
        one.add_argument(
            "--data",
            type=Path,
            metavar="DIR",
            help="folder with the dictionary, the tokenizer and the labels that the model was trained with (default: "
            "the checkpoint's folder if it has them, otherwise the data folder of the training)",
        )


def import_(parser: argparse.ArgumentParser) -> None:
    """Convert a model from the format of another library to fairseq's.

    `linformer import hf FOLDER OUT` writes a checkpoint of fairseq, with its dictionary and tokenizer, for a folder
    that `linformer export hf` or save_pretrained wrote. None of the code in the folder is run.
    """
    formats = parser.add_subparsers(title="formats", metavar="FORMAT", dest="format", required=True)
    hugging_face = formats.add_parser(
        "hf",
        help="a folder of a Linformer in transformers",
        description="Write OUT/model.pt, a checkpoint of fairseq, and the dictionary and tokenizer. fairseq's models "
        "always have a head for masked tokens; if the folder has none, its weights are random.",
    )
    hugging_face.add_argument(
        "folder", type=Path, metavar="FOLDER", help="folder with config.json and model.safetensors"
    )
    hugging_face.add_argument("out", type=Path, metavar="OUT", help="new folder for the checkpoint")
    hugging_face.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with dict.txt and the tokenizer of the model (default: FOLDER)",
    )

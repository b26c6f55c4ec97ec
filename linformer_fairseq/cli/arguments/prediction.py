"""The options of the commands that read texts with a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from linformer_fairseq.cli.arguments import add_device
from linformer_fairseq.files.cuts import CUTS
from linformer_fairseq.files.option_types import count
from linformer_fairseq.prediction.options import BATCH_TOKENS, EXTENSIONS, FORMATS, POOLINGS

STDIN = Path("-")
"""The input of a prediction if none is named."""


def demo(parser: argparse.ArgumentParser) -> None:
    """Try a model on a web page, in a browser on this machine.

      linformer demo linformer-small

    Prints the address of the page and serves it until Ctrl-C or SIGTERM. For a pretrained model, the page fills masks;
    for a classifier, it classifies a text, a pair of texts, or each line of a file. For both, it shows the attention
    of a text to the k projected rows, as a heat map for each layer and head.

    By default, only this machine can open the page; there is no password. A file may have up to 2 MiB.
    """
    _model(parser, "checkpoint of a pretraining, or of a finetuning with --task sentence_prediction")
    parser.set_defaults(compile_encoder=False)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on; 0.0.0.0 lets other machines open the page (default: %(default)s)",
    )
    parser.add_argument(
        "--port", type=int, default=7860, metavar="N", help="0: any that is free (default: %(default)s)"
    )


def embed(parser: argparse.ArgumentParser) -> None:
    """Write vectors of texts: the output of a model's last layer, pooled for each text, or for each token.

      linformer embed linformer-small texts.txt --out vectors.npy

    Texts are read as by `linformer predict`. The .npy file has shape (texts, C); the vector of a text that could not be
    read is NaN. With --pooling tokens it has shape (tokens of all texts, C), and NAME.lengths.npy beside it has the
    number of tokens of each text. A parquet file has the columns id and vector, or id, tokens and vectors.

    Exit status: 0 all texts have vectors (also if there are no texts), 1 some could not be processed, or the command
    failed.
    """
    _model(parser, "checkpoint of a pretraining or finetuning")
    _texts(parser)
    _long(parser)
    parser.add_argument(
        "--pooling",
        choices=POOLINGS,
        default="mean",
        help="the vector of a text is the mean or maximum over all its tokens (special ones included), or that of the "
        "first token (<s>); tokens: a vector for each token (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="name that ends with .npy or .parquet")


def fill_mask(parser: argparse.ArgumentParser) -> None:
    """Print the most probable tokens for the <mask> in each text.

      echo "He opened the <mask> and walked into the room." | linformer fill-mask linformer-small

    Texts are read as by `linformer predict`. A text that has no <mask>, several, or more tokens than the model takes,
    is reported on stderr with its number, and the exit status is 1.
    """
    _model(parser, "checkpoint of a pretraining")
    _texts(parser)
    _lines_out(parser)
    parser.add_argument("--top", type=count, default=5, metavar="N", help="candidates per text (default: %(default)s)")


def predict(parser: argparse.ArgumentParser) -> None:
    """Classify texts with a finetuned checkpoint.

      linformer predict RUN/checkpoint_best.pt reviews.txt --out classes.tsv
      zcat reviews.jsonl.gz | linformer predict my_model - --format jsonl --field body --jsonl

    The input is a file with a text on each line, TSV, JSON lines, parquet, a folder with a document in each file, or
    standard input. It is read as a stream: memory does not depend on its size. The output has a line for each text, in
    the order of the input: its id (number of the line or row, or name of the document), label and probability.

    A text that cannot be processed is reported on stderr with its number; its line in the output has no label.
    Exit status: 0 all texts have a class (also if there are no texts), 1 some could not be processed, or the command
    failed.
    """
    _model(parser, "checkpoint of a finetuning with --task sentence_prediction")
    _texts(parser)
    _long(parser)
    _lines_out(parser)
    parser.add_argument("--scores", action="store_true", help="also write the probability of every class")


def _model(parser: argparse.ArgumentParser, kind: str) -> None:
    """The model of `predict`, `embed`, `fill-mask` and `demo`, and its precision."""
    parser.add_argument(
        "checkpoint",
        help=f"{kind}, its run folder, a folder made by `linformer checkpoint release` or `linformer import hf`, or a "
        "model that comes with the package",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with the model's dictionary, tokenizer and labels (default: the checkpoint's folder if it has "
        "them, otherwise the data folder of the training)",
    )
    add_device(parser)
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 (default: float32)")
    parser.add_argument("--int8", action="store_true", help="compute linear layers in 8-bit integers (CPU only)")


def _texts(parser: argparse.ArgumentParser) -> None:
    """The input of `predict`, `embed` and `fill-mask`, and how many texts are computed at a time."""
    parser.add_argument(
        "--compile-encoder", action="store_true", help="use torch.compile; pays off for many thousands of texts"
    )
    parser.add_argument(
        "--batch-tokens",
        type=count,
        default=BATCH_TOKENS,
        metavar="N",
        help="tokens per batch, with padding (default: %(default)s)",
    )
    parser.add_argument(
        "input", type=Path, nargs="?", default=STDIN, metavar="FILE", help="file, folder, or - (stdin; default)"
    )
    parser.set_defaults(takes_more="input")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help=f"format of FILE (default: by its extension: {', '.join(EXTENSIONS)}, otherwise lines)",
    )
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME",
        help="column or key of the text; give it twice for pairs (default for JSON lines and parquet: text; a TSV file "
        "has no header then, and each line is a text, or two with a tab between them)",
    )


def _long(parser: argparse.ArgumentParser) -> None:
    """What is done with long texts."""
    parser.add_argument(
        "--long",
        choices=CUTS,
        help="texts with more tokens than the model, or its training, takes: truncate them, keeping the beginning, the "
        "end or both, or divide them into windows and average the results (default: as the training data were, see "
        "`linformer data task --cut`; otherwise head)",
    )


def _lines_out(parser: argparse.ArgumentParser) -> None:
    """The output of `predict` and `fill-mask`."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file (default: stdout)")
    parser.add_argument("--jsonl", action="store_true", help="write JSON lines (default: TSV with a header)")

"""Sizes of the compared models."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.option_types import count

_HELP = {
    "layers": "layers",
    "width": "features",
    "ffn": "features of the feed-forward layers",
    "heads": "attention heads",
    "vocabulary": "tokens in the vocabulary",
}


@dataclass(frozen=True)
class Sizes:
    """Sizes of every model; the defaults are RoBERTa-base."""

    layers: int = 12
    width: int = 768
    ffn: int = 3072
    heads: int = 12
    vocabulary: int = 50265

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise UserError(f"--width {self.width} is no multiple of --heads {self.heads}")
        if self.vocabulary < 16:
            raise UserError(f"--vocabulary is {self.vocabulary}; expected at least 16")


def add_arguments(parser: argparse.ArgumentParser, vocabulary: bool = True) -> None:
    """Add an option for each size; without ``vocabulary``, that one keeps its default."""
    group = parser.add_argument_group("size of the models")
    for name, value in asdict(Sizes()).items():
        if name == "vocabulary" and not vocabulary:
            parser.set_defaults(vocabulary=value)
            continue
        group.add_argument(f"--{name}", type=count, default=value, help=f"{_HELP[name]} (%(default)s)")


def sizes_of(args: argparse.Namespace) -> Sizes:
    """The sizes given by the options.

    Raises:
        UserError: a size is invalid.
    """
    return Sizes(args.layers, args.width, args.ffn, args.heads, args.vocabulary)

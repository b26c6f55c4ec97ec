"""Command lines of fairseq-train as its config. Parsing takes a third of a second; the same words are parsed once."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import DictConfig


def parse(data: Path | str, *words: str) -> Any:
    """The config of ``fairseq-train DATA WORDS...``, to be changed as one likes."""
    config = copy.deepcopy(_parsed(words))
    for part in config.values():
        if part is not None and "data" in part:
            part.data = str(data)
    return config


@functools.cache
def _parsed(words: tuple[str, ...]) -> DictConfig:
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=["data", *words])
    return convert_namespace_to_omegaconf(args)

"""Sample text as blocks of tokens."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data import Dictionary, encoders
from torch import Tensor

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.text import read_text
from linformer_fairseq.files.tokenizers import find_tokenizer


def read_tokens(path: Path, folder: Path, dictionary: Dictionary, count: int) -> Tensor:
    """The first tokens of a text, (at most ``count``,), with ``</s>`` at the end of each line.

    Args:
        path: UTF-8 text, a paragraph a line.
        folder: with the tokenizer.
        dictionary: of the model.
        count: how many are needed.

    Raises:
        UserError: the file cannot be read as text.
    """
    bpe = encoders.build_bpe(Namespace(**find_tokenizer([folder])))
    tokens: list[int] = []
    for line in filter(str.strip, read_text(path).split("\n")):
        if len(tokens) >= count:
            break
        encoded = dictionary.encode_line(bpe.encode(line.strip()), append_eos=True, add_if_not_exist=False)
        tokens += encoded.tolist()
    return torch.tensor(tokens[:count])


def blocks(tokens: Tensor, length: int, first: int) -> Tensor:
    """Cuts tokens into full blocks, (B, length), each of which begins with the symbol ``first``.

    Raises:
        UserError: there are not enough for one.
    """
    count = len(tokens) // (length - 1)
    if not count:
        raise UserError(f"--text: {len(tokens):,} tokens; expected at least {length - 1:,}, for a block of {length:,}")
    rows = tokens[: count * (length - 1)].view(count, length - 1)
    return torch.cat([rows.new_full((count, 1), first), rows], dim=1)

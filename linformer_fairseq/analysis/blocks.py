"""Blocks of tokens, chosen at random from text."""

from __future__ import annotations

import random
import sys
from typing import NamedTuple

import numpy as np

from linformer_fairseq.analysis.encoder import Encoder
from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.prediction.items import Source


class Chosen(NamedTuple):
    """Blocks of a text, or examples of a task."""

    rows: Ids
    """(blocks, T); of examples of different lengths their numbers, (examples,)."""
    available: int
    """How many there are to choose from."""


def check_length(encoder: Encoder, length: int | None) -> int:
    """T of the blocks; None: the encoder's n.

    Raises:
        UserError: the encoder takes no inputs of that length.
    """
    n = encoder.max_positions
    if length is not None and not 2 <= length <= n:
        raise UserError(f"--length {length:,}: expected 2 to {n:,} tokens, which is what this model takes")
    return length or n


def choose_blocks(
    source: Source, encoder: Encoder, length: int, count: int, seed: int, option: str = "--sentences"
) -> Chosen:
    """Cut a text into full blocks, as for pretraining, and choose some of them at random.

    The texts are joined, each with the encoder's last token (``</s>``) at its end; every block begins with the first
    one (``<s>``). What remains at the end is left out. All of the text is read; in memory are the chosen blocks.

    Args:
        source: the texts. Empty ones are passed over, others that cannot be read are reported on stderr.
        encoder: its tokenizer is used.
        length: T of a block, at least 2.
        count: how many are chosen.
        seed: of the choice.
        option: the name of ``count`` in messages.

    Raises:
        UserError: there is no text, or there are fewer blocks.
    """
    generator = random.Random(seed)
    kept: list[Ids] = []
    available = failed = 0
    stream = np.empty(0, dtype=np.int64)
    with Progress("reading text", source.total, items=source.unit) as progress:
        for item in source.items:
            progress.advance(item.size)
            if isinstance(item.text, ValueError):
                failed += 1
                continue
            for text in (item.text,) if isinstance(item.text, str) else item.text:
                stream = np.concatenate([stream, encoder.encode(text), [encoder.last]])
            while len(stream) >= length - 1:
                block, stream = np.concatenate([[encoder.first], stream[: length - 1]]), stream[length - 1 :]
                available += 1
                if len(kept) < count:
                    kept.append(block)
                # Each block so far is kept with the same probability (Vitter 1985, algorithm R).
                elif (place := generator.randrange(available)) < count:
                    kept[place] = block
    if failed:
        print(f"{source.name}: {failed:,} empty or unreadable {source.place}s left out", file=sys.stderr)
    if not available and not len(stream):
        raise UserError(f"{source.name}: there is no text in it")
    if available < count:
        raise UserError(
            f"{source.name}: its text makes {available:,} blocks of {length:,} tokens, but {option} is {count:,}; give "
            "more text, or ask for fewer"
        )
    return Chosen(np.stack(kept), available)

"""What fairseq's models want to know of a task: its symbols and its longest input."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from benchmarks.efficiency.sizes import Sizes

SPECIAL = 5
"""Symbols of every dictionary: <s>, <pad>, </s>, <unk> and <mask>."""


@lru_cache(maxsize=1)
def dictionary(symbols: int) -> Any:
    """fairseq's, with that many symbols."""
    from fairseq.data import Dictionary

    made = Dictionary()
    for number in range(symbols - SPECIAL):
        made.add_symbol(f"s{number}")
    made.add_symbol("<mask>")
    return made


def encoder_options(sizes: Sizes, n: int, dropout: float) -> dict[str, Any]:
    """Sizes under the names that fairseq's RoBERTa and ours have for them."""
    return {
        "encoder_layers": sizes.layers,
        "encoder_embed_dim": sizes.width,
        "encoder_ffn_embed_dim": sizes.ffn,
        "encoder_attention_heads": sizes.heads,
        "dropout": dropout,
        "attention_dropout": dropout,
        "max_positions": n,
    }


class Task:
    """Stands for a task where a model is built."""

    cfg = None

    def __init__(self, symbols: int, n: int) -> None:
        self.source_dictionary = dictionary(symbols)
        self._n = n

    def max_positions(self) -> int:
        """n."""
        return self._n

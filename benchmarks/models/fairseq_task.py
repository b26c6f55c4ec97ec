"""What fairseq's models want to know of a task: its symbols and its longest input."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

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


class Task:
    """Stands for a task where a model is built."""

    cfg = None

    def __init__(self, symbols: int, n: int) -> None:
        self.source_dictionary = dictionary(symbols)
        self._n = n

    def max_positions(self) -> int:
        """n."""
        return self._n

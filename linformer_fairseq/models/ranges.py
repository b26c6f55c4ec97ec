"""The ranges of the model's options, and how a range is written."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

_LARGEST = sys.float_info.max


class Range(NamedTuple):
    """The values of an option, or of each one in its list: whole numbers if ``least`` is one."""

    least: int | float
    most: int | float = _LARGEST
    ends: str = "[]"
    """A round bracket in place of a square one: that end is not a value itself."""
    unlimited: int | None = None
    """One more value, which stands for no limit."""

    def has(self, value: Any) -> bool:
        """Whether it is one of the values."""
        if not isinstance(value, int if self._whole else int | float) or isinstance(value, bool):
            return False
        above = value > self.least if self.ends[0] == "(" else value >= self.least
        below = value < self.most if self.ends[1] == ")" else value <= self.most
        return (above and below) or value == self.unlimited

    def __str__(self) -> str:
        low = f"above {self.least:g}" if self.ends[0] == "(" else f"of at least {self.least:g}"
        high = f" and {'below' if self.ends[1] == ')' else 'at most'} {self.most:,}" if self.most < _LARGEST else ""
        other = f", or {self.unlimited}" if self.unlimited is not None else ""
        return f"a {'whole ' if self._whole else ''}number {low}{high}{other}"

    @property
    def _whole(self) -> bool:
        return isinstance(self.least, int)


COUNT, POSITIVE, AMOUNT = Range(0), Range(1), Range(0.0)
PROBABILITY = Range(0.0, 1)
DROPOUT = Range(0.0, 1, "[)")  # at 1, nothing would be left

RANGES_OF_MODEL = {
    "activation_dropout": DROPOUT,
    "attention_dropout": DROPOUT,
    "dropout": DROPOUT,
    "encoder_attention_heads": POSITIVE,
    "encoder_embed_dim": POSITIVE,
    "encoder_ffn_embed_dim": POSITIVE,
    "encoder_layerdrop": DROPOUT,
    "encoder_layers": POSITIVE,
    "max_positions": POSITIVE,
    "min_params_to_wrap": COUNT,
    "pooler_dropout": DROPOUT,
    "quant_noise_pq": PROBABILITY,
    "quant_noise_pq_block_size": POSITIVE,
}
"""Of the options of RoBERTa; those of the attention are checked by `LinformerSettings`."""

"""Windows of neighbouring positions, and their mean and maximum ("General projections" in section 4 of the paper).

Windows start at position 0, so that with right padding a sequence has the same rows alone and in a batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .projection import Projection, zero_padding
from .settings import LinformerSettings, window_length


class WindowProjection(Projection):
    """Base class: one row per window of neighbouring positions.

    A window has ceil(n / k) positions; with ``short_inputs=stretch``, ceil(T / k), where T is the number of tokens of
    the sequence. If T <= k, there is then one row per token.
    """

    def __init__(self, rows: int, settings: LinformerSettings) -> None:
        super().__init__(rows, settings.max_positions)
        self.window = window_length(settings.max_positions, rows)
        self._fits = settings.short_inputs == "stretch"

    def size(self, length: int) -> int:
        """Window size for a sequence of ``length`` tokens; with `fixed_rows` that for n."""
        return window_length(length, self.rows) if self._fits and not self.fixed_rows else self.window

    def count(self, length: int) -> int:
        return self.most(length) if self.fixed_rows else math.ceil(length / self.size(length))

    def most(self, length: int) -> int:
        """The largest `count` of sequences with up to ``length`` tokens; in a graph, as a symbol."""
        rows: int = torch.sym_min(length, self.rows)  # type: ignore[no-untyped-call]
        return rows

    def sizes(self, length: int, padding: Tensor | None) -> tuple[int, Tensor | None]:
        """The largest `size` in a batch, and that of each sequence, (B,), or None if it is the same for all."""
        if padding is None or not (self.fixed_rows or (self._fits and length > self.rows)):
            return self.size(length), None
        size, tokens = self.size(length), _tokens(padding)
        own = (tokens + self.rows - 1) // self.rows if self._fits else torch.full_like(tokens, self.window)
        # Batches of similar lengths often have one size. On a GPU, the host would have to wait for the answer.
        same = depends_on_values(padding) and not self.fixed_rows and bool((own == size).all())
        return size, None if same else own

    def live_rows(self, x: Tensor, padding: Tensor | None) -> Tensor | None:
        if padding is None:
            return None
        length = x.size(1)
        size, sizes = self.sizes(length, padding)
        if sizes is None:
            start = torch.arange(self.count(length), device=x.device) * size
        else:
            start = torch.arange(self.most(length), device=x.device) * sizes.unsqueeze(1)
        # A sequence of only padding keeps its first row, so that its softmax is defined.
        return (start < _tokens(padding).unsqueeze(1)).unsqueeze(1)  # (B, 1, R)

    def windows(self, x: Tensor, size: int, sizes: Tensor | None, fill: float) -> Tensor:
        """Splits sequences into windows.

        Args:
            x: (B, T, F).
            size, sizes: of the windows, from `sizes`.
            fill: the value beyond the end of a window or of the input.

        Returns:
            (B, R, size, F).
        """
        batch, length, features = x.shape
        if sizes is None:
            count = math.ceil(length / size)
            if missing := count * size - length:
                x = torch.cat([x, x.new_full((batch, missing, features), fill)], dim=1)
            return x.reshape(batch, count, size, features)
        start = torch.arange(self.most(length), device=x.device) * sizes.unsqueeze(1)  # (B, R)
        inside = torch.arange(size, device=x.device) < sizes.view(-1, 1, 1)
        return gathered(x, start, inside & on_tokens(start, size, length, None), fill)


class MeanPool(WindowProjection):
    """The mean over the tokens of each window; zero if a window has none."""

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        # Sums in fp32 for any dtype, because windows can be long. The last window may be shorter even without padding.
        sizes = self.sizes(x.size(1), padding)
        sums = self.windows(zero_padding(x, padding), *sizes, 0.0).sum(dim=2, dtype=at_least_fp32(x))
        real = torch.ones_like(x[:1, :, :1]) if padding is None else (~padding).unsqueeze(-1).to(x.dtype)
        count = self.windows(real, *sizes, 0.0).sum(dim=2, dtype=sums.dtype)
        return (sums / count.clamp(min=1)).to(x.dtype)


class MaxPool(WindowProjection):
    """The maximum of each feature over the tokens of each window; zero if a window has none."""

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        real = x if padding is None else x.masked_fill(padding.unsqueeze(-1), -math.inf)
        largest = self.windows(real, *self.sizes(x.size(1), padding), -math.inf).amax(dim=2)
        return largest if padding is None else largest.masked_fill(largest == -math.inf, 0.0)


def on_tokens(start: Tensor, size: int, length: int, padding: Tensor | None) -> Tensor:
    """Which of the ``size`` positions from ``start``, (R,) or (B, R), are those of tokens: bool (B or 1, R, size)."""
    tokens: Tensor | int = length if padding is None else _tokens(padding).view(-1, 1, 1)
    position = start.view(-1, start.size(-1), 1) + torch.arange(size, device=start.device)
    return (position >= 0) & (position < tokens)


def gathered(x: Tensor, start: Tensor, inside: Tensor, fill: float) -> Tensor:
    """Windows that begin anywhere.

    Args:
        x: (B, T, F).
        start: (B, R), their first positions.
        inside: bool (B, R, size), False for positions that are not in the input, or not in the window.
        fill: the value there.

    Returns:
        (B, R, size, F).
    """
    batch, length, features = x.shape
    position = start.unsqueeze(-1) + torch.arange(inside.size(-1), device=x.device)
    first = torch.arange(batch, device=x.device).view(-1, 1, 1) * (length + 1)
    index = first + torch.where(inside, position, length)
    # Whole rows are copied, and their gradients added: gather copies each element by itself on a CPU, and the backward
    # passes of an embedding and of indexing sort all indices on a GPU.
    rows = F.pad(x, (0, 0, 0, 1), value=fill).view(batch * (length + 1), features)
    return rows.index_select(0, index.flatten()).view(*index.shape, features)


def _tokens(padding: Tensor) -> Tensor:
    """(B,), at least 1."""
    return (~padding).sum(dim=1).clamp(min=1)


def at_least_fp32(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def depends_on_values(x: Tensor) -> bool:
    """Whether the code may depend on the values of a tensor: on a CPU, and neither in a graph nor in a transform of
    torch.func, nor of a subclass that may have no values."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    return x.device.type == "cpu" and type(x) is Tensor

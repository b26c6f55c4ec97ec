"""Projections of windows of neighbouring positions: mean pooling, max pooling, convolution ("General projections" in
section 4 of the paper).

Windows start at position 0, so that with right padding a sequence has the same rows alone and in a batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .projection import Projection, initialise_, own_weight, zero_padding
from .row_weights import affine, affine_taps, stretched
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
        return self.rows if self.fixed_rows else math.ceil(length / self.size(length))

    def sizes(self, length: int, padding: Tensor | None) -> Tensor | None:
        """`size` of each sequence, (B,); None if it is ``size(length)`` for all."""
        if padding is None or not (self.fixed_rows or (self._fits and length > self.rows)):
            return None
        tokens = (~padding).sum(dim=1).clamp(min=1)
        return (tokens + self.rows - 1) // self.rows if self._fits else torch.full_like(tokens, self.window)

    def windows(self, x: Tensor, padding: Tensor | None, fill: float) -> Tensor:
        """(B, T, ...) -> (B, R, window, ...), with ``fill`` beyond the end of the input."""
        batch, length, *rest = x.shape
        size, sizes = self.size(length), self.sizes(length, padding)
        if sizes is not None:
            return self._windows_of_sizes(x, size, sizes, fill)
        count = self.count(length)
        missing = count * size - length
        if missing:
            x = torch.cat([x, x.new_full((batch, missing, *rest), fill)], dim=1)
        return x.reshape(batch, count, size, *rest)

    def _windows_of_sizes(self, x: Tensor, most: int, sizes: Tensor, fill: float) -> Tensor:
        batch, length, *rest = x.shape
        sizes = sizes.view(-1, 1, 1)
        place = torch.arange(most, device=x.device)
        position = torch.arange(self.rows, device=x.device).unsqueeze(1) * sizes + place  # (B, R, most)
        outside = (place >= sizes) | (position >= length)
        index = position.clamp(max=length - 1).view(batch, -1, *[1] * len(rest)).expand(-1, -1, *rest)
        found = x.gather(1, index).view(batch, self.rows, most, *rest)
        if found.dtype == torch.bool:  # onnxruntime cannot fill these
            return found & ~outside if not fill else found | outside
        return found.masked_fill(outside.view(*outside.shape, *[1] * len(rest)), fill)

    def live_rows(self, x: Tensor, padding: Tensor | None) -> Tensor | None:
        if padding is None:
            return None
        live = self.windows(~padding, padding, False).any(dim=2).unsqueeze(1)  # (B, 1, R)
        # A sequence of only padding keeps its first row (all zero), so that its softmax is defined.
        return torch.cat([torch.ones_like(live[..., :1]), live[..., 1:]], dim=-1)


class MeanPool(WindowProjection):
    """The mean over the tokens of each window; zero if a window has none."""

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        # Sums in fp32 for any dtype, because windows can be long. The last window may be shorter even without padding.
        sums = self.windows(zero_padding(x, padding), padding, 0.0).sum(dim=2, dtype=_at_least_fp32(x))
        count = self.windows(_real(x, padding), padding, False).sum(dim=2).clamp(min=1).unsqueeze(-1)
        return (sums / count).to(x.dtype)


class MaxPool(WindowProjection):
    """The maximum of each feature over the tokens of each window; zero if a window has none."""

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        if padding is None:
            return self.windows(x, None, -math.inf).amax(dim=2)
        largest = self.windows(x.masked_fill(padding.unsqueeze(-1), -math.inf), padding, -math.inf).amax(dim=2)
        empty = ~self.windows(~padding, padding, False).any(dim=2)
        return largest.masked_fill(empty.unsqueeze(-1), 0.0)


class Convolution(WindowProjection):
    """A depthwise convolution along the sequence, with kernel size = stride = window size.

    For windows that are smaller than ceil(n / k), adjacent taps of the kernel are summed (see `row_weights.stretched`).

    Args:
        rows: K.
        features: F.
        settings: of the encoder.
    """

    weight: Tensor
    """(F, window), divided by ``step`` as in `LinearProjection`."""

    def __init__(self, rows: int, features: int, settings: LinformerSettings) -> None:
        super().__init__(rows, settings)
        self.step = settings.projection_step
        self._affine = settings.row_weights == "affine"
        self.settings = settings
        own_weight(self, torch.empty(features, self.window), settings.freeze_projection)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes the kernels as ``projection_init`` says."""
        # Each output depends on `window` inputs and, as kernel size = stride, each input contributes to one output.
        initialise_(self.weight.data, self.settings, self.rows, fan_in=self.window, fan_out=1)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        length = x.size(1)
        size, sizes = self.size(length), self.sizes(length, padding)
        is_identity = size == 1 and self._affine and not self.fixed_rows
        if is_identity and not (torch.is_grad_enabled() and self.weight.requires_grad):
            return x  # one token per window, with weight 1
        kernel = self.weight if self.step == 1 else self.weight * self.step
        if self._fits:
            kernel = stretched(kernel, size, sizes)
        if is_identity:  # the same; distributed data parallel wants a gradient for the kernel, if zero
            return x * affine(kernel, None).squeeze(-1)
        windows = self.windows(x, padding, 0.0)
        if not self._affine:
            return _taps(windows, kernel)
        if padding is None and length % size == 0:  # every window that has tokens is full
            return _taps(windows, affine(kernel, None))
        parts = affine_taps(kernel)
        count = self.windows(_real(x, padding), padding, False).sum(dim=2)  # (B or 1, R)
        # gather, not take_along_dim, for which torch.compile recompiles for each window size
        more = parts[count] if kernel.dim() == 2 else parts.gather(1, count.unsqueeze(-1).expand(-1, -1, x.size(-1)))
        return _taps(windows, kernel) + more * windows.sum(dim=2)


def _taps(windows: Tensor, kernel: Tensor) -> Tensor:
    """Applies the taps of each feature to each window: (B, R, s, F) and (F, s) or (B, F, s) -> (B, R, F)."""
    return (windows * kernel.transpose(-1, -2).unsqueeze(-3)).sum(dim=2)


def _real(x: Tensor, padding: Tensor | None) -> Tensor:
    """True at positions of (B, T, F) that are not padding: bool (B or 1, T)."""
    return torch.ones_like(x[:1, :, 0], dtype=torch.bool) if padding is None else ~padding


def _at_least_fp32(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)

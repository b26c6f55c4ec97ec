"""Projections of windows of neighbouring positions: mean pooling, max pooling, convolution ("General projections" in
section 4 of the paper).

Windows start at position 0, so that with right padding a sequence has the same rows alone and in a batch.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from .projection import Projection, initialise_, own_weight, zero_padding
from .row_weights import affine, stretched
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

    def sizes(self, length: int, padding: Tensor | None) -> tuple[int, Tensor | None]:
        """The largest `size` in a batch, and that of each sequence, (B,), or None if it is the same for all."""
        if padding is None or not (self.fixed_rows or (self._fits and length > self.rows)):
            return self.size(length), None
        tokens = _tokens(padding)
        own = (tokens + self.rows - 1) // self.rows if self._fits else torch.full_like(tokens, self.window)
        return self.size(length), own

    def live_rows(self, x: Tensor, padding: Tensor | None) -> Tensor | None:
        if padding is None:
            return None
        length = x.size(1)
        size, sizes = self.sizes(length, padding)
        if sizes is None:
            start = torch.arange(self.count(length), device=x.device) * size
        else:
            start = torch.arange(self.rows, device=x.device) * sizes.unsqueeze(1)
        # A sequence of only padding keeps its first row, so that its softmax is defined.
        return (start < _tokens(padding).unsqueeze(1)).unsqueeze(1)  # (B, 1, R)

    def windows(self, x: Tensor, size: int, sizes: Tensor | None, fill: float | None) -> Tensor:
        """Splits sequences into windows.

        Args:
            x: (B, T, F).
            size, sizes: of the windows, from `sizes`.
            fill: the value beyond the end of a window or of the input; None: undefined.

        Returns:
            (B, R, size, F).
        """
        batch, length, features = x.shape
        if sizes is None:
            count = math.ceil(length / size)
            if missing := count * size - length:
                x = torch.cat([x, x.new_full((batch, missing, features), fill or 0.0)], dim=1)
            return x.reshape(batch, count, size, features)
        place = torch.arange(size, device=x.device)
        position = torch.arange(self.rows, device=x.device).unsqueeze(1) * sizes.view(-1, 1, 1) + place  # (B, R, size)
        windows = _features(x, position.view(batch, -1)).view(batch, self.rows, size, features)
        if fill is None:
            return windows
        outside = (place >= sizes.view(-1, 1, 1)) | (position >= length)
        return windows.masked_fill(outside.unsqueeze(-1), fill)


class MeanPool(WindowProjection):
    """The mean over the tokens of each window; zero if a window has none."""

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        # Sums in fp32 for any dtype, because windows can be long. The last window may be shorter even without padding.
        sizes = self.sizes(x.size(1), padding)
        sums = self.windows(zero_padding(x, padding), *sizes, 0.0).sum(dim=2, dtype=_at_least_fp32(x))
        real = torch.ones_like(x[:1, :, :1]) if padding is None else (~padding).unsqueeze(-1).to(x.dtype)
        count = self.windows(real, *sizes, 0.0).sum(dim=2, dtype=sums.dtype)
        return (sums / count.clamp(min=1)).to(x.dtype)


class MaxPool(WindowProjection):
    """The maximum of each feature over the tokens of each window; zero if a window has none."""

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        real = x if padding is None else x.masked_fill(padding.unsqueeze(-1), -math.inf)
        largest = self.windows(real, *self.sizes(x.size(1), padding), -math.inf).amax(dim=2)
        return largest if padding is None else largest.masked_fill(largest == -math.inf, 0.0)


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
        size, sizes = self.sizes(x.size(1), padding)
        if sizes is None or padding is None or not _cpu_inference(x):
            return self._project(x, padding, size, sizes)
        # Kernels of each size in turn: faster than a kernel for each sequence.
        rows = x.new_zeros(x.size(0), self.rows, x.size(2))
        for one in torch.unique(sizes).tolist():
            same, longest = sizes == one, one * self.rows
            some = self._project(x[same, :longest], padding[same, :longest], one, None)
            rows[same, : some.size(1)] = some
        return rows

    def _project(self, x: Tensor, padding: Tensor | None, size: int, sizes: Tensor | None) -> Tensor:
        """`forward`; ``size`` and ``sizes`` as for `windows`."""
        length = x.size(1)
        is_identity = size == 1 and self._affine and not self.fixed_rows
        if is_identity and not (torch.is_grad_enabled() and self.weight.requires_grad):
            return x  # one token per window, with weight 1
        kernel = self.weight if self.step == 1 else self.weight * self.step
        if self._fits:
            kernel = stretched(kernel, size, sizes)
        if is_identity:  # the same; distributed data parallel wants a gradient for the kernel, if zero
            return x * affine(kernel, None).squeeze(-1)
        rows = _apply(self.windows(x, size, sizes, None), self._taps(kernel, sizes))
        if padding is None and length % size == 0:
            return rows
        # The last window of a sequence may have fewer tokens than the others.
        tokens = torch.full((x.size(0),), length, device=x.device) if padding is None else _tokens(padding)
        each = size if sizes is None else sizes
        last = (tokens - 1) // each
        start = last * each
        window = _features(x, start.unsqueeze(1) + torch.arange(size, device=x.device)).unsqueeze(1)
        shorter = _apply(window, self._taps(kernel, tokens - start))
        rows[torch.arange(x.size(0), device=x.device), last] = shorter.squeeze(1)
        return rows

    def _taps(self, kernel: Tensor, tokens: Tensor | None) -> Tensor:
        """The taps for windows of which only the first ``tokens`` positions, (B,), count: (F, s) or (B, F, s).

        Args:
            kernel: (F, s) or (B, F, s).
            tokens: None: all positions count.
        """
        if tokens is None:
            return affine(kernel, None) if self._affine else kernel
        inside = torch.arange(kernel.size(-1), device=kernel.device) < tokens.view(-1, 1, 1)
        taps = kernel * inside
        return affine(taps, tokens) * inside if self._affine else taps


def _apply(windows: Tensor, taps: Tensor) -> Tensor:
    """Sums the features of each window with the weights of its taps.

    (B, R, s, F), and (F, s) or (B or 1, F, s) -> (B, R, F)
    """
    if taps.dim() > 2 or not _convolves_fast(windows):
        return (windows * taps.transpose(-1, -2).unsqueeze(-3)).sum(dim=2)
    size, features = windows.shape[2:]
    image = windows.flatten(1, 2).transpose(1, 2).unsqueeze(2)  # (B, F, 1, R s), channels last in memory
    kernel = taps.reshape(features, 1, 1, size)
    return F.conv2d(image, kernel, stride=(1, size), groups=features).squeeze(2).transpose(1, 2)


def _convolves_fast(x: Tensor) -> bool:
    """Whether oneDNN has a fast depthwise convolution for this; its backward pass is slow (benchmarks/NOTES.md)."""
    wanted = {torch.float32: ("AVX2", "AVX512"), torch.bfloat16: ("AVX512",)}
    return _cpu_inference(x) and torch.backends.cpu.get_cpu_capability() in wanted.get(x.dtype, ())


def _cpu_inference(x: Tensor) -> bool:
    """Whether the code may depend on the values of tensors, and no gradients are computed."""
    return x.device.type == "cpu" and not (torch.is_grad_enabled() or torch.compiler.is_compiling())


def _features(x: Tensor, position: Tensor) -> Tensor:
    """(B, T, F) and positions (B, m) -> (B, m, F); those of positions beyond T are undefined."""
    batch, length, features = x.shape
    first = torch.arange(batch, device=x.device).unsqueeze(1) * length
    # An embedding copies whole rows; on a CPU, gather copies each element by itself.
    return F.embedding(first + position.clamp(max=length - 1), x.reshape(batch * length, features))


def _tokens(padding: Tensor) -> Tensor:
    """(B,), at least 1."""
    return (~padding).sum(dim=1).clamp(min=1)


def _at_least_fp32(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)

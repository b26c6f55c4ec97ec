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
from .settings import LinformerSettings, kernel_length, window_length


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
        place = torch.arange(size, device=x.device)
        start = torch.arange(self.rows, device=x.device) * sizes.unsqueeze(1)  # (B, R)
        outside = (place >= sizes.view(-1, 1, 1)) | (start.unsqueeze(-1) + place >= length)
        return _windows(x, start, size).masked_fill(outside.unsqueeze(-1), fill)


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
    """A depthwise convolution along the sequence. The stride is the window size; the kernel is ``kernel_strides`` times
    as long and begins as far before its window as it ends behind it.

    For windows that are smaller than ceil(n / k), adjacent taps of the kernel are summed (see `row_weights.stretched`).

    Args:
        rows: K.
        features: F.
        settings: of the encoder.
    """

    weight: Tensor
    """(F, kernel size), divided by ``step`` as in `LinearProjection`."""

    def __init__(self, rows: int, features: int, settings: LinformerSettings) -> None:
        super().__init__(rows, settings)
        self.step = settings.projection_step
        self.strides = settings.kernel_strides
        self._affine = settings.row_weights == "affine"
        self.settings = settings
        taps = kernel_length(self.window, self.strides)
        own_weight(self, torch.empty(features, taps), settings.freeze_projection)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes the kernels as ``projection_init`` says."""
        # Each output depends on as many inputs as there are taps, and each input contributes to `strides` outputs.
        initialise_(self.weight.data, self.settings, self.rows, fan_in=self.weight.size(-1), fan_out=self.strides)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        size, sizes = self.sizes(x.size(1), padding)
        if sizes is None or padding is None or not _cpu_inference(x):
            return self._project(x, padding, size, sizes)
        # Kernels of each size in turn: faster than a kernel for each sequence.
        rows = x.new_zeros(x.size(0), self.rows, x.size(2))
        for one in torch.unique(sizes).tolist():
            same, longest = sizes == one, one * self.rows
            some = self._project(x[same, :longest], padding[same, :longest], one, None)
            rows[same, : some.size(1)] = some.to(rows.dtype)  # autocast may have computed some in half precision
        return rows

    def _project(self, x: Tensor, padding: Tensor | None, size: int, sizes: Tensor | None) -> Tensor:
        """`forward`; ``size`` and ``sizes`` as for `windows`."""
        length, taps = x.size(1), kernel_length(size, self.strides)
        is_identity = size == 1 and self._affine and not self.fixed_rows
        if is_identity and not (torch.is_grad_enabled() and self.weight.requires_grad):
            return x  # one token per window, with weight 1
        own = None if sizes is None else torch.where(sizes > 1, sizes * self.strides, 1)
        kernel = self.weight if self.step == 1 else self.weight * self.step
        if self._fits:
            kernel = stretched(kernel, taps, own)
        if is_identity:  # the same; distributed data parallel wants a gradient for the kernel, if zero
            return x * affine(kernel, None).squeeze(-1)
        if own is None or sizes is None:
            # No row reaches beyond the tokens, or adding zeros there is right.
            complete = padding is None and (not self._affine or (length % size == 0 and self.strides == 1))
            if padding is None and not (complete or _convolves_fast(x)):
                return _convolve(x, self._even_kernel(kernel, size, length), size)
            rows = _convolve(x, affine(kernel, None) if self._affine else kernel, size)
            if complete:
                return rows
        else:
            start = torch.arange(self.rows, device=x.device) * sizes.unsqueeze(1) - (own - sizes).unsqueeze(1) // 2
            inside = torch.arange(taps, device=x.device) < own.view(-1, 1, 1)
            rows = self._weighted(x, start, kernel, inside)
        # The first and last windows of a sequence may have fewer tokens than the others.
        tokens = torch.full((x.size(0),), length, device=x.device) if padding is None else _tokens(padding)
        each, most = (size, taps) if own is None or sizes is None else (sizes.unsqueeze(1), own.unsqueeze(1))
        return self._with_ends(rows, x, kernel, tokens, each, most)

    def _even_kernel(self, kernel: Tensor, size: int, length: int) -> Tensor:
        """The kernel of each row for T tokens without padding, (R, F, s): affine over those of its taps that lie on
        tokens, where the first and the last windows have fewer than the others."""
        start = torch.arange(self.count(length), device=kernel.device) * size - (kernel.size(-1) - size) // 2
        position = start.unsqueeze(1) + torch.arange(kernel.size(-1), device=kernel.device)
        inside = (position >= 0) & (position < length)
        return _affine_inside(kernel, inside.unsqueeze(1))

    def _with_ends(
        self, rows: Tensor, x: Tensor, kernel: Tensor, tokens: Tensor, each: Tensor | int, taps: Tensor | int
    ) -> Tensor:
        """Replaces rows whose kernels reach beyond the tokens of their sequences.

        Args:
            rows: (B, R, F).
            x: (B, T, F).
            kernel: as for `_weighted`.
            tokens: (B,), number of tokens.
            each, taps: stride and size of the kernels; (B, 1) if they differ between sequences.
        """
        first, count = self.strides // 2, rows.size(1)
        last = (tokens.unsqueeze(1) - 1) // each
        front = torch.arange(first, device=x.device).expand(x.size(0), -1)
        back = last - torch.arange((self.strides + 2) // 2, device=x.device)
        if first:  # A row that is in both lists, or does not exist, goes to another one behind all, which is dropped.
            rows = F.pad(rows, (0, 0, 0, 1))
            front, back = front.masked_fill(front > last, count), back.masked_fill(back < first, count)
        chosen = torch.cat([front, back], dim=1)
        start = chosen * each - (taps - each) // 2
        place = torch.arange(kernel.size(-1), device=x.device)
        position = start.unsqueeze(-1) + place
        inside = (position >= 0) & (position < tokens.view(-1, 1, 1))
        if isinstance(taps, Tensor):
            inside &= place < taps.unsqueeze(-1)
        ends = self._weighted(x, start, kernel, inside).to(rows.dtype)  # autocast has computed the other rows
        rows[torch.arange(x.size(0), device=x.device).unsqueeze(1), chosen] = ends
        return rows[:, :count]

    def _weighted(self, x: Tensor, start: Tensor, kernel: Tensor, inside: Tensor) -> Tensor:
        """Sums the features of any windows with the weights of the taps that lie on tokens.

        Args:
            x: (B, T, F).
            start: (B, R), the first position of each window.
            kernel: (F, s) or (B, F, s).
            inside: (B, R or 1, s), True for taps on tokens.

        Returns:
            (B, R, F).
        """
        weights = kernel if kernel.dim() == 2 else kernel.unsqueeze(1)
        inside = inside.unsqueeze(2)  # weights: (B, R or 1, F, s)
        weights = _affine_inside(weights, inside) if self._affine else weights * inside
        return (_windows(x, start, kernel.size(-1)) * weights.transpose(-1, -2)).sum(dim=2)


def _affine_inside(kernel: Tensor, inside: Tensor) -> Tensor:
    """Kernels (..., F, s) with weights that are affine over the taps where ``inside``, (..., 1, s), is True, and zero
    elsewhere."""
    weights = kernel * inside
    even = affine(weights.flatten(0, -3), inside.sum(dim=-1).flatten()).view_as(weights)
    return even * inside


def _convolve(x: Tensor, kernel: Tensor, stride: int) -> Tensor:
    """A depthwise convolution with zeros beyond the input: (B, T, F), (F, s) -> (B, R, F) with R = ceil(T / stride).

    Args:
        x: input.
        kernel: its size is a multiple of the stride. It begins (s - stride) / 2 positions before each window. Or one
            for each row, (R, F, s), except where `_convolves_fast`.
        stride: size of a window.
    """
    batch, length, features = x.shape
    taps = kernel.size(-1)
    count, before = math.ceil(length / stride), (taps - stride) // 2
    behind = (count - 1) * stride + taps - before - length
    if before or behind:
        x = F.pad(x, (0, 0, before, behind))
    if _convolves_fast(x):
        image = x.transpose(1, 2).unsqueeze(2)  # (B, F, 1, T), channels last in memory
        weight = kernel.reshape(features, 1, 1, taps)
        return F.conv2d(image, weight, stride=(1, stride), groups=features).squeeze(2).transpose(1, 2)
    blocks = x.reshape(batch, x.size(1) // stride, stride, features)
    weights = kernel.transpose(-1, -2)
    rows = (blocks[:, :count] * weights[..., :stride, :]).sum(dim=2)
    for i in range(1, taps // stride):
        rows = rows + (blocks[:, i : i + count] * weights[..., i * stride : (i + 1) * stride, :]).sum(dim=2)
    return rows


def _convolves_fast(x: Tensor) -> bool:
    """Whether oneDNN has a fast depthwise convolution for this; its backward pass is slow (benchmarks/NOTES.md)."""
    wanted = {torch.float32: ("AVX2", "AVX512"), torch.bfloat16: ("AVX512",)}
    return _cpu_inference(x) and torch.backends.cpu.get_cpu_capability() in wanted.get(x.dtype, ())


def _cpu_inference(x: Tensor) -> bool:
    """Whether the code may depend on the values of tensors, and no gradients are computed."""
    return x.device.type == "cpu" and not (torch.is_grad_enabled() or torch.compiler.is_compiling())


def _windows(x: Tensor, start: Tensor, size: int) -> Tensor:
    """(B, T, F) and the first positions of windows (B, R) -> (B, R, size, F); features of positions that are not in the
    input are undefined."""
    batch, length, features = x.shape
    position = start.unsqueeze(-1) + torch.arange(size, device=x.device)
    first = torch.arange(batch, device=x.device).view(-1, 1, 1) * length
    # An embedding copies whole rows; on a CPU, gather copies each element by itself.
    return F.embedding(first + position.clamp(0, length - 1), x.reshape(batch * length, features))


def _tokens(padding: Tensor) -> Tensor:
    """(B,), at least 1."""
    return (~padding).sum(dim=1).clamp(min=1)


def _at_least_fp32(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)

"""A depthwise convolution whose stride is a window ("General projections" in section 4 of the paper)."""

from __future__ import annotations

import math
from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from .projection import initialise_, own_weight
from .row_weights import affine, stretched
from .settings import LinformerSettings, kernel_length
from .windows import WindowProjection, at_least_fp32, depends_on_values, gathered, on_tokens


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
        if sizes is None or padding is None or torch.is_grad_enabled() or not depends_on_values(x):
            return self._project(x, padding, size, sizes)
        # Kernels of each size in turn: faster than a kernel for each sequence.
        rows = x.new_zeros(x.size(0), self.most(x.size(1)), x.size(2))
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
        elif own is not None:
            kernel = kernel.expand(own.size(0), -1, -1)
        if self._affine:
            kernel = affine(kernel, own)
        if is_identity:  # the same; distributed data parallel wants a gradient for the kernel, if zero
            return x * kernel.squeeze(-1)
        if sizes is not None and own is not None:
            window = torch.arange(self.most(length), device=x.device)
            start = window * sizes.unsqueeze(1) - (own - sizes).unsqueeze(1) // 2
            inside = torch.arange(taps, device=x.device) < own.view(-1, 1, 1)
            inside = inside & on_tokens(start, taps, length, padding)
            parts = gathered(x, start, inside, 0.0)
            rows, means = (parts * kernel.transpose(-1, -2).unsqueeze(1)).sum(dim=2), parts.mean(dim=2)
        else:
            wide = _extended(x, taps, size)
            if not self._affine or (padding is None and length % size == 0 and self.strides == 1):
                return _convolve(wide, kernel, size)  # zeros beyond the tokens are right, or all taps are on tokens
            start = torch.arange(math.ceil(length / size), device=x.device) * size - (taps - size) // 2
            inside = on_tokens(start, taps, length, padding)
            if padding is None and not _convolves_fast(x):  # kernels of each row, the same for all sequences
                each = inside[0].unsqueeze(1)
                return _convolve(wide, affine(kernel * each, inside[0].sum(dim=-1)) * each, size)
            rows, means = _convolve(wide, kernel, size), _means(wide, taps, size)
        return rows + _missing(kernel, inside).to(rows.dtype) * means if self._affine else rows


def _missing(kernel: Tensor, inside: Tensor) -> Tensor:
    """What to add to the weights of each row, so that they sum to one: (B or 1, R, F).

    All taps on tokens share it. It is a factor of the mean over all taps, because in fp16 the sum over a window of some
    thousand tokens overflows.

    Args:
        kernel: (F, s) or (B, F, s).
        inside: bool (B or 1, R, s), True for taps on tokens.
    """
    exact = inside.to(at_least_fp32(kernel))
    device = "cpu" if kernel.is_meta else kernel.device.type  # torch.autocast does not know meta
    with torch.autocast(device, enabled=False):  # a difference of numbers near one
        missing = 1 - exact @ kernel.to(exact.dtype).transpose(-1, -2)
    return missing * (inside.size(-1) / exact.sum(dim=-1, keepdim=True).clamp(min=1))


def _extended(x: Tensor, taps: int, stride: int) -> Tensor:
    """Adds the zeros before and behind that kernels of ``taps`` reach, which begin (taps - stride) / 2 positions before
    each window: (B, T, F) -> (B, (R - 1) stride + taps, F), where R = ceil(T / stride)."""
    before, count = (taps - stride) // 2, math.ceil(x.size(1) / stride)
    behind = (count - 1) * stride + taps - before - x.size(1)
    return F.pad(x, (0, 0, before, behind)) if before or behind else x


def _convolve(x: Tensor, kernel: Tensor, stride: int) -> Tensor:
    """A depthwise convolution: (B, (R - 1) stride + s, F), (F, s) -> (B, R, F).

    Args:
        x: from `_extended`.
        kernel: its size is a multiple of the stride. Or one for each row, (R, F, s), except where `_convolves_fast`.
        stride: size of a window.
    """
    taps, features = kernel.size(-1), x.size(-1)
    if _convolves_fast(x):
        image = x.transpose(1, 2).unsqueeze(2)  # (B, F, 1, T), channels last in memory
        weight = kernel.reshape(features, 1, 1, taps)
        return F.conv2d(image, weight, stride=(1, stride), groups=features).squeeze(2).transpose(1, 2)
    blocks = _blocks(x, stride)
    each = kernel.transpose(-1, -2).chunk(taps // stride, dim=-2)
    count = blocks.size(1) - len(each) + 1
    return reduce(torch.add, [(blocks[:, i : i + count] * weights).sum(dim=2) for i, weights in enumerate(each)])


def _means(x: Tensor, taps: int, stride: int) -> Tensor:
    """As `_convolve` with a kernel of ``taps`` weights 1 / ``taps``."""
    if _convolves_fast(x):
        return _convolve(x, x.new_ones(x.size(-1), taps), stride) / taps
    blocks = _blocks(x, stride).mean(dim=2)
    count = taps // stride
    return reduce(torch.add, [blocks[:, i : blocks.size(1) - count + 1 + i] / count for i in range(count)])


def _blocks(x: Tensor, stride: int) -> Tensor:
    """(B, T, F) -> (B, T / stride, stride, F)."""
    batch, length, features = x.shape
    return x.reshape(batch, length // stride, stride, features)


def _convolves_fast(x: Tensor) -> bool:
    """Whether oneDNN has a fast depthwise convolution for this; its backward pass is slow (benchmarks/NOTES.md)."""
    if torch.is_grad_enabled() or not depends_on_values(x):
        return False
    wanted = {torch.float32: ("AVX2", "AVX512"), torch.bfloat16: ("AVX512",)}
    return torch.backends.cpu.get_cpu_capability() in wanted.get(x.dtype, ())

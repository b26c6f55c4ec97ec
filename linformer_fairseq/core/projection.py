"""Projections from n positions to k rows: the base class, and the paper's linear projection.

A projection maps sequences (B, T, F) along their second dimension to rows (B, R, F). ``padding`` is None or a bool mask
(B, T), True at padded positions, which do not contribute: windows leave them out; for the linear projection, and for a
convolution if they may be NaN or infinite, the caller sets the features there to zero (`zero_padding`).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .row_weights import affine, first_columns, stretched, window_means_
from .settings import LinformerSettings


class Projection(nn.Module):
    """Base class: maps T <= n positions to R rows.

    Args:
        rows: k, the number of rows for n positions (for pooling and convolution, the largest number).
        max_positions: n.
    """

    fixed_rows = False
    """Compute the same by one graph for all lengths, for exported models (`exporting`), if padding is given: windows
    have their largest size, and there are min(k, T) of them, of which some can be empty."""

    def __init__(self, rows: int, max_positions: int) -> None:
        super().__init__()
        self.rows = rows
        self.max_positions = max_positions

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """(B, T, F) -> (B, R, F)."""
        raise NotImplementedError

    def live_rows(self, x: Tensor, padding: Tensor | None) -> Tensor | None:
        """True for rows that are not only padding: bool (B or 1, H or 1, R); None if this holds for all rows."""
        return None

    def count(self, length: int) -> int:
        """R for T = ``length`` positions."""
        return self.rows

    def size(self, length: int) -> int | None:
        """Number of neighbouring positions that a row is made of, for T = ``length``; windows that overlap have others
        around them, too. None: of all positions."""
        return None

    def extra_repr(self) -> str:
        return f"rows={self.count(self.max_positions)}, max_positions={self.max_positions}"


class LinearProjection(Projection):
    """E of the paper: (K, n), or (H, K, n) with one matrix per head if ``heads`` is given.

    Args:
        rows: K.
        settings: of the encoder; ``short_inputs`` and ``row_weights`` determine E for shorter inputs and its row sums.
        heads: H.
    """

    weight: Tensor
    """E / step: an optimizer such as Adam, whose updates do not depend on the size of the gradient, then changes E by
    ``step`` times the learning rate."""

    def __init__(self, rows: int, settings: LinformerSettings, heads: int | None = None) -> None:
        super().__init__(rows, settings.max_positions)
        self.step = settings.projection_step
        self._fit = stretched if settings.short_inputs == "stretch" else first_columns
        self._affine = settings.row_weights == "affine"
        self._by_sequence = self._affine or settings.short_inputs == "stretch"
        self.settings = settings
        shape = (rows, settings.max_positions)
        own_weight(self, torch.empty(heads, *shape) if heads else torch.empty(shape), settings.freeze_projection)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initializes E as ``projection_init`` says."""
        for matrix in self.weight.data.view(-1, self.rows, self.max_positions):
            initialise_(matrix, self.settings, self.rows, fan_in=self.max_positions, fan_out=self.rows)

    def forward(self, x: Tensor, padding: Tensor | None = None, count: int | None = None) -> Tensor:
        """(B, T, F) -> (B, R, F), or only the first ``count`` rows, of a matrix that is not one per head."""
        if self.weight.dim() == 2:
            return self.first_rows(count or self.rows, x, padding)
        batch, length, features = x.shape
        matrix = self.matrix(self.rows, length, padding)
        heads = self.weight.size(0)
        by_head = x.view(batch, length, heads, features // heads)
        if matrix.dim() == 4:
            return (matrix @ by_head.transpose(1, 2)).transpose(1, 2).reshape(batch, self.rows, features)
        # One product per head for the whole batch: (K, T) x (T, B*D).
        by_head = by_head.permute(2, 1, 0, 3).reshape(heads, length, batch * features // heads)
        rows = torch.bmm(matrix, by_head).view(heads, self.rows, batch, features // heads)
        return rows.permute(2, 1, 0, 3).reshape(batch, self.rows, features)

    def matrix(self, rows: int, length: int, padding: Tensor | None = None) -> Tensor:
        """The first ``rows`` rows of E for T = ``length`` positions: (rows, T), or (H, rows, T).

        If they depend on the number of tokens and there is padding, each sequence has its own: (B, rows, T) or
        (B, H, rows, T).
        """
        weight = self.weight[..., :rows, :]
        if self.step != 1:
            weight = weight * self.step
        count = (~padding).sum(dim=1) if padding is not None and self._by_sequence else None
        if self.fixed_rows and self._fit is first_columns:
            # A slice is contiguous for T = n alone, and a graph would be bound to that.
            weight = weight.index_select(-1, torch.arange(length, device=weight.device))
        weight = self._fit(weight, length, count)
        return affine(weight, count) if self._affine else weight

    def with_ones(self, rows: int, length: int, padding: Tensor | None = None) -> Tensor:
        """`matrix` with an additional column of ones, expandable to (B, H, rows, T + 1)."""
        matrix = nn.functional.pad(self.matrix(rows, length, padding), (0, 1), value=1.0)
        return matrix.unsqueeze(1) if matrix.dim() == 3 and self.weight.dim() == 2 else matrix

    def first_rows(self, count: int, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """The first rows of E X, for a layer whose k is smaller than that of the shared matrix."""
        batch, length, _ = x.shape
        # bmm, not matmul: if E requires a gradient, matmul copies x to compute a single product for all sequences.
        return torch.bmm(self.matrix(count, length, padding).expand(batch, -1, -1), x)


class RaggedHeads(nn.Module):
    """One projection per head, each with its own k. Heads with fewer rows are padded with zero rows, which are masked.

    Args:
        heads: H projections, one for each head.
    """

    def __init__(self, heads: list[Projection]) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """(B, T, C) -> (B, R, C): head i projects its own D features."""
        parts = x.chunk(len(self.heads), dim=-1)
        return self.stack([head(part, padding) for head, part in zip(self.heads, parts, strict=True)])

    @staticmethod
    def stack(rows: list[Tensor]) -> Tensor:
        """H tensors (B, R_i, D) -> (B, max R_i, C), padded with zero rows."""
        most = max(part.size(1) for part in rows)
        filled = [nn.functional.pad(part, (0, 0, 0, most - part.size(1))) for part in rows]
        return torch.cat(filled, dim=-1)

    def live_rows(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """As `Projection.live_rows`; never None, as heads have different numbers of rows."""
        masks = []
        for head in self.heads:
            assert isinstance(head, Projection)
            live = head.live_rows(x, padding)
            masks.append(x.new_ones(1, 1, head.count(x.size(1)), dtype=torch.bool) if live is None else live)
        most = max(mask.size(-1) for mask in masks)
        batch = max(mask.size(0) for mask in masks)
        filled = [nn.functional.pad(mask, (0, most - mask.size(-1))) for mask in masks]
        return torch.cat([mask.expand(batch, 1, most) for mask in filled], dim=1)


def zero_padding(x: Tensor, padding: Tensor | None) -> Tensor:
    """M X: sets padded positions to zero."""
    return x if padding is None else x.masked_fill(padding.unsqueeze(-1), 0.0)


def initialise_(weight: Tensor, settings: LinformerSettings, rows: int, fan_in: int, fan_out: int) -> None:
    """Initializes E (k, n) or a kernel (F, window) in place; ``rows`` is k."""
    init = settings.projection_init
    if init == "xavier":
        # Glorot and Bengio 2010, eq. 16, with the gain 1/sqrt(2) that fairseq gives q, k and v.
        bound = math.sqrt(1 / 2) * math.sqrt(6.0 / (fan_in + fan_out))
        nn.init.uniform_(weight, -bound, bound)
    elif init == "normal":
        nn.init.normal_(weight, std=0.02)
    elif init == "jl":
        nn.init.normal_(weight, std=rows**-0.5)
    elif settings.projection == "linear":
        window_means_(weight)
    else:
        nn.init.constant_(weight, 1 / weight.size(-1))
    weight /= settings.projection_step


def own_weight(module: nn.Module, weight: Tensor, frozen: bool) -> None:
    """Registers ``weight`` as a parameter; if frozen, as a buffer: in the state dict, but invisible to optimizers and
    to distributed data parallel."""
    # A raw tensor, not nn.Linear: RoBERTa's init_bert_params overwrites every nn.Linear it finds.
    if frozen:
        module.register_buffer("weight", weight)
    else:
        module.register_parameter("weight", nn.Parameter(weight))

"""Our layer with Nystrom attention."""

from __future__ import annotations

from torch import Tensor

from benchmarks.efficiency.models.blocks import RowsSelfAttention, SharedLayer
from benchmarks.efficiency.models.embeddings import Encoder
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.analysis.nystrom import landmark_values
from linformer_fairseq.core import LinformerSettings
from linformer_fairseq.core.attention import ProjectedSequence
from linformer_fairseq.core.windows import MeanPool


class NystromSelfAttention(RowsSelfAttention):
    """Nystrom attention with up to k landmarks, one for each ceil(T / k) tokens of a sequence."""

    def __init__(self, width: int, heads: int, n: int, count: int) -> None:
        super().__init__(width, heads)
        settings = LinformerSettings(width, heads, 1, n, count, projection="mean_pool")
        self.segment_means = MeanPool(count, settings)

    def project(self, x: Tensor, padding: Tensor | None) -> ProjectedSequence:
        """Landmarks of (B, T, C), and the values that queries find there."""
        means = self.segment_means(x, padding)  # of queries and keys, since these are linear maps of x
        live = self.segment_means.live_rows(x, padding)
        landmarks = self.split(self.k_proj(means))
        keys, values = self.split(self.k_proj(x)), self.split(self.v_proj(x))
        mixed = landmark_values(self.split(self.q_proj(means)), landmarks, keys, values, padding, live)
        return ProjectedSequence(landmarks, mixed, None if live is None else live.unsqueeze(2))


def nystrom(sizes: Sizes, n: int, k: int) -> Encoder:
    """k is the number of landmarks."""
    attention = (NystromSelfAttention(sizes.width, sizes.heads, n, k) for _ in range(sizes.layers))
    return Encoder(sizes, n, (SharedLayer(sizes, one) for one in attention))

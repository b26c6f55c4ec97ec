"""Our layer with Performer's attention."""

from __future__ import annotations

from torch import Tensor

from benchmarks.efficiency.models.blocks import HeadMaps, SharedLayer
from benchmarks.efficiency.models.embeddings import Encoder
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.analysis.performer import FeatureRows, attend, draw_features, feature_rows


class PerformerSelfAttention(HeadMaps):
    """FAVOR+ with k features, drawn once and the same for all heads; it is not causal."""

    features: Tensor

    def __init__(self, width: int, heads: int, count: int) -> None:
        super().__init__(width, heads)
        self.register_buffer("features", draw_features(count, width // heads))

    def project(self, x: Tensor, padding: Tensor | None) -> FeatureRows:
        """The sums over all positions of (B, T, C)."""
        return feature_rows(self.features, self.split(self.k_proj(x)), self.split(self.v_proj(x)), padding)

    def attend(self, x: Tensor, projected: FeatureRows) -> Tensor:
        """Attention of any positions (B, t, C) to all: (B, t, C)."""
        return self.join(attend(self.features, self.split(self.q_proj(x)), projected))


def performer(sizes: Sizes, n: int, k: int) -> Encoder:
    """k is the number of features."""
    attention = (PerformerSelfAttention(sizes.width, sizes.heads, k) for _ in range(sizes.layers))
    return Encoder(sizes, n, (SharedLayer(sizes, one) for one in attention))

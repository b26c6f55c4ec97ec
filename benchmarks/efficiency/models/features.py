"""Models of fairseq as callables from token ids to features."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Features(nn.Module):
    """What `extract_features` of a fairseq encoder gives, without an output layer."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, C)."""
        found = self.model.encoder.extract_features(tokens)
        features: Tensor = found[0] if isinstance(found, tuple) else found
        return features

"""Hugging Face's RoBERTa."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from benchmarks.efficiency.models.embeddings import PADDING
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.files.errors import UserError


class HuggingFace(nn.Module):
    """Token ids (B, T) to features (B, T, C), with the mask that its tokenizers give."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, C)."""
        features: Tensor = self.model(tokens, attention_mask=tokens.ne(PADDING).long()).last_hidden_state
        return features


def roberta(sizes: Sizes, n: int, k: int | None) -> HuggingFace:
    """With torch's fused attention.

    Raises:
        UserError: transformers is there, but does not import.
    """
    try:
        from transformers import RobertaConfig, RobertaModel
    except OSError as error:  # a library that does not load; transformers imports torchaudio wherever there is one
        raise UserError(f"transformers does not import: {error}; `linformer doctor` says what to do") from error

    more: dict[str, Any] = {"attn_implementation": "sdpa"}
    config = RobertaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.ffn,
        max_position_embeddings=n + PADDING + 1,
        **more,
    )
    return HuggingFace(RobertaModel(config, add_pooling_layer=False))

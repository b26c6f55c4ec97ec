"""The models of other packages: Hugging Face's RoBERTa and the Linformers on PyPI."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.files.dictionary import PAD
from linformer_fairseq.files.errors import UserError


class HuggingFace(nn.Module):
    """Token ids (B, T) to features (B, T, C), with the attention mask that its tokenizers return."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T) to (B, T, C)."""
        features: Tensor = self.model(tokens, attention_mask=tokens.ne(PAD).long()).last_hidden_state
        return features


def roberta_config(sizes: Sizes, n: int, **more: Any) -> Any:
    """The options of Hugging Face's RoBERTa with torch's fused attention, and ``more``.

    Raises:
        UserError: transformers is installed, but cannot be imported.
    """
    try:
        from transformers import RobertaConfig
    except OSError as error:  # a library that cannot be loaded; transformers imports torchaudio if it is installed
        raise UserError(f"transformers cannot be imported: {error}; `linformer doctor` explains what to do") from error

    more["attn_implementation"] = "sdpa"
    return RobertaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        intermediate_size=sizes.ffn,
        max_position_embeddings=n + PAD + 1,
        **more,
    )


def hugging_face(sizes: Sizes, n: int, k: int | None) -> HuggingFace:
    """Hugging Face's RoBERTa.

    Raises:
        UserError: see `roberta_config`.
    """
    config = roberta_config(sizes, n)
    from transformers import RobertaModel

    return HuggingFace(RobertaModel(config, add_pooling_layer=False))


def lucidrains(sizes: Sizes, n: int, k: int | None) -> nn.Module:
    """PyPI's linformer: each layer has its own E and F; its feed-forward network is always 4 times the width."""
    from linformer import LinformerLM

    model: nn.Module = LinformerLM(sizes.vocabulary, sizes.width, n, sizes.layers, k=k, heads=sizes.heads)
    model.to_logits = nn.Identity()
    return model


def linformer_pytorch(sizes: Sizes, n: int, k: int | None) -> nn.Module:
    """PyPI's linformer-pytorch, E = F shared by all layers."""
    from linformer_pytorch import LinformerLM

    model: nn.Module = LinformerLM(
        num_tokens=sizes.vocabulary,
        input_size=n,
        channels=sizes.width,
        dim_k=k,
        dim_ff=sizes.ffn,
        nhead=sizes.heads,
        depth=sizes.layers,
        return_emb=True,
        parameter_sharing="layerwise",
    )
    return model

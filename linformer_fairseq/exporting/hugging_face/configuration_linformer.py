"""The configuration of a Linformer in transformers."""

from __future__ import annotations

from transformers import PretrainedConfig

from linformer_fairseq.core.settings import LinformerSettings, ProjectedDim


class LinformerConfig(PretrainedConfig):
    """Sizes and options of a Linformer.

    ``max_position_embeddings`` is n, the maximum input length in tokens. ``projected_dim`` (k), ``sharing``,
    ``projection``, ``projection_init``, ``projection_step``, ``row_weights``, ``short_inputs``,
    ``kernel_strides`` and ``freeze_projection`` are those of `LinformerSettings`. ``normalize_before`` is pre-norm. The
    other names are those of transformers' RobertaConfig.
    """

    model_type = "linformer"

    vocab_size: int = 50265
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    activation_dropout: float = 0.0
    max_position_embeddings: int = 512
    normalize_before: bool = False
    layernorm_embedding: bool = True
    layer_norm_eps: float = 1e-5
    initializer_range: float = 0.02
    classifier_act: str = "tanh"
    classifier_dropout: float = 0.0
    tie_word_embeddings: bool = True
    bos_token_id: int | None = 0
    pad_token_id: int = 1
    eos_token_id: int | None = 2

    projected_dim: ProjectedDim = 128
    sharing: str = "layerwise"
    projection: str = "convolution"
    projection_init: str | None = None
    projection_step: float = 1.0
    row_weights: str | None = None
    short_inputs: str | None = None
    kernel_strides: int = 1
    freeze_projection: bool = False

    def attention_settings(self) -> LinformerSettings:
        """The settings of the attention.

        Raises:
            ValueError: a value is out of range or contradicts another.
        """
        return LinformerSettings(
            embed_dim=self.hidden_size,
            num_heads=self.num_attention_heads,
            num_layers=self.num_hidden_layers,
            max_positions=self.max_position_embeddings,
            attention_dropout=self.attention_probs_dropout_prob,
            projected_dim=self.projected_dim,
            sharing=self.sharing,
            projection=self.projection,
            projection_init=self.projection_init,
            projection_step=self.projection_step,
            row_weights=self.row_weights,
            short_inputs=self.short_inputs,
            kernel_strides=self.kernel_strides,
            freeze_projection=self.freeze_projection,
        )

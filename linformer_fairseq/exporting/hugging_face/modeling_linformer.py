"""Linformer in transformers: RoBERTa with self-attention to k projected keys and values.

The attention, its projections and the layers are those of linformer-fairseq (the other files beside this one).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple
from transformers.utils.output_capturing import capture_outputs

from linformer_fairseq.core.attention import LinformerSelfAttention
from linformer_fairseq.core.convolution import Convolution
from linformer_fairseq.core.layer import LayerParts, encoder_layer
from linformer_fairseq.core.padding import is_padded
from linformer_fairseq.core.projection import LinearProjection, Projection
from linformer_fairseq.core.settings import LinformerSettings
from linformer_fairseq.core.sharing import build_shared_projection
from linformer_fairseq.core.signature import check_signature, signature_of

from .configuration_linformer import LinformerConfig

_NOT_TAKEN = {
    "position_ids": "positions are those of the tokens in their rows",
    "token_type_ids": "there are no embeddings of segments",
    "output_attentions": "positions attend to projected rows, not to positions",
}
"""Arguments of other models in transformers, and why this one has no use for them."""


class LinformerLayer(GradientCheckpointingLayer, LayerParts):
    """Attention and feed-forward network.

    Args:
        config: of the model.
        settings, layer, shared: as in `LinformerSelfAttention`.
    """

    compiled = False
    recompute = False  # transformers' gradient checkpointing does it

    def __init__(
        self, config: LinformerConfig, settings: LinformerSettings, layer: int, shared: Projection | None
    ) -> None:
        super().__init__()
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self.normalize_before = config.normalize_before
        self.self_attn = LinformerSelfAttention(settings, layer, shared)
        self.self_attn_layer_norm = nn.LayerNorm(width, epsilon)
        self.fc1 = nn.Linear(width, config.intermediate_size)
        self.fc2 = nn.Linear(config.intermediate_size, width)
        self.final_layer_norm = nn.LayerNorm(width, epsilon)
        self.activation_fn = ACT2FN[config.hidden_act]
        self.dropout_module = nn.Dropout(config.hidden_dropout_prob)
        self.activation_dropout_module = nn.Dropout(config.activation_dropout)

    def forward(
        self, x: Tensor, padding: Tensor | None = None, overwrite: bool = False, first_only: bool = False
    ) -> Tensor:
        """(B, T, C) to (B, T, C), or (B, 1, C); see `encoder_layer`."""
        return encoder_layer(self, x, padding, overwrite, first_only)


class LinformerPreTrainedModel(PreTrainedModel):
    """What the models have in common."""

    config_class = LinformerConfig
    config: LinformerConfig
    base_model_prefix = "linformer"
    supports_gradient_checkpointing = True
    _no_split_modules = ["LinformerLayer"]  # noqa: RUF012  transformers declares them so
    _can_record_outputs = {"hidden_states": LinformerLayer}  # noqa: RUF012
    # A file has the heads of all models.
    _keys_to_ignore_on_load_unexpected = [r"^lm_head\.", r"^classifier\."]  # noqa: RUF012

    @classmethod
    def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
        """As in other models; transformers does not load tensors by the method in which an attention checks them.

        Raises:
            ValueError: the weights were trained with other settings of the attention than config.json has.
        """
        found = super().from_pretrained(*args, **kwargs)
        model = found[0] if isinstance(found, tuple) else found  # with output_loading_info
        for name, module in model.named_modules():
            # without values, it will get those of another process
            if isinstance(module, LinformerSelfAttention) and not module.signature.is_meta:
                check_signature(module.signature, signature_of(module.settings, module.layer), name)
        return found

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, LinearProjection | Convolution):
            if not getattr(module.weight, "_is_hf_initialized", False):
                module.reset_parameters()
        elif isinstance(module, LinformerSelfAttention):
            init.copy_(module.signature, torch.tensor(signature_of(module.settings, module.layer)))


class LinformerModel(LinformerPreTrainedModel):
    """Embeddings and layers, without a head."""

    def __init__(self, config: LinformerConfig) -> None:
        super().__init__(config)
        settings = config.attention_settings()
        width, first = config.hidden_size, config.pad_token_id + 1
        self.embed_tokens = nn.Embedding(config.vocab_size, width, config.pad_token_id)
        self.embed_positions = nn.Embedding(first + config.max_position_embeddings, width, config.pad_token_id)
        self.layernorm_embedding = nn.LayerNorm(width, config.layer_norm_eps) if config.layernorm_embedding else None
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.proj_k = build_shared_projection(settings)
        self.layers = nn.ModuleList(
            LinformerLayer(config, settings, layer, self.proj_k) for layer in range(config.num_hidden_layers)
        )
        self.layer_norm = nn.LayerNorm(width, config.layer_norm_eps) if config.normalize_before else None
        self.post_init()

    @capture_outputs
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        first_only: bool = False,
        **kwargs: Any,
    ) -> BaseModelOutput:
        """Computes the features of the last layer, (B, T, C).

        Args:
            input_ids: (B, T), padded on the right.
            attention_mask: (B, T), 0 at padding. By default the tokens ``pad_token_id`` are padding.
            inputs_embeds: (B, T, C) in place of ``input_ids``.
            first_only: the last layer computes the features of the first position only, (B, 1, C).
            kwargs: ``output_hidden_states`` and ``return_dict``, as in other models.

        Raises:
            ValueError: the input is longer than n, or padded on the left (which is not looked for in a graph of
                torch.compile or CUDA), or the mask has another shape, or an argument that is not taken was given.
        """
        if (input_ids is None) == (inputs_embeds is None):
            raise ValueError("expected either input_ids or inputs_embeds")
        for name, why in _NOT_TAKEN.items():
            given = kwargs.get(name)
            if name == "output_attentions" and given is None:
                given = self.config.output_attentions
            if given is not None and given is not False:
                raise ValueError(f"{name} was given, but a Linformer does not take it: {why}; leave it out")
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        length, n = x.size(1), self.config.max_position_embeddings
        if length > n:
            raise ValueError(f"the input has {length} tokens, but the model was built for at most {n}; shorten it")
        padding = self._padding(input_ids, attention_mask, x)
        first = self.config.pad_token_id + 1
        x = x + self.embed_positions.weight[first : first + length]
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout(x)
        kept = True  # by someone else: the first layer must not write over its input
        for layer in self.layers:
            x = layer(
                x,
                padding,
                overwrite=not (kept or layer._forward_pre_hooks),
                first_only=first_only and layer is self.layers[-1],
            )
            kept = bool(layer._forward_hooks)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        return BaseModelOutput(last_hidden_state=x)

    def _padding(self, input_ids: Tensor | None, attention_mask: Tensor | None, x: Tensor) -> Tensor | None:
        """True at padding, (B, T); None where there is none, unless a graph is being made, which must fit all."""
        if attention_mask is not None:
            if attention_mask.shape != x.shape[:2]:
                found, wanted = tuple(attention_mask.shape), tuple(x.shape[:2])
                raise ValueError(
                    f"attention_mask has shape {found}; expected (B, T) = {wanted}: single positions cannot be masked"
                )
            padding = attention_mask == 0
        elif input_ids is not None:
            padding = input_ids == self.config.pad_token_id
        else:
            return None
        captured = padding.is_cuda and torch.cuda.is_current_stream_capturing()
        if captured or torch.compiler.is_compiling():
            return padding
        return padding if is_padded(padding, 'set padding_side="right" in the tokenizer') else None


class LinformerLMHead(nn.Module):
    """Logits of the vocabulary, (B, T, V), for features (B, T, C)."""

    def __init__(self, config: LinformerConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation_fn = ACT2FN[config.hidden_act]
        self.layer_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, features: Tensor) -> Tensor:
        logits: Tensor = self.decoder(self.layer_norm(self.activation_fn(self.dense(features))))
        return logits


class LinformerForMaskedLM(LinformerPreTrainedModel):
    """A Linformer that predicts masked tokens."""

    _tied_weights_keys = {"lm_head.decoder.weight": "linformer.embed_tokens.weight"}  # noqa: RUF012

    def __init__(self, config: LinformerConfig) -> None:
        super().__init__(config)
        self.linformer = LinformerModel(config)
        self.lm_head = LinformerLMHead(config)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        return self.lm_head.decoder

    def set_output_embeddings(self, new_embeddings: nn.Linear) -> None:
        self.lm_head.decoder = new_embeddings

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> MaskedLMOutput:
        """Logits (B, T, V), and the loss if there are labels.

        Args:
            labels: (B, T): tokens to predict, -100 elsewhere.
            input_ids, attention_mask, inputs_embeds, kwargs: as in `LinformerModel`.
        """
        outputs = self.linformer(input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs)
        logits = self.lm_head(outputs.last_hidden_state)
        loss = None if labels is None else self.loss_function(logits, labels, self.config.vocab_size, **kwargs)
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)


class LinformerClassificationHead(nn.Module):
    """Logits of the classes, (B, classes), for features (B, T, C): of the first token's."""

    def __init__(self, config: LinformerConfig) -> None:
        super().__init__()
        assert config.num_labels is not None  # two by default
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation_fn = ACT2FN[config.classifier_act]
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, features: Tensor) -> Tensor:
        x = self.activation_fn(self.dense(self.dropout(features[:, 0])))
        logits: Tensor = self.out_proj(self.dropout(x))
        return logits


class LinformerForSequenceClassification(LinformerPreTrainedModel):
    """A Linformer that classifies texts, or predicts numbers of them."""

    # The losses are means over a batch, so that `Trainer` has to divide by the batches that it accumulates.
    accepts_loss_kwargs = False

    def __init__(self, config: LinformerConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.linformer = LinformerModel(config)
        self.classifier = LinformerClassificationHead(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **kwargs: Any,
    ) -> SequenceClassifierOutput:
        """Logits (B, classes), and the loss if there are labels.

        Args:
            labels: (B,) classes, or numbers; (B, classes) for several of each.
            input_ids, attention_mask, inputs_embeds, kwargs: as in `LinformerModel`.
        """
        hidden = kwargs.get("output_hidden_states")
        outputs = self.linformer(
            input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            first_only=not (self.config.output_hidden_states if hidden is None else hidden),
            **kwargs,
        )
        logits = self.classifier(outputs.last_hidden_state)
        loss = None if labels is None else self.loss_function(labels, logits, self.config, **kwargs)
        return SequenceClassifierOutput(loss=loss, logits=logits, hidden_states=outputs.hidden_states)

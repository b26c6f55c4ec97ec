"""fairseq's transformer encoder with Linformer layers."""

from __future__ import annotations

import itertools
from argparse import Namespace
from contextlib import nullcontext
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules import LearnedPositionalEmbedding
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu

from linformer_fairseq.core import LinformerSettings, Projection, build_shared_projection, compile_layers
from linformer_fairseq.core.padding import is_padded

from .encoder_layer import FairseqEncoderLayer


class LinformerEncoder(TransformerEncoder):
    """Embeddings and L Linformer layers; owns the shared projection of layerwise sharing.

    Args:
        args: RoBERTa's flat options.
        dictionary, embed_tokens: as in fairseq's encoder.
        settings: settings of the attention.
    """

    proj_k: Projection | None

    def __init__(
        self, args: Namespace, dictionary: Dictionary, embed_tokens: nn.Embedding, settings: LinformerSettings
    ) -> None:
        # Plain attributes: fairseq's __init__ calls build_encoder_layer before it returns.
        self.settings = settings
        self._layer_numbers = itertools.count()
        super().__init__(args, dictionary, embed_tokens)
        del self._layer_numbers
        self._offloads = args.offload_activations
        if args.compile_encoder:
            compile_layers(self.layers.children())  # iterating over the list itself drops layers (LayerDrop)

    def build_encoder_layer(self, args: Namespace) -> nn.Module:
        number = next(self._layer_numbers)
        if number == 0:
            self.proj_k = build_shared_projection(self.settings)
        cfg = TransformerConfig.from_namespace(args)
        layer = FairseqEncoderLayer(cfg, self.settings, number, self.proj_k)
        return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """As in fairseq, without copies of (B, T, C) that were the memory peak of a forward pass."""
        embed = self.embed_tokens(src_tokens) if token_embedding is None else token_embedding
        if self.embed_scale != 1.0:
            embed = self.embed_scale * embed
        x = embed
        if self.embed_positions is not None:
            x = embed + self._position_embeddings(src_tokens)
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        return x, embed

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,
        return_all_hiddens: bool = False,
        token_embeddings: Tensor | None = None,
        first_only: bool = False,
    ) -> dict[str, list[Any]]:
        """The output of fairseq's encoder.

        As in fairseq, the host waits once for a GPU, to look for padding: without any, windows are projected by far
        fewer operations. A graph of the whole encoder, of torch.compile or CUDA, masks always.

        Args:
            src_tokens: (B, T), padded on the right.
            src_lengths: not used; fairseq passes it.
            return_all_hiddens: also return the input of the first layer and the output of each.
            token_embeddings: (B, T, C) in place of the embeddings of ``src_tokens``.
            first_only: the last layer computes only the output of the first position; ``encoder_out`` is (1, B, C).

        Raises:
            ValueError: T is more than ``max_positions``, or there is padding in front of tokens (which is not looked
                for in a graph).
        """
        self._check_length(src_tokens.size(1))
        padding = src_tokens.eq(self.padding_idx)
        x = self.forward_embedding(src_tokens, token_embeddings)[0]
        masks = self._masks_always(padding.device) or is_padded(
            padding, "have the task pad on the right, and no <pad> in its texts"
        )
        mask = padding if masks else None
        # Batch first in here, and (T, B, C) for fairseq outside: a view, which its heads transpose back to (B, T, C).
        states = [x.transpose(0, 1)] if return_all_hiddens else []
        kept = True  # x must not be overwritten: the first layer's input may be the caller's
        layers = list(self.layers)  # in training, without those that LayerDrop leaves out
        for layer in layers:
            with save_on_cpu(pin_memory=x.is_cuda) if self._offloads else nullcontext():
                x = layer(
                    x,
                    encoder_padding_mask=mask,
                    overwrite=not (kept or layer._forward_pre_hooks),
                    first_only=first_only and layer is layers[-1] and not layer._forward_hooks,
                )
            kept = return_all_hiddens or bool(layer._forward_hooks)
            if return_all_hiddens:
                states.append(x.transpose(0, 1))
        if first_only:
            x = x[:, :1]  # LayerDrop may have left out the last layer
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        lengths = (~padding).sum(dim=1, dtype=torch.int32).unsqueeze(1)
        return {
            "encoder_out": [x.transpose(0, 1)],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [],  # not used by RoBERTa, and as large as x
            "encoder_states": states,
            "fc_results": [None] * (len(states) - 1),
            "src_tokens": [],
            "src_lengths": [lengths],
        }

    def _position_embeddings(self, src_tokens: Tensor) -> Tensor:
        """(T, C), or (B, T, C). With padding on the right, the tokens of all sequences have the first T positions, so
        that no ids are computed and looked up; padding is masked."""
        if type(self.embed_positions) is not LearnedPositionalEmbedding:
            found: Tensor = self.embed_positions(src_tokens)
            return found
        first = self.embed_positions.padding_idx + 1
        return self.embed_positions.weight[first : first + src_tokens.size(1)]

    def _masks_always(self, device: torch.device) -> bool:
        """Whether to mask without looking for padding, which would break a graph."""
        captured = device.type == "cuda" and torch.cuda.is_current_stream_capturing()
        return captured or torch.compiler.is_compiling()

    def _check_length(self, length: int) -> None:
        n = self.settings.max_positions
        if length > n:
            raise ValueError(
                f"the input has {length} tokens, but the model was built for at most {n}; shorten the input (of a "
                f"task: linformer data task --max-positions {n}) or build the model with max_positions={length} or more"
            )

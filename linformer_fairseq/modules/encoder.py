"""fairseq's transformer encoder with Linformer layers."""

from __future__ import annotations

import itertools
from argparse import Namespace
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerConfig, TransformerEncoder
from fairseq.modules import LearnedPositionalEmbedding
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from torch import Tensor, nn

from linformer_fairseq.core import LinformerSettings, Projection, build_shared_projection, compile_layers

from .encoder_layer import FairseqEncoderLayer


class LinformerEncoder(TransformerEncoder):
    """Embeddings and L Linformer layers; owns the projection that layerwise sharing shares.

    Args:
        args: RoBERTa's flat options.
        dictionary, embed_tokens: as in fairseq's encoder.
        settings: what the attention is built from.
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
        self._compiled = args.compile_encoder
        if self._compiled:
            compile_layers(self.layers.children())  # the list itself leaves out layers by chance, with LayerDrop

    def build_encoder_layer(self, args: Namespace) -> nn.Module:
        number = next(self._layer_numbers)
        if number == 0:
            self.proj_k = build_shared_projection(self.settings)
        cfg = TransformerConfig.from_namespace(args)
        layer: nn.Module = FairseqEncoderLayer(cfg, self.settings, number, self.proj_k)
        if cfg.offload_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=True)
        return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)

    def forward_embedding(self, src_tokens: Tensor, token_embedding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """fairseq's, without the copies of (B, T, C) that made it the peak of a forward pass's memory."""
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
    ) -> dict[str, list[Any]]:
        """What fairseq's encoder returns, without asking a GPU whether there is padding.

        fairseq's own forward calls ``.any()`` on the padding mask, which stops the host until the GPU has caught
        up and breaks the graph of torch.compile.

        Args:
            src_tokens: (B, T), padded on the right.
            src_lengths: not used; fairseq passes it.
            return_all_hiddens: also return the input of the first layer and the output of each.
            token_embeddings: (B, T, C) in place of the embeddings of ``src_tokens``.

        Raises:
            ValueError: T is more than ``max_positions``.
        """
        self._check_length(src_tokens.size(1))
        padding = src_tokens.eq(self.padding_idx)
        x = self.forward_embedding(src_tokens, token_embeddings)[0]
        mask = padding if self._masks_always(padding.device) or padding.any() else None
        if mask is not None:
            x = x.masked_fill(mask.unsqueeze(-1), 0.0)
        # Batch first in here, and (T, B, C) for fairseq outside: a view, as its heads look at (B, T, C) again.
        states = [x.transpose(0, 1)] if return_all_hiddens else []
        kept = True  # by someone else; the first layer's input may be the caller's
        for layer in self.layers:
            x = layer(x, encoder_padding_mask=mask, overwrite=not (kept or layer._forward_pre_hooks))
            kept = return_all_hiddens or bool(layer._forward_hooks)
            if return_all_hiddens:
                states.append(x.transpose(0, 1))
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        lengths = (~padding).sum(dim=1, dtype=torch.int32).unsqueeze(1)
        return {
            "encoder_out": [x.transpose(0, 1)],
            "encoder_padding_mask": [padding],
            "encoder_embedding": [],  # RoBERTa has no use for it, and it is as large as x
            "encoder_states": states,
            "fc_results": [None] * (len(states) - 1),
            "src_tokens": [],
            "src_lengths": [lengths],
        }

    def _position_embeddings(self, src_tokens: Tensor) -> Tensor:
        """(T, C), or (B, T, C). With padding on the right, the tokens of all sequences have the first T positions, so
        that nothing has to be counted and looked up; what padding gets is masked."""
        if type(self.embed_positions) is not LearnedPositionalEmbedding:
            found: Tensor = self.embed_positions(src_tokens)
            return found
        first = self.embed_positions.padding_idx + 1
        return self.embed_positions.weight[first : first + src_tokens.size(1)]

    def _masks_always(self, device: torch.device) -> bool:
        """On a CPU the answer is at hand, and without padding there is nothing to mask; compiled masking is free."""
        return device.type != "cpu" or self._compiled or torch.compiler.is_compiling()

    def _check_length(self, length: int) -> None:
        n = self.settings.max_positions
        if length > n:
            raise ValueError(
                f"the input has {length} tokens, but the model was built for at most {n}; shorten the input "
                f"(for example task.shorten_method=truncate) or build the model with max_positions={length} or more"
            )

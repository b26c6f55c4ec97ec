"""Embeddings and masked-language-model head for a vocabulary that is padded in computation, not in storage.

A vocabulary is padded in the dictionary (``binarize --pad-vocabulary``) or in the model (``pad_vocabulary``).
Parameters have rows only for the real symbols, so that checkpoints and optimizer states are the same with and without
padding; the output layer adds rows of zeros for the product and returns the logits of the real symbols.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from fairseq.data import Dictionary
from fairseq.models.roberta.model import RobertaLMHead
from torch import Tensor, nn

from linformer_fairseq.files.dictionary import MULTIPLE, without_padding


def real_symbols(dictionary: Dictionary) -> int:
    """Number of symbols of a dictionary without its padding."""
    return len(without_padding(dictionary.symbols))


class TokenEmbedding(nn.Embedding):
    """Embeddings of the real symbols; those that only pad the dictionary are read as ``<unk>``.

    fairseq's masked_lm draws random tokens from the whole dictionary, including its padding.
    """

    def __init__(self, dictionary: Dictionary, embed_dim: int) -> None:
        super().__init__(real_symbols(dictionary), embed_dim, dictionary.pad())
        self._symbols, self._unknown = len(dictionary), dictionary.unk()

    def forward(self, tokens: Tensor) -> Tensor:
        if self._symbols > self.num_embeddings:
            padding = (tokens >= self.num_embeddings) & (tokens < self._symbols)
            tokens = tokens.masked_fill(padding, self._unknown)
        return super().forward(tokens)


class LMHead(RobertaLMHead):
    """RoBERTa's head, with an output layer that may be padded.

    Args:
        embed_dim, activation_fn, weight: as in fairseq's head; ``weight`` is (V, C), or None for one of its own.
        dictionary: of the output; V is the number of its real symbols.
        pad: compute a multiple of 8 rows; otherwise as many as the dictionary has symbols.
    """

    def __init__(
        self, embed_dim: int, activation_fn: str, weight: Tensor | None, dictionary: Dictionary, pad: bool
    ) -> None:
        symbols = real_symbols(dictionary)
        super().__init__(embed_dim, symbols, activation_fn, weight)
        rows = len(dictionary)
        if pad:
            rows += -rows % MULTIPLE
        self._padding = rows - symbols

    def forward(self, features: Tensor, masked_tokens: Tensor | None = None, **unused: Any) -> Tensor:
        """Logits of the real symbols, (B, T, V), or (masked tokens, V).

        Args:
            features: (B, T, C).
            masked_tokens: (B, T), True where logits are computed; None for all positions.
        """
        if not self._padding:
            return super().forward(features, masked_tokens)
        if masked_tokens is not None:
            features = features[masked_tokens, :]
        x = self.layer_norm(self.activation_fn(self.dense(features)))
        weight, bias = F.pad(self.weight, (0, 0, 0, self._padding)), F.pad(self.bias, (0, self._padding))
        return F.linear(x, weight, bias)[..., : -self._padding]

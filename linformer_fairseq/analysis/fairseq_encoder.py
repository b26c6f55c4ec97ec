"""Linformers, and fairseq's RoBERTa, which is read as `linformer convert` does."""

from __future__ import annotations

import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from torch import Tensor, nn

from linformer_fairseq.analysis.encoder import Attention, Encoder, Heads, See
from linformer_fairseq.analysis.projected_rows import projected_rows
from linformer_fairseq.conversion.building import build_dense
from linformer_fairseq.conversion.fairseq_source import read_fairseq
from linformer_fairseq.conversion.task import masked_lm
from linformer_fairseq.core import LinformerSelfAttention, attention_input
from linformer_fairseq.files import dictionary as dict_txt
from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.dictionary import MASK
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.encoding import TextEncoder, masked_pieces, token_text


class FairseqEncoder(Encoder):
    """A Linformer; a RoBERTa is one with k = n (`building.build_dense`).

    Args:
        model: on its device.
        task: fairseq's, that it was built for.
        bpe: fairseq's tokenizer.
        is_dense: whether it is a RoBERTa.
        is_finetuned: whether its checkpoint has heads for classification.
    """

    def __init__(
        self, model: LinformerRobertaModel, task: Any, bpe: Any, is_dense: bool, is_finetuned: bool = False
    ) -> None:
        self.is_finetuned = is_finetuned
        self.kind = "fairseq RoBERTa" if is_dense else "Linformer"
        self.is_dense = is_dense
        self.max_positions = model.max_positions()
        settings = model.encoder.settings
        self.layers, self.heads = settings.num_layers, settings.num_heads
        if not is_dense:
            self.projection, self.sharing = settings.projection, settings.sharing
        self._dictionary = model.encoder.dictionary
        self.first, self.last = self._dictionary.bos(), self._dictionary.eos()
        self.encode_text = TextEncoder(bpe, self._dictionary)
        self._model, self._task, self._bpe = model.eval(), task, bpe

    def encode(self, text: str) -> Ids:
        return self.encode_text(text)

    def encode_masked(self, text: str) -> Ids:
        if MASK not in text:
            return self.encode(text)
        return np.array([self._dictionary.index(piece) for piece in masked_pieces(text, self._bpe)], dtype=np.int64)

    def token(self, symbol: int) -> str:
        return token_text(symbol, self._bpe, self._dictionary)

    @torch.no_grad()
    def attend(self, tokens: Tensor, see: See) -> None:
        encoder = self._model.encoder.sentence_encoder
        x, _ = encoder.forward_embedding(tokens.to(encoder.embed_tokens.weight.device))
        for number, layer in enumerate(encoder.layers):
            source = attention_input(layer, x)
            _, probabilities = layer.self_attn(source, need_weights=True)
            heads = partial(_heads, layer.self_attn, source, probabilities)
            rows = None if self.is_dense else partial(projected_rows, layer.self_attn, source)
            see(number, Attention(probabilities, heads, rows))
            del probabilities
            x = layer(x)

    def is_word(self, tokens: Tensor) -> Tensor:
        """Which tokens are of a text, and not special ones; bool, of the same shape."""
        return (tokens >= self._dictionary.nspecial) & (tokens != self._dictionary.index(MASK))

    @torch.no_grad()
    def predict(self, tokens: Tensor, masked: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features, and predict masked tokens.

        Args:
            tokens: (B, T) with T up to n, without padding; what is masked is not read.
            masked: (B, T), bool; these are replaced by ``<mask>``.

        Returns:
            The output of the last layer (B, T, C), and the logits of the masked tokens (M, V).
        """
        device = self._model.encoder.sentence_encoder.embed_tokens.weight.device
        hidden = tokens.masked_fill(masked, self._dictionary.index(MASK)).to(device)
        features, _ = self._model.encoder.extract_features(hidden)
        logits: Tensor = self._model.encoder.output_layer(features, masked.to(device))
        return features, logits

    def untrained(self, seed: int) -> FairseqEncoder:
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that k is n
            model = LinformerRobertaModel.build_model(self._model.args, self._task)
        device = next(self._model.parameters()).device
        return FairseqEncoder(model.to(device), self._task, self._bpe, self.is_dense)


@torch.no_grad()
def _heads(attention: LinformerSelfAttention, x: Tensor, probabilities: Tensor) -> Heads:
    def split(linear: nn.Linear) -> Tensor:
        batch, length, _ = x.shape
        found: Tensor = linear(x).view(batch, length, attention.settings.num_heads, -1).transpose(1, 2)
        return found

    projected = attention.project(x)
    values = projected.values if projected.late is None else projected.late[1] @ projected.values
    output = probabilities.to(values.dtype) @ values
    return Heads(split(attention.q_proj), split(attention.k_proj), split(attention.v_proj), output)


def load_fairseq(weights: Path, data: Path, device: torch.device) -> FairseqEncoder:
    """Load a Linformer or fairseq's RoBERTa; heads for classification are not used.

    Args:
        weights: the checkpoint.
        data: folder with its dictionary and tokenizer.
        device: where it is computed.

    Raises:
        UserError: a file is missing or damaged, or the model is neither of the two.
    """
    try:
        hub = LinformerRobertaModel.from_pretrained(weights.parent.absolute(), weights.name, data.absolute())
        is_finetuned = bool(getattr(hub.model, "classification_heads", {}))
        if isinstance(hub.model, LinformerRobertaModel):
            return FairseqEncoder(hub.model.float().to(device), hub.task, hub.bpe, False, is_finetuned)
        with tempfile.TemporaryDirectory() as folder:
            source = read_fairseq(weights, data, Path(folder))
            dictionary = Dictionary.load(str(Path(folder, dict_txt.NAME)))
        task = masked_lm(dictionary, source.max_positions)
        model = build_dense(source, task, source.max_positions)
    except (FileNotFoundError, ValueError) as error:  # CheckpointError among them
        raise UserError(str(error)) from error
    return FairseqEncoder(model.to(device), task, hub.bpe, True, is_finetuned)

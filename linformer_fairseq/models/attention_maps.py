"""The attention probabilities of texts, to look at."""

from __future__ import annotations

import torch
from fairseq import utils

from linformer_fairseq.core import LinformerSettings, attention_input
from linformer_fairseq.files.dictionary import MASK
from linformer_fairseq.modules import LinformerEncoder
from linformer_fairseq.prediction.results import AttentionMap

from .streams import Text, TextStreams


class AttentionMaps(TextStreams):
    """``attention`` of the hub interface."""

    @property
    def attention_settings(self) -> LinformerSettings | None:
        """The options of the attention; None if the model is no Linformer."""
        encoder = self.model.encoder.sentence_encoder
        return encoder.settings if isinstance(encoder, LinformerEncoder) else None

    def attention(self, text: Text, layer: int, head: int, long: str | None = None) -> AttentionMap:
        """The attention probabilities of a text: P = softmax(Q (E K)^T / sqrt(D)) of equation 7 of the paper.

        Args:
            text: a text or a pair of texts. In a model without classification heads, ``<mask>`` is the mask.
            layer: from 0.
            head: from 0.
            long: as in `classify`. Of several windows, the first one is shown.

        Raises:
            ValueError: there is no such layer or head; the model is no Linformer; or a text with a mask has several, or
                is longer than n.
        """
        settings = self.attention_settings
        if settings is None:
            raise ValueError("the model is no Linformer: its attention has no projected rows")
        for name, number, count in (("layer", layer, settings.num_layers), ("head", head, settings.num_heads)):
            if not 0 <= number < count:
                raise ValueError(f"{name}={number}: expected 0 to {count - 1}")
        if isinstance(text, str) and MASK in text and not self.model.classification_heads:
            rows, is_long = self._masked(text).rows, False
        else:
            rows, is_long = self._fitting(long)(text)
        with torch.inference_mode(), utils.model_eval(self.model):
            tokens = self._padded(rows[:1])
            # in training, iterating would leave out layers (LayerDrop)
            chosen = list(self.model.encoder.sentence_encoder.layers)[layer]
            _, extra = self.model(tokens, features_only=True, return_all_hiddens=True)
            x = extra["inner_states"][layer].transpose(0, 1)
            source = attention_input(chosen, x)
            weights = chosen.self_attn(source, need_weights=True)[1]
        length = len(rows[0])
        projection = chosen.self_attn.key_projection(head)
        shown = weights[0, head, :, : projection.count(length)].float().cpu().numpy()
        names = [self._token(symbol) for symbol in rows[0].tolist()]
        return AttentionMap(names, shown, projection.size(length), is_long, len(rows))

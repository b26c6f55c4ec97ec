"""The sizes of a model and its number of parameters, from its options, without building it."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass

from omegaconf import DictConfig

from linformer_fairseq.core import LinformerSettings, count_projection_parameters
from linformer_fairseq.launch.options import resolved_model
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.models.options import attention_settings
from linformer_fairseq.tasks import SENTENCE_PREDICTION

ROBERTA = "roberta"


@dataclass(frozen=True)
class Sizes:
    """The sizes that determine an encoder's cost."""

    layers: int
    width: int
    """C, channels of a position."""
    ffn: int
    heads: int
    n: int
    vocabulary: int
    classes: int
    """Classes of the classification head; 0 without one."""
    settings: LinformerSettings | None
    """Settings of Linformer's attention; None if attention is n x n."""
    options: Namespace
    """All options of the model, with defaults filled in."""

    @property
    def projections(self) -> int:
        """Number of weights in all E and F, including frozen ones."""
        return count_projection_parameters(self.settings) if self.settings else 0

    @property
    def frozen(self) -> int:
        """Number of weights that are not parameters, because of ``freeze_projection``."""
        return self.projections if self.settings and self.settings.freeze_projection else 0

    @property
    def parameters(self) -> int:
        """Exact number of trained parameters; includes the masked-language-model head, also in finetuning."""
        c = self.width
        norm, options = 2 * c, self.options
        embeddings = (self.vocabulary + self.n + 2) * c  # fairseq's position ids begin after the padding symbol's, 1
        embeddings += norm * bool(options.layernorm_embedding)
        attention = 4 * (c * c + c)
        layer = attention + norm + (c * self.ffn + self.ffn) + (self.ffn * c + c) + norm
        head = (c * c + c) + norm + self.vocabulary + self.vocabulary * c * bool(options.untie_weights_roberta)
        last_norm = norm * bool(options.encoder_normalize_before)
        noise = c * c * (options.quant_noise_pq > 0)  # fairseq then adds a linear layer after the embeddings
        classifier = c * c + c + (c + 1) * self.classes if self.classes else 0
        return embeddings + noise + self.layers * layer + last_norm + head + classifier + self.projections - self.frozen


def sizes_of(config: DictConfig, vocabulary: int) -> Sizes:
    """Sizes of the model that a run's config describes, including those of its architecture.

    Args:
        config: of the run, from `launch.options.with_defaults`.
        vocabulary: number of symbols, ``<mask>`` included.

    Raises:
        ValueError: the model is neither ours nor fairseq's RoBERTa, or options are contradictory.
    """
    name, options = resolved_model(config)
    if name not in (MODEL, ROBERTA):
        raise ValueError(f"model._name is {name!r}: costs are known only for the {MODEL} and {ROBERTA} models")
    classifies = config.task._name in SENTENCE_PREDICTION
    n = config.task.max_positions if classifies else config.task.tokens_per_sample
    settings = attention_settings(options) if name == MODEL else None
    return Sizes(
        layers=settings.num_layers if settings else options.encoder_layers,
        width=options.encoder_embed_dim,
        ffn=options.encoder_ffn_embed_dim,
        heads=options.encoder_attention_heads,
        n=getattr(options, "max_positions", None) or n,
        vocabulary=vocabulary,
        classes=config.task.num_classes if classifies else 0,
        settings=settings,
        options=options,
    )

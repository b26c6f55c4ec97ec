"""fairseq's RoBERTa with other attention in its layers; all else, initialization too, is RoBERTa's."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY, register_model, register_model_architecture
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import RobertaEncoder, roberta_prenorm_architecture
from torch import nn

from .attention import Nystrom, Performer

_NOT_SUPPORTED = ("attention_dropout", "quant_noise_pq", "quant_noise_scalar")


class RivalRoberta(RobertaModel):
    """A RoBERTa in which `attention` of a subclass replaces the attention of every layer."""

    option: str
    """Name of the option that has the number of rows that queries attend to, m."""
    what: str
    """What these are."""

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        RobertaModel.add_args(parser)
        parser.add_argument(f"--{cls.option}", type=int, metavar="m", help=f"number of {cls.what}")

    def __init__(self, args: Any, encoder: RobertaEncoder) -> None:
        for name in _NOT_SUPPORTED:
            if value := getattr(args, name):
                raise ValueError(f"{name}={value}: this attention does not have it; set model.{name}=0")
        count = getattr(args, self.option, None)
        if count is None or count < 1:
            raise ValueError(f"{self.option}={count}: expected the number of {self.what}: set model.{self.option}=64")
        for layer in encoder.sentence_encoder.layers.children():  # iterating itself drops layers (LayerDrop)
            layer.self_attn = self.attention(args, count)
        super().__init__(args, encoder)  # initializes all weights

    @staticmethod
    def attention(args: Any, count: int) -> nn.Module:
        """The attention of a layer.

        Args:
            args: RoBERTa's options.
            count: m.
        """
        raise NotImplementedError


@register_model("performer")
class PerformerRoberta(RivalRoberta):
    """RoBERTa with `Performer`."""

    option, what = "features", "random features of a layer"

    @staticmethod
    def attention(args: Any, count: int) -> nn.Module:
        return Performer(args.encoder_embed_dim, args.encoder_attention_heads, count)


@register_model("nystrom")
class NystromRoberta(RivalRoberta):
    """RoBERTa with `Nystrom`."""

    option, what = "landmarks", "landmarks of an input of n tokens"

    @staticmethod
    def attention(args: Any, count: int) -> nn.Module:
        return Nystrom(args.encoder_embed_dim, args.encoder_attention_heads, args.max_positions, count)


for _family in ("performer", "nystrom"):
    if f"{_family}_prenorm" not in ARCH_MODEL_REGISTRY:  # fairseq refuses a second import, under another name
        register_model_architecture(_family, f"{_family}_prenorm")(roberta_prenorm_architecture)

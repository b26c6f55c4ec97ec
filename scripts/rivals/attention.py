"""The attention of the efficiency benchmarks, called as fairseq calls its own."""

from __future__ import annotations

from torch import Tensor

from benchmarks.efficiency.models.blocks import HeadMaps
from benchmarks.efficiency.models.nystrom import NystromSelfAttention
from benchmarks.efficiency.models.performer import PerformerSelfAttention


class CalledByFairseq(HeadMaps):
    """Self-attention by the two steps of another base class."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """Attention of all positions to all.

        Args:
            query: (T, B, C).
            key, value: not used: the same as ``query``.
            key_padding_mask: bool (B, T), True at padding, which does not contribute.
            need_weights: not used; there are no weights to return.
            attn_mask: None.

        Returns:
            (T, B, C), and None in place of the attention probabilities.

        Raises:
            ValueError: there is an attention mask, causal or other.
        """
        if attn_mask is not None:
            raise ValueError("attn_mask was given, but Performer's and Nystrom attention cannot mask single positions")
        x = query.transpose(0, 1)
        return self.attend(x, self.project(x, key_padding_mask)).transpose(0, 1), None


class Performer(CalledByFairseq, PerformerSelfAttention):
    """FAVOR+ (Choromanski et al. 2021) with orthogonal positive random features.

    Each layer draws its features once, for all its heads, when it is built. They are a buffer in the state dict. The
    paper can also draw them again in training, which is not done here.
    """


class Nystrom(CalledByFairseq, NystromSelfAttention):
    """Nystrom attention (Xiong et al. 2021): means of segments of a sequence's tokens as landmarks, six steps of the
    iteration for the pseudo-inverse; without the depthwise convolution of the values that the paper adds."""

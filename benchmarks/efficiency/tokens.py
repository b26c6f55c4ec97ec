"""Random input, the same for the same shape: a measurement can be resumed, and its models have the same tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from linformer_fairseq.files.dictionary import FIRST, PAD


def random_tokens(sequences: int, length: int, vocabulary: int, padded: bool) -> Tensor:
    """Ids (B, T) of words, drawn with a fixed seed.

    Args:
        sequences: B.
        length: T.
        vocabulary: number of symbols; the last one is not drawn.
        padded: sequences have similar lengths, as in finetuning: the first has T tokens, the others a random number
            from T / 2 to T, with padding on the right. Otherwise all have T.
    """
    generator = torch.Generator().manual_seed(length)
    tokens = torch.randint(FIRST, vocabulary - 1, (sequences, length), generator=generator)
    if padded:
        lengths = torch.randint((length + 1) // 2, length + 1, (sequences, 1), generator=generator)
        lengths[0] = length
        tokens.masked_fill_(torch.arange(length) >= lengths, PAD)
    return tokens

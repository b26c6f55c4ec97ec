"""An encoder with an LSTM in place of attention: the recurrent layer of the paper's Table 1."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from benchmarks.efficiency.models.embeddings import Encoder
from benchmarks.efficiency.models.plain import Layer
from benchmarks.efficiency.sizes import Sizes


class Recurrence(nn.Module):
    """A bidirectional LSTM of the model's width, with C / 2 for each direction."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        """(B, T, C) to (B, T, C)."""
        if padding is None:
            out: Tensor = self.lstm(x)[0]
            return out
        lengths = (~padding).sum(dim=1).cpu()  # the backward direction begins at the last token
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=x.size(1))[0]


def recurrent(sizes: Sizes, n: int, k: int | None) -> Encoder:
    """Layers with an LSTM and a feed-forward network."""
    return Encoder(sizes, n, (Layer(sizes, Recurrence(sizes.width)) for _ in range(sizes.layers)))

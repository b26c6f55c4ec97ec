"""What predictions depend on besides the text: the length of the input, and where in it the text begins.

* By length: full blocks, and the same blocks cut into pieces of T tokens; the same tokens are masked.
* By position: the first part of each block behind s tokens of another block. ``inserted``: the input becomes s tokens
  longer; ``moved``: other tokens stand behind the text, so that every input has the same length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from linformer_fairseq.analysis.blocks import Chosen
from linformer_fairseq.analysis.encoder import Attention
from linformer_fairseq.analysis.resuming import measured
from linformer_fairseq.analysis.sums import Sums
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress

NAME = "limits.json"
MASKED = 0.15
"""Share of the tokens that are replaced by ``<mask>`` and predicted."""
PLACES = ("inserted", "moved")
_SHORTEST = 8
_SUMS = "blocks"

if TYPE_CHECKING:  # the rest of the analysis does not load fairseq
    from linformer_fairseq.analysis.fairseq_encoder import FairseqEncoder

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """All that the result depends on."""

    model: str
    sha256: str
    """Of the weights."""
    data: str
    """Name of the text."""
    data_sha256: str
    length: int
    """n, the tokens of a block."""
    lengths: list[int]
    """T of the pieces, ascending."""
    shifts: list[int]
    """s, ascending; 0 is one."""
    sentences: int
    """Blocks."""
    seed: int
    """Of the choice of blocks, and of the masked tokens."""

    def check(self) -> None:
        """Refuse what cannot be computed.

        Raises:
            UserError: a value is out of range; it is named.
        """
        n = self.length
        if wrong := [length for length in self.lengths if not _SHORTEST <= length <= n]:
            raise UserError(f"--lengths {wrong[0]:,}: expected {_SHORTEST} to {n:,} tokens, which is this model's n")
        if wrong := [shift for shift in self.shifts if not 0 <= shift <= n // 2]:
            raise UserError(f"--shifts {wrong[0]:,}: expected 0 to {n // 2:,} tokens, half of this model's n")
        if self.sentences < 2:
            raise UserError(f"--sentences {self.sentences}: expected at least 2; each is put behind another's tokens")


def default_lengths(n: int) -> list[int]:
    """16, 32, ... and n."""
    return sorted({n, *(2**power for power in range(4, n.bit_length()) if 2**power < n)})


def default_shifts(n: int) -> list[int]:
    """0, 1, 2, 4, ... up to n / 2."""
    return [0, *(2**power for power in range(n.bit_length()) if 2**power <= n // 2)]


def measure(
    encoder: FairseqEncoder, choose: Callable[[], Chosen], settings: Settings, out: Path, batch: int, command: str
) -> dict[str, Any]:
    """Measure a model's predictions of masked tokens by length and position, or go on with a stopped run.

    Args:
        encoder: the model.
        choose: chooses the blocks, where no earlier run has.
        settings: what is measured. With the same ones a finished result is returned as it is.
        out: folder of the result.
        batch: blocks at a time; the result does not depend on it, up to rounding.
        command: for the record.

    Returns:
        The record, which is written to `NAME` in ``out``. ``lengths`` and ``shifts`` have a row for each T and s.

    Raises:
        UserError: ``out`` has results of other settings, no token of some inputs is masked, or memory is lacking.
        OSError: a file cannot be written.
    """

    def choose_masked() -> Chosen:
        chosen = choose()
        _masked(encoder, settings, torch.from_numpy(chosen.rows))  # refused before anything is written
        return chosen

    def compute(sums: Sums) -> dict[str, Any]:
        _accumulate(encoder, settings, sums, batch)
        return _found(encoder, settings, sums)

    return measured("limits", settings, out, choose_masked, compute, batch, command)


def _masked(encoder: FairseqEncoder, settings: Settings, blocks: Tensor) -> Tensor:
    """Which tokens of the blocks (B, n) are masked; bool, of the same shape.

    Raises:
        UserError: there are none in the inputs of some T, or in the texts that are moved.
    """
    masked = encoder.is_word(blocks)
    masked &= torch.rand(blocks.shape, generator=torch.Generator().manual_seed(settings.seed)) < MASKED
    inputs = [masked[:, : settings.length - max(settings.shifts)]]
    inputs += [_pieces(blocks, masked, length)[1] for length in settings.lengths]
    if not all(bool(one.any()) for one in inputs):
        raise UserError(
            f"--sentences {len(blocks)}: at some of --lengths or --shifts, no token of them is masked; ask for more"
        )
    return masked


def _accumulate(encoder: FairseqEncoder, settings: Settings, sums: Sums, batch: int) -> None:
    """Add all blocks that are not yet in the sums."""
    blocks = torch.from_numpy(sums.blocks)
    masked = _masked(encoder, settings, blocks)
    others = blocks.roll(1, 0)
    with Progress("predictions", len(blocks), sums.count(_SUMS), "blocks") as progress:
        while (start := sums.count(_SUMS)) < len(blocks):
            part = slice(start, start + batch)
            by_length = [
                _scores(encoder, *_pieces(blocks[part], masked[part], length))[0] for length in settings.lengths
            ]
            by_shift = [
                _shifted(encoder, settings.shifts, blocks[part], masked[part], others[part], place == "moved")
                for place in PLACES
            ]
            count = len(blocks[part])
            sums.add(_SUMS, {"lengths": np.stack(by_length), "shifts": np.stack(by_shift, 1)}, count)
            progress.advance(count)


def _pieces(blocks: Tensor, masked: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Blocks (B, n) as full pieces (B', T), each with the first token in front; what remains is left out."""
    count = (blocks.size(1) - 1) // (length - 1)
    first = blocks[:, :1].repeat_interleave(count, 0)
    cut, hidden = (rows[:, 1 : 1 + count * (length - 1)].reshape(-1, length - 1) for rows in (blocks, masked))
    return torch.cat([first, cut], 1), F.pad(hidden, (1, 0))


def _shifted(
    encoder: FairseqEncoder, shifts: list[int], blocks: Tensor, masked: Tensor, others: Tensor, moved: bool
) -> Array:
    """Loss, right ones, masked tokens, and squares of what changes in the features and of these, for each s (S, 5)."""
    most = max(shifts)
    end = blocks.size(1) - most
    found: list[Array] = []
    for shift in shifts:
        behind = most - shift if moved else 0
        text, other = blocks[:, 1:end], others[:, 1 : 1 + shift + behind]
        tokens = torch.cat([blocks[:, :1], other[:, :shift], text, other[:, shift:]], 1)
        scores, features = _scores(encoder, tokens, F.pad(masked[:, 1:end], (1 + shift, behind)))
        features = features[:, 1 + shift : end + shift].double()
        if not shift:
            first = features
        squares = [float((features - first).square().sum()), float(first.square().sum())]
        found.append(np.concatenate([scores, squares]))
    return np.stack(found)


def _scores(encoder: FairseqEncoder, tokens: Tensor, masked: Tensor) -> tuple[Array, Tensor]:
    """Loss, right ones and number of the masked tokens (3,); and the features (B, T, C)."""
    features, logits = encoder.predict(tokens, masked)
    targets = tokens[masked].to(logits.device)
    loss = F.cross_entropy(logits.double(), targets, reduction="sum")
    right = (logits.argmax(-1) == targets).sum()
    return np.array([float(loss), float(right), float(len(targets))]), features


def _found(encoder: FairseqEncoder, settings: Settings, sums: Sums) -> dict[str, Any]:
    lengths, shifts = sums.mean(_SUMS, "lengths"), sums.mean(_SUMS, "shifts")
    blocks = torch.from_numpy(sums.blocks[:1])
    return {
        "encoder": encoder.described(),
        "available_blocks": sums.about["available"],
        "lengths": [
            {"length": length, "rows": _projected_rows(encoder, blocks[:, :length]), **_summary(row, len(sums.blocks))}
            for length, row in zip(settings.lengths, lengths, strict=True)
        ],
        "shifts": [
            {
                "shift": shift,
                **{
                    place: {
                        **_summary(row, len(sums.blocks)),
                        "change": round(float(np.sqrt(row[3] / row[4])), 5),
                    }
                    for place, row in zip(PLACES, rows, strict=True)
                },
            }
            for shift, rows in zip(settings.shifts, shifts, strict=True)
        ],
    }


def _summary(row: Array, blocks: int) -> dict[str, Any]:
    loss, right, count = row[:3]
    return {
        "masked": round(count * blocks),
        "accuracy": round(float(right / count), 5),
        "perplexity": round(float(np.exp(loss / count)), 3),
    }


def _projected_rows(encoder: FairseqEncoder, tokens: Tensor) -> int:
    """Most columns of P, or of P-bar, in any layer."""
    counts: list[int] = []

    def see(layer: int, attention: Attention) -> None:
        attention.check(layer)
        counts.append(attention.probabilities.size(-1))

    encoder.attend(tokens, see)
    return max(counts)

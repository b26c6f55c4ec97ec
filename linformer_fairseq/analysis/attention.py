"""P of every layer and head for one text, and the E that makes the projected rows, with 8 bits a value."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from linformer_fairseq.analysis.encoder import Attention, Encoder
from linformer_fairseq.analysis.record import Record, check_settings, origin, read_record, write_record
from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.memory import enough_memory
from linformer_fairseq.prediction.items import one_line

NAME = "attention.json"
LARGEST = 50_000_000
"""Most values of P and E in all layers and heads: bytes of the page, before base64. RoBERTa-base has 37,748,736 for
512 tokens."""

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Settings:
    """All that the result depends on."""

    model: str
    sha256: str
    """Of the weights."""
    text: str


def measure(encoder: Encoder, settings: Settings, out: Path, command: str) -> dict[str, Any]:
    """Compute the attention of a text.

    Args:
        encoder: the model.
        settings: what is computed. An earlier result of the same ones is replaced: this takes seconds.
        out: folder of the result.
        command: for the record.

    Returns:
        The record, which is written to `NAME` in ``out``. ``attention`` has, by layer and head, the number of ``rows``,
        the ``largest`` value, P as ``values`` (`probabilities`), and ``projection``, the index of E in ``projections``
        (`weights`); None for dense attention.

    Raises:
        UserError: the text is empty or too long, ``out`` has the result of other settings, or memory is lacking.
        OSError: the file cannot be written.
    """
    tokens = tokens_of(encoder, settings.text)
    done = out / NAME
    if done.exists():
        check_settings(done, read_record(done, "attention")["settings"], asdict(settings))
    with enough_memory("try a shorter --text, or --device cpu"):
        maps = _Maps(encoder, len(tokens))
        encoder.attend(torch.from_numpy(tokens)[None], maps.see)
    record = {
        "kind": "attention",
        "settings": asdict(settings),
        "encoder": {
            **encoder.described(),
            "projection": encoder.projection,
            "sharing": encoder.sharing,
        },
        "provenance": origin(command),
        "tokens": [encoder.token(symbol) for symbol in tokens.tolist()],
        "projections": maps.projections,
        "attention": maps.layers,
    }
    write_record(done, record)
    return record


def tokens_of(encoder: Encoder, text: str) -> Ids:
    """The tokens of a text (T,), with the first and the last one of every input.

    Raises:
        UserError: there are none, or more than the encoder takes; or the text is no Unicode.
    """
    try:
        text.encode()
        tokens = encoder.encode_masked(str(one_line(text)))
    except UnicodeEncodeError as error:
        raise UserError(f"--text: character {error.start + 1:,} is not Unicode; expected UTF-8") from None
    except ValueError as error:
        raise UserError(f"--text: {error}") from None
    if not len(tokens):
        raise UserError("--text: it has no tokens; expected words")
    if (count := len(tokens) + 2) > encoder.max_positions:
        raise UserError(
            f"--text: {count:,} tokens with the first and last one, but this model takes at most "
            f"{encoder.max_positions:,}; shorten the text"
        )
    return np.concatenate([[encoder.first], tokens, [encoder.last]])


def probabilities(record: Record, layer: int, head: int) -> Floats:
    """P (T, R) of a layer and head, from 0; the error of p is about sqrt(p * largest) / 255 at most."""
    found = record["attention"][layer][head]
    root = _decoded(found["values"], np.uint8, len(record["tokens"])) / np.float32(255)
    values: Floats = root * root * np.float32(found["largest"])
    return values


def weights(record: Record, layer: int, head: int) -> Floats | None:
    """E (R, T) of a layer and head, with an error of at most largest / 254; None for dense attention."""
    index = record["attention"][layer][head]["projection"]
    if index is None:
        return None
    found = record["projections"][index]
    values: Floats = _decoded(found["values"], np.int8, found["rows"]) * np.float32(found["largest"] / 127)
    return values


def what_e_is(record: Record) -> str | None:
    """What `weights` shows, in words; None for dense attention."""
    kind, sharing = record["encoder"]["projection"], record["encoder"]["sharing"]
    features = "features of the head" if sharing == "none" else "features"
    return {
        None: None,
        "linear": "E as it is used for the tokens of this text",
        "convolution": f"the kernels, averaged over the {features}, each in its window of tokens",
        "mean_pool": "means of windows of tokens",
        "max_pool": "the share of the features in which a token is the largest of its window",
    }[kind]


class _Maps:
    """Collects the attention of all layers; equal E, which layers or heads share, once."""

    def __init__(self, encoder: Encoder, length: int) -> None:
        self.layers: list[list[dict[str, Any]]] = []
        self.projections: list[dict[str, Any]] = []
        self._indices: dict[str, int] = {}
        self._encoder, self._length = encoder, length
        self._room = LARGEST

    def see(self, layer: int, attention: Attention) -> None:
        """As `encoder.See`."""
        attention.check(layer)
        rows = None if attention.rows is None else attention.rows()
        heads = []
        for head, p in enumerate(attention.probabilities[0].float()):
            e = None if rows is None else rows[head]
            p = p if e is None else p[:, : len(e.weights)]
            projection = None if e is None else self._projection(e.weights, e.window)
            self._take(p)
            largest = float(p.max())
            values = (p / largest).sqrt().mul(255).round()
            heads.append(
                {"rows": p.size(1), "largest": largest, "projection": projection, "values": _encoded(values, np.uint8)}
            )
        self.layers.append(heads)

    def _projection(self, matrix: Tensor, window: int | None) -> int:
        """The index of E."""
        matrix = matrix.float()
        largest = float(matrix.abs().max())
        values = _encoded((matrix / (largest or 1.0)).mul(127).round(), np.int8)
        key = f"{window} {len(matrix)} {largest} {values}"
        if key not in self._indices:
            self._take(matrix)
            self._indices[key] = len(self.projections)
            self.projections.append({"rows": len(matrix), "window": window, "largest": largest, "values": values})
        return self._indices[key]

    def _take(self, matrix: Tensor) -> None:
        self._room -= matrix.numel()
        if self._room < 0:
            encoder = self._encoder
            raise UserError(
                f"--text: {self._length:,} tokens: in {encoder.layers} layers of {encoder.heads} heads, P and E have "
                f"more than {LARGEST:,} values; shorten the text"
            )


def _encoded(values: Tensor, kind: type[np.uint8 | np.int8]) -> str:
    return base64.b64encode(values.cpu().numpy().astype(kind).tobytes()).decode()


def _decoded(text: str, kind: type[np.uint8 | np.int8], lines: int) -> Floats:
    return np.frombuffer(base64.b64decode(text), kind).reshape(lines, -1).astype(np.float32)

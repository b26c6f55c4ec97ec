"""The names of weights in fairseq's checkpoints and in transformers' files."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from linformer_fairseq.files.weight_names import ENCODER, HEADS, LM_HEAD, OUTPUT, OUTPUT_BIAS

BODY = "linformer."
"""The part without a head; a file of ``LinformerModel`` alone has its names without this."""
VERSION = f"{ENCODER}version"
"""A buffer of fairseq's encoders; always `VERSION_NUMBER`."""
VERSION_NUMBER = 3.0


def _table(head: str) -> list[tuple[str, str]]:
    """(fairseq, transformers): beginnings of names; the first one that fits counts, in both directions."""
    return [
        (ENCODER, BODY),
        (OUTPUT, "lm_head.decoder.weight"),
        (OUTPUT_BIAS, "lm_head.decoder.bias"),
        (LM_HEAD, "lm_head."),
        (f"{HEADS}{head}.", "classifier."),
    ]


def to_transformers(weights: Mapping[str, Tensor], head: str, tied: bool) -> dict[str, Tensor]:
    """Renames the weights of a fairseq model.

    Args:
        weights: of the model.
        head: the classification head to take along; the others are left out.
        tied: the output layer is the embedding of the tokens, and is left out.
    """
    left_out = {VERSION, OUTPUT} if tied else {VERSION}
    table = _table(head)
    names = {name: _renamed(name, table) for name in weights if name not in left_out}
    return {new: weights[old] for old, new in names.items() if not new.startswith(HEADS)}


def to_fairseq(weights: Mapping[str, Tensor], head: str) -> dict[str, Tensor]:
    """Renames the weights of transformers' model; ``head`` is the name of its classification head in fairseq."""
    if not any(name.startswith(BODY) for name in weights):
        weights = {f"{BODY}{name}": tensor for name, tensor in weights.items()}
    table = [(new, old) for old, new in _table(head)]
    return {_renamed(name, table): tensor for name, tensor in weights.items()}


def _renamed(name: str, table: list[tuple[str, str]]) -> str:
    for old, new in table:
        if name.startswith(old):
            return new + name.removeprefix(old)
    return name

"""What a layer's weights mean, in a few integers that travel in the state dict.

Neither n, k nor the sharing can be told from the shapes in every mode: pooling has no weights at all, and a
convolution has equal shapes before and after W. A checkpoint loaded into another model would then silently
compute something else. Integers in a tensor, not text: tools that average or convert checkpoints expect tensors.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .settings import PROJECTIONS, ROW_WEIGHTS, SHARINGS, SHORT_INPUTS, LinformerSettings

_KINDS = {"projection": PROJECTIONS, "row_weights": ROW_WEIGHTS, "short_inputs": SHORT_INPUTS}
_STEPS = 10**6
"""Steps are told apart to a millionth."""


def signature_of(settings: LinformerSettings, layer: int) -> list[int]:
    """[kind, sharing, n, k of head 1, ..., k of head H]. Pooling is the same in every sharing mode: none.

    The kind is the projection, plus what later options add: nothing where they are as they were before they existed.
    """
    kind, unit = 0, 1
    for name, values in _KINDS.items():
        kind += unit * values.index(getattr(settings, name))
        unit *= len(values)
    kind += unit * (_STEPS - round(_STEPS * settings.projection_step))
    sharing = "none" if settings.is_pooling else settings.sharing
    return [kind, SHARINGS.index(sharing), settings.max_positions, *settings.dims[layer]]


def projection_options(kind: int) -> dict[str, Any]:
    """The options that the first number of a signature stands for, by their names."""
    options: dict[str, Any] = {}
    for name, values in _KINDS.items():
        kind, index = divmod(kind, len(values))
        options[name] = values[index]
    return options | {"projection_step": (_STEPS - kind) / _STEPS}


def check_signature(stored: Tensor, expected: Tensor, where: str) -> None:
    """Raises ValueError, naming both sides, if a checkpoint was not trained with the model's settings."""
    if stored.tolist() != expected.tolist():
        raise ValueError(
            f"the checkpoint does not fit the model: {where} was trained with {_describe(stored.tolist())}, but "
            f"the model has {_describe(expected.tolist())}; build the model with the checkpoint's settings"
        )


def _describe(signature: list[int]) -> str:
    kind, sharing, n, *dims = signature
    options = projection_options(kind)
    k = f"{dims[0]} in each of {len(dims)} heads" if len(set(dims)) == 1 else str(dims)
    names = "projection={projection}, short_inputs={short_inputs}, "
    if not options["projection"].endswith("pool"):
        names += f"sharing={SHARINGS[sharing]}, row_weights={{row_weights}}, projection_step={{projection_step:g}}, "
    return f"{names.format(**options)}max_positions (n) = {n}, projected_dim (k) = {k}"

"""The signature of a layer: integers in the state dict that encode the options of its attention.

The shapes of the weights do not always determine n, k and the sharing mode: pooling has no weights, and a convolution
has the same shapes before and after W. Without the signature, a checkpoint could be loaded into a model that silently
computes another function. It is a tensor, because tools that average or convert checkpoints expect tensors.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .settings import PROJECTIONS, ROW_WEIGHTS, SHARINGS, SHORT_INPUTS, LinformerSettings

_KINDS = {"projection": PROJECTIONS, "row_weights": ROW_WEIGHTS, "short_inputs": SHORT_INPUTS}
_STEPS = 10**6
"""Resolution of ``projection_step`` in a signature."""


def signature_of(settings: LinformerSettings, layer: int) -> list[int]:
    """[kind, sharing, n, k of head 1, ..., k of head H].

    The kind encodes the projection and the options that were added later. Those add nothing for the values that
    correspond to models from before they existed. The sharing mode of pooling is always ``none``.
    """
    kind, unit = 0, 1
    for name, values in _KINDS.items():
        kind += unit * values.index(getattr(settings, name))
        unit *= len(values)
    kind += unit * (_STEPS - round(_STEPS * settings.projection_step))
    kind += unit * _STEPS * (settings.kernel_strides - 1)
    sharing = "none" if settings.is_pooling else settings.sharing
    return [kind, SHARINGS.index(sharing), settings.max_positions, *settings.dims[layer]]


def projection_options(kind: int) -> dict[str, Any]:
    """The options that the kind, the first number of a signature, encodes."""
    options: dict[str, Any] = {}
    for name, values in _KINDS.items():
        kind, index = divmod(kind, len(values))
        options[name] = values[index]
    strides, step = divmod(kind, _STEPS)
    return options | {"projection_step": (_STEPS - step) / _STEPS, "kernel_strides": strides + 1}


def check_signature(stored: Tensor, expected: list[int], where: str) -> None:
    """Raises ValueError, naming both settings, if a checkpoint was trained with other settings than the model's."""
    if stored.is_meta:  # has no values
        return
    found = stored.flatten().tolist()
    if found == expected:
        return
    if len(found) < 4 or not 0 <= found[1] < len(SHARINGS) or not all(type(number) is int for number in found):
        raise ValueError(
            f"the checkpoint is damaged or of another program: {where}.signature is {found[:8]}; expected integers for "
            "the projection, the sharing mode, n and k of each head"
        )
    raise ValueError(
        f"the checkpoint does not fit the model: {where} was trained with {_describe(found)}, but "
        f"the model has {_describe(expected)}; build the model with the checkpoint's settings"
    )


def _describe(signature: list[int]) -> str:
    kind, sharing, n, *dims = signature
    options = projection_options(kind)
    k = f"{dims[0]} in each of {len(dims)} heads" if len(set(dims)) == 1 else str(dims)
    names = "projection={projection}, short_inputs={short_inputs}, "
    if not options["projection"].endswith("pool"):
        names += f"sharing={SHARINGS[sharing]}, row_weights={{row_weights}}, projection_step={{projection_step:g}}, "
    if options["projection"] == "convolution":
        names += "kernel_strides={kernel_strides}, "
    return f"{names.format(**options)}max_positions (n) = {n}, projected_dim (k) = {k}"

"""The signature of a layer: integers in the state dict that encode the options of its attention.

The shapes of the weights do not always determine n, k and the sharing mode: pooling has no weights, and a convolution
has the same shapes before and after W. Without the signature, a checkpoint could be loaded into a model that silently
computes another function. It is a tensor, because tools that average or convert checkpoints expect tensors.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .settings import PROJECTIONS, ROW_WEIGHTS, SHARINGS, SHORT_INPUTS, LinformerSettings

_KINDS = {"projection": (PROJECTIONS, 4), "row_weights": (ROW_WEIGHTS, 2), "short_inputs": (SHORT_INPUTS, 2)}
"""Values of options, and the number that the lowest digits of a kind have room for. That must stay as it is:
checkpoints store kinds. Values beyond that many are encoded in the highest digits."""
_STEPS = 10**6
"""Resolution of ``projection_step`` in a signature."""
_STRIDES = 10**6
"""More than ``kernel_strides`` can be: it is at most k."""
_TIMES = 10
"""How many times as many values as the lowest digit a kind has room for."""
_RADICES = (*(room for _, room in _KINDS.values()), _STEPS, _STRIDES, *[_TIMES] * len(_KINDS))
"""Of the digits of a kind, the lowest first."""


def signature_of(settings: LinformerSettings, layer: int) -> list[int]:
    """[kind, sharing, n, k of head 1, ..., k of head H].

    The kind encodes the projection and the options that were added later. Those add nothing for the values that
    correspond to models from before they existed. The sharing mode of pooling is always ``none``.
    """
    places = [divmod(values.index(getattr(settings, name)), room) for name, (values, room) in _KINDS.items()]
    step = _STEPS - round(_STEPS * settings.projection_step)
    digits = (*(low for _, low in places), step, settings.kernel_strides - 1, *(high for high, _ in places))
    kind = 0
    for digit, radix in zip(reversed(digits), reversed(_RADICES), strict=True):
        kind = kind * radix + digit
    sharing = "none" if settings.is_pooling else settings.sharing
    return [kind, SHARINGS.index(sharing), settings.max_positions, *settings.dims[layer]]


def projection_options(kind: int) -> dict[str, Any]:
    """The options that the kind, the first number of a signature, encodes.

    Raises:
        ValueError: it has a value that this version does not know.
    """
    rest, digits = kind, []
    for radix in _RADICES:
        rest, digit = divmod(rest, radix)
        digits.append(digit)
    count = len(_KINDS)
    low, (step, strides), high = digits[:count], digits[count:-count], digits[-count:]
    options: dict[str, Any] = {"projection_step": (_STEPS - step) / _STEPS, "kernel_strides": strides + 1}
    for (name, (values, room)), first, times in zip(_KINDS.items(), low, high, strict=True):
        index = first + room * times
        if rest or index >= len(values):
            raise ValueError(
                f"{kind} in its signature is no {name} that this version knows: the checkpoint is damaged, or of a "
                "newer version; update linformer-fairseq"
            )
        options[name] = values[index]
    return options


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

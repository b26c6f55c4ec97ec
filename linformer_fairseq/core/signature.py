"""What a layer's weights mean, in a few integers that travel in the state dict.

Neither n, k nor the sharing can be told from the shapes in every mode: pooling has no weights at all, and a
convolution has equal shapes before and after W. A checkpoint loaded into another model would then silently
compute something else. Integers in a tensor, not text: tools that average or convert checkpoints expect tensors.
"""

from __future__ import annotations

from torch import Tensor

from .settings import PROJECTIONS, SHARINGS, LinformerSettings


def signature_of(settings: LinformerSettings, layer: int) -> list[int]:
    """[projection, sharing, n, k of head 1, ..., k of head H]. Pooling is the same in every sharing mode: none."""
    sharing = "none" if settings.is_pooling else settings.sharing
    head = [PROJECTIONS.index(settings.projection), SHARINGS.index(sharing), settings.max_positions]
    return head + list(settings.dims[layer])


def check_signature(stored: Tensor, expected: Tensor, where: str) -> None:
    """Raises ValueError, naming both sides, if a checkpoint was not trained with the model's settings."""
    if stored.tolist() != expected.tolist():
        raise ValueError(
            f"the checkpoint does not fit the model: {where} was trained with {_describe(stored.tolist())}, but "
            f"the model has {_describe(expected.tolist())}; build the model with the checkpoint's settings"
        )


def _describe(signature: list[int]) -> str:
    projection, sharing, n, *dims = signature
    k = f"{dims[0]} in each of {len(dims)} heads" if len(set(dims)) == 1 else str(dims)
    names = f"projection={PROJECTIONS[projection]}, "
    if not PROJECTIONS[projection].endswith("pool"):
        names += f"sharing={SHARINGS[sharing]}, "
    return f"{names}max_positions (n) = {n}, projected_dim (k) = {k}"

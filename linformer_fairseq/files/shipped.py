"""The models that come with the package: folders as `linformer checkpoint release` makes them."""

from pathlib import Path

WEIGHTS = "model.safetensors"
"""Name of the weights in a released or converted model's folder."""
_SHIPPED = Path(__file__).parent.parent / "weights"


def shipped_models() -> list[str]:
    """List the names of the models that come with the package."""
    return sorted(path.parent.name for path in _SHIPPED.glob(f"*/{WEIGHTS}"))


def shipped_folder(name: str) -> Path:
    """Return the folder of a model that comes with the package.

    Args:
        name: one of `shipped_models`.
    """
    return _SHIPPED / name

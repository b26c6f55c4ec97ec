"""Layers with torch.compile."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from torch import nn

_PROGRAMS = 32
"""Graphs per layer: with and without gradients, padding and autocast, one or several sequences and positions, each
order of products."""


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Enables torch.compile for layers that use `encoder_layer`; the names in the state dict do not change.

    The two steps of a layer are compiled, not the layer, so that it still runs in blocks of positions and equal layers
    share the compiled code.

    Raises:
        ValueError: as in `prepare_compiler`, or a layer is of another kind.
    """
    layers = list(layers)
    if others := [type(layer).__name__ for layer in layers if not hasattr(layer, "compiled")]:
        raise ValueError(
            f"{others[0]} has no steps to compile; expected layers such as LinformerEncoderLayer (for attention alone, "
            "use torch.compile, after prepare_compiler)"
        )
    prepare_compiler(len(layers))
    for layer in layers:
        layer.compiled = True  # type: ignore[assignment]


def prepare_compiler(layers: int) -> None:
    """Prepares torch.compile for a number of layers, and for a torch that is installed in a path with a space.

    Raises:
        ValueError: the path of torch's compilation cache contains a space; or that of torch does, and so does that of
            the temporary folder.
    """
    import torch._dynamo  # here, because it takes a second that nothing else of the encoder needs

    if not torch.cuda.is_available():
        _check_cache()
        _hide_blanks(Path(torch.__file__).parent)
    config = torch._dynamo.config
    # torch counts the graphs of all layers of a process together: it stops compiling after 8 of the same objects, and
    # after 256 of any. Before 2.7, the limits had other names.
    first = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"
    for limit in (first, f"accumulated_{first}"):
        setattr(config, limit, getattr(config, limit) + _PROGRAMS * layers)


def _check_cache() -> None:
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    name, folder = ("TORCHINDUCTOR_CACHE_DIR", cache) if cache else ("TMPDIR", tempfile.gettempdir())
    if " " in folder:
        raise ValueError(
            f"torch.compile cannot make code for this CPU: it goes to {name}, which is {folder!r}, and torch's calls "
            f"of a compiler break at the blank; set {name} to a folder without one, or leave compile_encoder off"
        )


def _hide_blanks(folder: Path) -> None:
    """Makes torch's compiler commands for CPUs, which break at spaces, use a symbolic link without a space.

    Args:
        folder: installation folder of torch.

    Raises:
        ValueError: no link without a space can be made.
    """
    if " " not in str(folder):
        return
    from torch.utils import cpp_extension  # which loads setuptools

    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    link = Path(tempfile.gettempdir(), f"linformer-torch-{os.getuid()}-{name}")
    # The path must not change, because it is part of the key of torch's cache. Links of other users are not followed.
    with contextlib.suppress(FileExistsError):
        link.symlink_to(folder)
    if " " in str(link) or link.lstat().st_uid != os.getuid() or not link.samefile(folder):
        raise ValueError(
            f"torch.compile cannot make code for this CPU: torch lies in {str(folder)!r}, its calls of a compiler "
            f"break at the blank, and {str(link)!r} cannot stand for it; set TMPDIR to a folder of your own without a "
            "blank, or leave compile_encoder off"
        )
    cpp_extension._TORCH_PATH = str(link)
    cpp_extension.TORCH_LIB_PATH = str(link / "lib")

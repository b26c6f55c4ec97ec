"""Layers through torch.compile."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
import torch._dynamo
from torch import nn
from torch.utils import cpp_extension

_PROGRAMS = 16
"""Graphs of one layer: with and without gradients, for one sequence and several, each order of products, autocast."""


def compile_layers(layers: Iterable[nn.Module]) -> None:
    """Lets layers that are made of `encoder_layer` run through torch.compile; the state dict keeps its names.

    What is compiled are the two steps of a layer, so that it keeps its blocks, and equal layers share programs.

    Raises:
        ValueError: torch's cache of compiled code lies in a folder with a blank; or torch does, and so do temporary
            files.
    """
    layers = list(layers)
    prepare_compiler(len(layers))
    for layer in layers:
        layer.compiled = True  # type: ignore[assignment]


def prepare_compiler(layers: int) -> None:
    """Makes torch.compile work wherever torch lies, and for that many layers.

    Raises:
        ValueError: torch's cache of compiled code lies in a folder with a blank; or torch does, and so do temporary
            files.
    """
    if not torch.cuda.is_available():
        _check_cache()
        _hide_blanks(Path(torch.__file__).parent)
    config = torch._dynamo.config
    # torch counts the programs of all layers together, and gives up after 8.
    limit = "recompile_limit" if hasattr(config, "recompile_limit") else "cache_size_limit"  # its name before 2.7
    setattr(config, limit, max(getattr(config, limit), _PROGRAMS * layers))


def _check_cache() -> None:
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    name, folder = ("TORCHINDUCTOR_CACHE_DIR", cache) if cache else ("TMPDIR", tempfile.gettempdir())
    if " " in folder:
        raise ValueError(
            f"torch.compile cannot make code for this CPU: it goes to {name}, which is {folder!r}, and torch's calls "
            f"of a compiler break at the blank; set {name} to a folder without one, or leave compile_encoder off"
        )


def _hide_blanks(folder: Path) -> None:
    """Lets torch call the compiler for CPUs by a path without a blank, at which its command lines break.

    Args:
        folder: of torch.

    Raises:
        ValueError: no link without a blank can be made.
    """
    if " " not in str(folder):
        return
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    link = Path(tempfile.gettempdir(), f"linformer-torch-{os.getuid()}-{name}")
    # The path must stay the same, as torch's cache of compiled code goes by it; nobody else's link is followed.
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

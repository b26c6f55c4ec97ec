"""The device and data type given by the options, and the provenance of results."""

from __future__ import annotations

import importlib.util
import shlex
import sys
from typing import Any

import torch

from benchmarks import arguments, measuring
from benchmarks.efficiency import memory
from benchmarks.efficiency.models.registry import DISTRIBUTIONS
from linformer_fairseq.files.errors import UserError

DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in arguments.DTYPES}


def device_of(name: str) -> torch.device:
    """A device by its name.

    Raises:
        UserError: it is neither cpu nor cuda, or it is not available.
    """
    if name not in ("cpu", "cuda"):
        raise UserError(f"--device is {name!r}; expected cpu or cuda (CUDA_VISIBLE_DEVICES=N chooses a GPU)")
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError(f"--device {name}: torch {torch.__version__} finds no CUDA device here; use cpu")
    return torch.device(name)


def threads(number: int | None) -> int:
    """Set the number of torch's CPU threads (None: torch's default); returns the number."""
    if number is not None:
        torch.set_num_threads(number)
    return torch.get_num_threads()


def gpu(device: torch.device) -> str:
    """The GPU's name and memory; empty on a CPU."""
    if device.type != "cuda":
        return ""
    properties = torch.cuda.get_device_properties(device)
    return f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB"


def provenance(device: torch.device, dtype: str) -> dict[str, Any]:
    """`measuring.provenance`, with the GPU, the threads and the data type."""
    installed = [name for module, name in DISTRIBUTIONS.items() if importlib.util.find_spec(module)]
    words = sys.argv[2:] if sys.argv[1:2] == ["benchmark"] else sys.argv[1:]  # `linformer benchmark`, or the module
    made = measuring.provenance(shlex.join(["linformer", "benchmark", *words]), ["torch", *installed])
    if gpu(device):
        made["hardware"] = f"{gpu(device)}, CUDA {torch.version.cuda}; {made['hardware']}"
    return made | {"gpu": gpu(device), "threads": torch.get_num_threads(), "device": str(device), "dtype": dtype}


def peak_limit(device: torch.device, gigabytes: float | None) -> float | None:
    """Limit in bytes for weights and a pass: as given, or 80 % of the free memory on a CPU, or None on a GPU.

    Raises:
        UserError: the given limit is not more than 0.
    """
    if gigabytes is not None and gigabytes <= 0:
        raise UserError(f"--memory-limit is {gigabytes:g}; expected more than 0")
    if gigabytes is not None:
        return gigabytes * 2**30
    return None if device.type == "cuda" else 0.8 * memory.available()

"""The device of a command."""

from __future__ import annotations

import re
import sys

import torch

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.processor import has_bfloat16

_NAME = re.compile(r"cpu|cuda(:\d+)?")


def device_of(name: str | None, bf16: bool = False) -> torch.device:
    """The device of that name; None: a GPU if there is one, otherwise the CPU.

    Args:
        name: of the device.
        bf16: whether it will compute in bfloat16. A warning is printed if that is slower than float32.

    Raises:
        UserError: there is no such device.
    """
    device = _named(name)
    if bf16 and device.type == "cpu" and has_bfloat16() is False:
        print("warning: --bf16: this processor has no instructions for bfloat16; float32 is faster", file=sys.stderr)
    return device


def _named(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not _NAME.fullmatch(name):
        raise UserError(f"--device {name}: expected cpu, cuda, or cuda:N for GPU number N, counted from 0")
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"--device {name}: cannot be used here: {str(error).splitlines()[0]}") from None
    return torch.device(name)

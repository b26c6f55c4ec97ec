"""The device of a command."""

from __future__ import annotations

import re

import torch

from linformer_fairseq.files.errors import UserError

_NAME = re.compile(r"cpu|cuda(:\d+)?")


def device_of(name: str | None) -> torch.device:
    """The device of that name; None: a GPU if there is one, otherwise the CPU.

    Raises:
        UserError: there is no such device.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not _NAME.fullmatch(name):
        raise UserError(f"--device {name}: expected cpu, cuda, or cuda:N for GPU number N, counted from 0")
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"--device {name}: cannot be used here: {str(error).splitlines()[0]}") from None
    return torch.device(name)

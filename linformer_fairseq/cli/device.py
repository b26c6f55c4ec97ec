"""The option --device of commands that compute."""

from __future__ import annotations

import torch

from linformer_fairseq.files.errors import UserError


def choose_device(name: str | None) -> torch.device:
    """The device of a name; by default a GPU if there is one.

    Raises:
        UserError: there is no such device.
    """
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"--device {name}: {str(error).splitlines()[0]}") from None
    return device

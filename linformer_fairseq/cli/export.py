"""`linformer export` and `linformer import`: models in the formats of other libraries, and back."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

from linformer_fairseq.files.errors import UserError

# The module in `exporting` and the function of each format: each needs other packages.
_EXPORTERS = {
    "hf": ("hugging_face", "export_folder"),
    "onnx": ("onnx", "export_onnx"),
    "torch": ("program", "export_program"),
}


def run(arguments: argparse.Namespace) -> int:
    """Write the folder and print its files; returns the exit status."""
    given: dict[str, Any] = dict(vars(arguments))
    command, format_ = given.pop("command"), given.pop("format")
    module, function = ("hugging_face", "import_folder") if command == "import" else _EXPORTERS[format_]
    try:
        paths = getattr(importlib.import_module(f"linformer_fairseq.exporting.{module}"), function)(**given)
    except ValueError as error:  # CheckpointError among them
        raise UserError(str(error)) from None
    for path in paths:
        print(f"{path}: {path.stat().st_size:,} bytes")
    return 0

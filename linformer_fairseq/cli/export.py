"""`linformer export` and `linformer import`: models in the formats of other libraries, and back."""

from __future__ import annotations

import argparse

from linformer_fairseq.exporting.hugging_face import export_folder, import_folder
from linformer_fairseq.files.errors import UserError


def run(arguments: argparse.Namespace) -> int:
    """Write the folder and print its files; returns the exit status."""
    try:
        if arguments.command == "import":
            paths = import_folder(arguments.folder, arguments.out, arguments.data)
        else:
            paths = export_folder(arguments.checkpoint, arguments.out, arguments.data)
    except ValueError as error:  # CheckpointError among them
        raise UserError(str(error)) from None
    for path in paths:
        print(f"{path}: {path.stat().st_size:,} bytes")
    return 0

"""`linformer card`: a model card of what a checkpoint and the files beside it say."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from linformer_fairseq.checkpoints.released_folder import MODELING, TRANSFORMERS_CONFIG, files_read
from linformer_fairseq.cli.texts import write_lines
from linformer_fairseq.exporting.model_card import model_card
from linformer_fairseq.exporting.trained import read_model
from linformer_fairseq.files.atomic import check_output
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.shipped import WEIGHTS


def run(arguments: argparse.Namespace) -> int:
    """Print or write the card; returns the exit status."""
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    if arguments.out:
        model = files_read(arguments.checkpoint, arguments.data)
        check_output("--out", arguments.out, *model, *arguments.results)
    try:
        card = model_card(
            read_model(arguments.checkpoint),
            arguments.data,
            arguments.results,
            arguments.license,
            arguments.language,
            **_written_for(arguments.out),
        )
    except ValueError as error:  # CheckpointError among them
        raise UserError(str(error)) from None
    write_lines(arguments.out, card.splitlines())
    return 0


def _written_for(out: Path | None) -> dict[str, Path]:
    """The folder of a released or exported model that the card will lie in, by argument: its code is for that."""
    folder = out.absolute().parent if out else None
    if folder is None or not (folder / WEIGHTS).is_file():
        return {}
    if not (folder / TRANSFORMERS_CONFIG).is_file():
        return {"released": folder}
    return {"exported": folder} if (folder / MODELING).is_file() else {}

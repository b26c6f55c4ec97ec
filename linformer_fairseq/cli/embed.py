"""`linformer embed`: vectors of texts."""

from __future__ import annotations

import argparse
from functools import partial

from linformer_fairseq.cli.loading import load_encoder
from linformer_fairseq.cli.texts import TextStream
from linformer_fairseq.files.cuts import WINDOWS
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.prediction.options import TOKENS
from linformer_fairseq.prediction.vectors import open_vectors, outputs_of


def run(arguments: argparse.Namespace) -> int:
    """Write the vectors of every text; returns the exit status."""
    tokens = arguments.pooling == TOKENS
    stream = TextStream(arguments, *outputs_of(arguments.out, tokens)[1:])
    hub = load_encoder(arguments)
    if tokens and hub.treatment(arguments.long) == WINDOWS:
        raise UserError(
            "--pooling tokens: windows, as --long or this model's training data have them, are averaged, and vectors "
            "of tokens cannot be; give --long head, or another --pooling"
        )
    embed = partial(
        hub.embed,
        pooling=arguments.pooling,
        long=arguments.long,
        batch_tokens=arguments.batch_tokens,
        keep_errors=True,
    )
    with open_vectors(arguments.out, hub.width, tokens) as out:
        for identifier, found in stream.results(embed, "embedding"):
            out.add(identifier, None if isinstance(found, ValueError) else found)
    return stream.finish(hub.longest, hub.treatment(arguments.long))

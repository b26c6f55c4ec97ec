"""`linformer fill-mask`: the most probable tokens for the mask in each text."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from linformer_fairseq.cli.loading import load_encoder
from linformer_fairseq.cli.texts import Results, TextStream, json_line, write_lines
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.tsv import tsv_line


def run(arguments: argparse.Namespace) -> int:
    """Write the candidates of every text; returns the exit status."""
    stream = TextStream(arguments)
    hub = load_encoder(arguments)
    if getattr(hub.model, "classification_heads", {}):
        raise UserError(
            f"{arguments.checkpoint}: was finetuned for classes, so that its predictions of tokens mean little; "
            "expected a pretrained model (`linformer predict` takes a finetuned one)"
        )
    if arguments.top > hub.candidates:
        raise UserError(f"--top {arguments.top}: expected at most {hub.candidates}, the number of tokens of the model")
    fill = partial(hub.fill_masks, topk=arguments.top, batch_tokens=arguments.batch_tokens, keep_errors=True)
    results = stream.results(fill, "filling masks")
    write_lines(arguments.out, _json_lines(results) if arguments.jsonl else _table(results))
    return stream.finish()


def _table(results: Results) -> Iterator[str]:
    """A line for each candidate; one with only the id for an invalid text."""
    yield tsv_line(["id", "token", "probability", "text"])
    for identifier, found in results:
        if isinstance(found, ValueError):
            yield tsv_line([identifier, "", "", ""])
            continue
        for text, probability, token in found:
            yield tsv_line([identifier, token, f"{probability:.6f}", text])


def _json_lines(results: Results) -> Iterator[str]:
    for identifier, found in results:
        if isinstance(found, ValueError):
            yield json_line(id=identifier, error=str(found))
        else:
            names = ("text", "probability", "token")
            yield json_line(id=identifier, candidates=[dict(zip(names, one, strict=True)) for one in found])

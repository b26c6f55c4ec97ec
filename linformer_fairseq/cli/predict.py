"""`linformer predict`: the classes of texts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from linformer_fairseq.cli.loading import load_finetuned
from linformer_fairseq.cli.texts import Results, TextStream, json_line, write_lines
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.tsv import tsv_line


def run(arguments: argparse.Namespace) -> int:
    """Write the class of every text; returns the exit status."""
    stream = TextStream(arguments)
    hub, head = load_finetuned(arguments)
    try:
        labels = hub.labels(head)
    except ValueError as error:
        raise UserError(str(error)) from error
    if len(labels) < 2:
        raise UserError(f"{arguments.checkpoint}: its head {head!r} has a single output, which is no class")
    results = stream.results(
        partial(hub.classify, head=head, long=arguments.long, batch_tokens=arguments.batch_tokens, keep_errors=True),
        "predicting",
    )
    lines = _json_lines(results, labels) if arguments.jsonl else _table(results, labels if arguments.scores else [])
    write_lines(arguments.out, lines)
    return stream.finish(hub.longest, hub.treatment(arguments.long), hub.inputs.texts)


def _table(results: Results, labels: list[str]) -> Iterator[str]:
    """Lines of id, label and probability, and of the probabilities of ``labels``; only the id of an invalid text."""
    yield tsv_line(["id", "label", "probability", *labels])
    for identifier, found in results:
        if isinstance(found, ValueError):
            cells = [""] * (2 + len(labels))
        else:
            scores = [found.probability, *(found.probabilities if labels else [])]
            cells = [found.label, *(f"{score:.6f}" for score in scores)]
        yield tsv_line([identifier, *cells])


def _json_lines(results: Results, labels: list[str]) -> Iterator[str]:
    """The same as JSON, with all probabilities, and the error of an invalid text."""
    for identifier, found in results:
        if isinstance(found, ValueError):
            yield json_line(id=identifier, error=str(found))
        else:
            scores = {label: round(float(x), 6) for label, x in zip(labels, found.probabilities, strict=True)}
            yield json_line(id=identifier, label=found.label, probability=scores[found.label], scores=scores)

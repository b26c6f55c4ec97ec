"""What `linformer analyse limits` measured, as Markdown."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from linformer_fairseq.analysis.limits import PLACES
from linformer_fairseq.analysis.record import Record, origin_line
from linformer_fairseq.files.markdown import markdown_table, picture

FIGURE = "limits"


def limits_section(record: Record, where: Path) -> Iterator[str]:
    """Both tables with their explanation and figure."""
    settings, encoder = record["settings"], record["encoder"]
    folder = f" ({where.name})" if where.name else ""
    yield f"## Length and position: {settings['model']}{folder}"
    yield ""
    yield (
        f"{settings['model']} ({encoder['kind']}, {encoder['layers']} layers, {encoder['heads']} heads), masked tokens "
        f"of {settings['sentences']:,} blocks of {settings['length']:,} tokens of {settings['data']}, of the "
        f"{record['available_blocks']:,} in the text, cut into pieces of T tokens:"
    )
    yield ""
    yield from length_table(record)
    yield ""
    alone = settings["length"] - max(settings["shifts"])
    yield (
        f"The first {alone:,} tokens of each block behind s tokens of another block. *Inserted*: nothing is behind "
        "them, so that the input is s tokens longer. *Moved*: other tokens are behind them, so that all inputs have "
        f"{settings['length']:,} tokens. Change is |f - f₀| / |f₀| for the features f of the text in the last layer, "
        "and f₀ for s = 0:"
    )
    yield ""
    yield from shift_table(record)
    yield ""
    yield picture(FIGURE, where / f"{FIGURE}.png")
    yield ""
    yield origin_line(record["provenance"])


def length_table(record: Record) -> list[str]:
    """Predictions by the length of the input."""
    dense = record["encoder"]["is_dense"]
    rows = [["T", "columns of P" if dense else "projected rows", "masked tokens", "accuracy", "perplexity"]]
    for row in record["lengths"]:
        rows.append([f"{row['length']:,}", f"{row['rows']:,}", f"{row['masked']:,}", *_quality(row)])
    return markdown_table(rows)


def shift_table(record: Record) -> list[str]:
    """Predictions by the position of the text."""
    rows = [["s", *(f"{what}, {place}" for place in PLACES for what in ("accuracy", "perplexity", "change"))]]
    for row in record["shifts"]:
        cells = [(*_quality(row[place]), f"{100 * row[place]['change']:.1f} %") for place in PLACES]
        rows.append([f"{row['shift']:,}", *itertools.chain(*cells)])
    return markdown_table(rows)


def _quality(row: Record) -> tuple[str, str]:
    return f"{100 * row['accuracy']:.1f} %", f"{row['perplexity']:,.1f}"

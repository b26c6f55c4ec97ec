"""What `linformer analyse insertion` measured, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from linformer_fairseq.analysis.insertion import PLACES
from linformer_fairseq.analysis.record import Record, origin_line
from linformer_fairseq.files.markdown import markdown_table, picture

FIGURE = "insertion"
WHERE = {"front": "in front of the text", "behind": "behind the text"}


def insertion_section(record: Record, where: Path) -> Iterator[str]:
    """The table with its explanation and figure."""
    settings, encoder = record["settings"], record["encoder"]
    yield f"## Inserted tokens: {settings['model']} on {settings['data']}"
    yield ""
    yield (
        f"{settings['model']} ({encoder['kind']}, {encoder['layers']} layers, {encoder['heads']} heads, n = "
        f"{encoder['max_positions']:,}), {record['examples']:,} examples of {settings['split']} of {settings['data']}, "
        f"of the {record['fitting_examples']:,} that fit into n with the most tokens. s tokens of other examples are "
        "inserted in front of the text, or behind it, where they do not move it. *Changed*: the share of examples "
        "whose class is not that of the text alone:"
    )
    yield ""
    yield from insertion_table(record)
    yield ""
    yield picture(FIGURE, where / f"{FIGURE}.png")
    yield ""
    yield origin_line(record["provenance"])


def insertion_table(record: Record) -> list[str]:
    """Accuracy and changed classes by s."""
    rows = [["s", *(f"{what}, {WHERE[place]}" for place in PLACES for what in ("accuracy", "changed"))]]
    rows.append(["0", *[_percent(record["accuracy"]), "-"] * len(PLACES)])
    for row in record["shifts"]:
        cells = [_percent(row[place][what]) for place in PLACES for what in ("accuracy", "changed")]
        rows.append([f"{row['shift']:,}", *cells])
    return markdown_table(rows)


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"

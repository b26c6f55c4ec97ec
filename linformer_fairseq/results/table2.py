"""The paper's Table 2 and our runs: accuracy on four development sets."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from linformer_fairseq.results.paper import SOURCE, TABLE2, TABLE2_NOTES, TASKS, PaperRow
from linformer_fairseq.results.rows import Row
from linformer_fairseq.results.selection import (
    changed_settings,
    counted_windows,
    identity,
    is_untrained,
    model_name,
    newest,
    provenance,
    variant,
)
from linformer_fairseq.results.tables import Table

_LEGEND = (
    "Ours: the best validation accuracy of each run; of each task's learning rates the one with the highest median "
    "over seeds, among those with the most seeds done. Both are chosen on the data that are reported. In brackets: "
    "lowest to highest, number of seeds, learning rate. Averages only where all four tasks are there."
)


@dataclass(frozen=True)
class Cell:
    """One model on one task."""

    median: float | None
    """Accuracy in percent; None without a finished run."""
    text: str


def table2(rows: Iterable[Row]) -> tuple[list[Table], list[str]]:
    """The tables and the notes below them.

    Args:
        rows: of all runs; only finetunings on the table's tasks are used.

    Returns:
        The paper's table with our results, one table for each other scale of our runs; and notes.
    """
    runs, notes = newest(row for row in rows if row.stage == "finetuning" and row.task in TASKS)
    models: dict[tuple[object, ...], list[Row]] = {}
    for row in runs:
        key = row.scale.label, row.pretrained, identity(row.model), variant(row)
        models.setdefault(key, []).append(row)
    tables = [_beside_paper([group for group in models.values() if paper_row(group[0])], notes)]
    scales: dict[str, list[list[Row]]] = {}
    for group in models.values():
        if not paper_row(group[0]):
            scales.setdefault(group[0].scale.label, []).append(group)
    for label, groups in sorted(scales.items(), key=lambda item: (is_untrained(item[1][0][0]), item[0])):
        tables.append(_other_scale(label, groups, notes))
    return tables, [
        f"Paper: {SOURCE}, Table 2.",
        *TABLE2_NOTES,
        _LEGEND,
        *notes,
        *changed_settings(runs),
        *counted_windows(runs),
        *_about(runs),
    ]


def paper_row(row: Row) -> PaperRow | None:
    """The paper's row that a finetuning belongs to; None if it belongs to none, or is of another scale or model."""
    model = row.model
    if not row.scale.paper or model.projection not in (None, "linear") or variant(row):
        return None
    found = (model.n, row.table2, model.k, model.sharing)
    return next((p for p in TABLE2 if p.reproduced and (p.n, p.name, p.k, p.sharing) == found), None)


def _beside_paper(groups: Sequence[list[Row]], notes: list[str]) -> Table:
    lines = [["n", "Model", "Source", *TASKS.values(), "Average"]]
    for paper in TABLE2:
        scores = [f"{score:.1f}" for score in paper.scores]
        lines.append([str(paper.n), paper.name, "paper", *scores, f"{paper.average:.2f}"])
        if paper.reproduced:
            ours = [group for group in groups if paper_row(group[0]) == paper] or [[]]
            for group in ours:
                name = f"ours ({_start(group, ours)})" if len(ours) > 1 else "ours"
                lines.append(["", "", name, *_scores(group, notes)])
    return Table("Accuracy on the development sets in percent, at the paper's scale", lines)


def _other_scale(label: str, groups: Sequence[list[Row]], notes: list[str]) -> Table:
    groups = sorted(groups, key=lambda group: (group[0].model.n, group[0].model.family != "roberta", _name(group)))
    doubled = {name for name, count in Counter(_name(group) for group in groups).items() if count > 1}
    lines = [["n", "Model", *TASKS.values(), "Average"]]
    for group in groups:
        start = f" ({_start(group, groups)})" if _name(group) in doubled else ""
        name = model_name(group[0].model) + start + variant(group[0])
        lines.append([str(group[0].model.n), name, *_scores(group, notes)])
    scale = groups[0][0].scale
    if is_untrained(groups[0][0]):
        kind, label = "without pretraining", f"{scale.layers} layers x {scale.width}"
    else:
        kind = "not in the paper's table" if scale.paper else "at another scale than the paper's"
    return Table(f"Accuracy on the development sets in percent, ours {kind}: {label}", lines)


def _name(group: Sequence[Row]) -> str:
    return model_name(group[0].model, with_n=True) + variant(group[0])


def _start(group: Sequence[Row], groups: Sequence[list[Row]]) -> str:
    """The pretraining that a group started from, and what sets it apart from others of the same pretraining."""
    start = group[0].pretrained
    if start is None:
        return "pretraining unknown"
    alike = [other[0] for other in groups if other and other[0].pretrained and other[0].pretrained.run == start.run]
    parts = [start.run] if start.run else []
    if len({row.pretrained for row in alike}) > 1:
        parts.append(start.checkpoint or "checkpoint unknown")
    if len({identity(row.model) for row in alike}) > 1:
        parts += [f"{option}={value}" for option, value in group[0].model.options.items()]
    return ", ".join(parts)


def _scores(group: Sequence[Row], notes: list[str]) -> list[str]:
    """The cells of one model's row, with the average."""
    cells = [_cell([row for row in group if row.task == task], notes) for task in TASKS]
    medians = [cell.median for cell in cells if cell.median is not None]
    average = f"{statistics.mean(medians):.2f}" if len(medians) == len(TASKS) else "-"
    return [*(cell.text for cell in cells), average]


def _cell(runs: Sequence[Row], notes: list[str]) -> Cell:
    """The median over seeds at the best learning rate."""
    scored = [(row, row.accuracy.best) for row in runs if row.finished and row.accuracy is not None]
    if len(scored) < len(runs):
        names = ", ".join(row.name for row in runs if row not in [done for done, _ in scored])
        notes.append(f"Not counted, unfinished or without an accuracy: {names}.")
    if not scored:
        return Cell(None, f"- (0 of {len(runs)} runs done)" if runs else "- (0 runs)")
    longest = max(row.max_update for row, _ in scored)
    if shorter := [row for row, _ in scored if row.max_update < longest]:
        names = ", ".join(row.name for row in shorter)
        notes.append(f"Not counted, for others of that model and task take {longest:,} updates: {names}.")
    newest_of: dict[tuple[float | None, int], tuple[Row, float]] = {}
    for row, accuracy in sorted(scored, key=lambda pair: pair[0].started):
        if row.max_update == longest:
            if older := newest_of.get((row.lr, row.seed)):
                same = "the same model, task, rate and seed"
                notes.append(f"Not counted, for {row.name} has {same} and is newer: {older[0].name}.")
            newest_of[row.lr, row.seed] = row, accuracy
    rates: dict[float | None, list[float]] = {}
    for (tried, _), (_, accuracy) in newest_of.items():
        rates.setdefault(tried, []).append(accuracy)
    # A learning rate with fewer seeds could be the best by chance.
    most = max(map(len, rates.values()))
    lr, values = max(
        ((lr, values) for lr, values in rates.items() if len(values) == most),
        key=lambda pair: (statistics.median(pair[1]), -(pair[0] or 0)),
    )
    median = statistics.median(values)
    spread = f"{_percent(min(values))} to {_percent(max(values))}, " if len(values) > 1 else ""
    rate = "" if lr is None else f", {lr:g}".replace("e-0", "e-")
    return Cell(median, f"{_percent(median)} ({spread}{len(values)}{rate})")


def _percent(value: float) -> str:
    """A percentage with one decimal, as fairseq logs it, or two if the median of an even number of seeds has two."""
    return f"{value:.2f}".removesuffix("0")


def _about(runs: Sequence[Row]) -> list[str]:
    """The lengths of the finetunings, and our provenance."""
    if not runs:
        return ["Ours: no finetuning runs."]
    lengths = []
    for task, title in TASKS.items():
        if updates := sorted({row.max_update for row in runs if row.task == task}):
            lengths.append(f"{title} {' and '.join(f'{count:,}' for count in updates)}")
    return [f"Updates in finetuning: {', '.join(lengths)}.", f"Ours: {provenance(runs)}"]

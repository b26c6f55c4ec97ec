"""The paper's Figure 3 from our runs: assigns curves to panels and figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from linformer_fairseq.results.curves import FIRST_SHARE, Curve, Figure, Panel, diverged, points
from linformer_fairseq.results.paper import PANELS, PAPER_LAYERS, PAPER_UPDATES, PAPER_WIDTH, SHARINGS, SOURCE
from linformer_fairseq.results.rows import Row, of_planned
from linformer_fairseq.results.selection import changed_settings, distinct_names, model_name, newest, provenance


def figures(rows: Iterable[Row]) -> tuple[list[Figure], list[str]]:
    """The figures to draw.

    Args:
        rows: of all runs; only pretrainings with a panel (run.paper.figure3) are used.

    Returns:
        A figure for each scale, or an empty one if there are no runs; and remarks.
    """
    rows = list(rows)
    pretrainings = [row for row in rows if row.stage == "pretraining"]
    runs, notes = newest(row for row in pretrainings if set(row.figure3) & PANELS.keys())
    scales: dict[tuple[object, ...], list[Row]] = {}
    for row in runs:
        if points(row):
            scale = row.scale
            scales.setdefault((scale.layers, scale.width, scale.max_update, scale.tokens_per_update), []).append(row)
        else:
            notes.append(f"{row.name}: no validation in its log, so it has no curve.")
    if not scales:
        if rows and not pretrainings:
            notes.append("there is no pretraining among the runs.")
        elif pretrainings and not runs:
            notes.append(
                f"none of the {len(pretrainings)} pretrainings is in a panel: run.paper.figure3 says where a run "
                "belongs, as in linformer pretrain run.paper.figure3=[a]."
            )
        empty = [Panel(_title(panel, is_paper=True), []) for panel in PANELS]
        return [Figure("figure3", f"Figure 3 of {SOURCE}", "", empty)], notes
    notes += changed_settings(runs)
    several = sum(map(_is_paper, scales.values())) > 1  # each needs a name of its own
    return sorted((_figure(group, several) for group in scales.values()), key=lambda figure: figure.stem), notes


def _is_paper(group: Sequence[Row]) -> bool:
    """Whether the model's size and the planned updates are the paper's."""
    scale = group[0].scale
    return (scale.layers, scale.width) == (PAPER_LAYERS, PAPER_WIDTH) and (scale.max_update or 0) >= PAPER_UPDATES


def _figure(group: Sequence[Row], several: bool) -> Figure:
    scale = group[0].scale
    tokens = scale.tokens_per_update
    size = f"{scale.layers} layers x {scale.width}, {scale.max_update:,} updates"
    size += f" of {tokens:,} tokens" if tokens else ""
    is_paper = _is_paper(group)
    if not is_paper:
        kind = "at another scale than the paper's"
    else:
        kind = "reproduced" if all(row.scale.paper for row in group) else "at the paper's scale, unfinished"
    stem = f"figure3_{scale.layers}x{scale.width}_{scale.max_update}updates" + (f"_{tokens}tokens" if tokens else "")
    panels = []
    for panel in PANELS:
        runs = sorted((row for row in group if panel in row.figure3), key=_order)
        panels.append(Panel(_title(panel, is_paper), _curves(runs)))
    return Figure(
        stem="figure3" if is_paper and not several else stem,
        title=f"Figure 3 of {SOURCE}, {kind}: {size}",
        caption="Perplexity of masked validation tokens, logarithmic; in brackets the last value. In the first "
        f"{FIRST_SHARE:.0%} of the updates curves may leave the axes. {provenance(group)}",
        panels=panels,
    )


def _title(panel: str, is_paper: bool) -> str:
    varied, fixed, _ = PANELS[panel]
    return f"({panel}) {varied}, {fixed}" if is_paper else f"({panel}) {varied} (in the paper at {fixed})"


def _order(row: Row) -> tuple[object, ...]:
    model = row.model
    k = model.k if isinstance(model.k, int) else 0
    sharing = SHARINGS.index(model.sharing) if model.sharing in SHARINGS else -1
    return model.family != "roberta", model.n, k, sharing, model_name(model), row.seed, row.name


def _curves(runs: Sequence[Row]) -> list[Curve]:
    models: dict[str, list[Row]] = {}
    for row, name in zip(runs, distinct_names(runs), strict=True):
        models.setdefault(name, []).append(row)
    return [
        Curve(_label(name, group) if row is group[0] else None, name, row.model.family == "roberta", points(row))
        for name, group in models.items()
        for row in group
    ]


def _label(name: str, group: Sequence[Row]) -> str:
    """Name and last perplexity; also the number of seeds if there are several, and unfinished runs."""
    last = ", ".join(f"{points(row)[-1][1]:,.4g}{diverged(row)}" for row in group)
    seeds = f", {len(group)} seeds" * (len(group) > 1)
    unfinished = ", ".join(f"{of_planned(row.updates, row.max_update)} updates" for row in group if not row.finished)
    return f"{name}{seeds} ({last}{'; unfinished: ' * bool(unfinished)}{unfinished})"

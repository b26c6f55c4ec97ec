"""Perplexity of any pretrainings: a table of medians over seeds, and curves over tokens and time."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from linformer_fairseq.results.curves import Curve, Figure, Panel, diverged, points
from linformer_fairseq.results.rows import Row
from linformer_fairseq.results.selection import (
    UNKNOWN_OPTIONS,
    changed_settings,
    distinct_names,
    is_untrained,
    newest,
    provenance,
    training_hours,
)
from linformer_fairseq.results.tables import Table, spread

_LEGEND = (
    "Perplexity on masked validation tokens at the end of training, the median over seeds; in brackets lowest to "
    f"highest and number of seeds. {UNKNOWN_OPTIONS} Speed: the median of the log's intervals. Hours are the tokens by "
    "that speed: time in training alone. The last column is the median RoBERTa of the same size and n after as many "
    "hours, in the middle of its own schedule."
)


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed, as far as rows tell."""

    name: str
    rows: list[Row]

    @property
    def is_baseline(self) -> bool:
        """Whether it is a RoBERTa."""
        return self.rows[0].model.family == "roberta"

    @property
    def perplexities(self) -> list[float]:
        """Perplexity at the end of each finished run, where it is finite."""
        return [end for row in self.rows if (end := _end(row)) is not None]

    @property
    def hours(self) -> float | None:
        """Hours of training, the median over the runs whose perplexity counts; None if no log has a speed."""
        return _median(_hours(row, row.updates) for row in self.rows if _end(row) is not None)

    @property
    def curve(self) -> dict[int, float]:
        """The median perplexity at the validations that all runs have."""
        found = [{int(update): perplexity for update, perplexity in points(row)} for row in self.rows]
        common = sorted(set.intersection(*map(set, found)))
        return {update: statistics.median(curve[update] for curve in found) for update in common}

    def hours_at(self, update: float) -> float | None:
        """Hours of training until an update, the median over runs; None if no log has a speed."""
        return _median(_hours(row, update) for row in self.rows)

    def after(self, hours: float) -> float | None:
        """The median perplexity after so many hours, interpolated linearly between validations, over the runs whose
        perplexity counts and whose log has a speed. None unless all of these have one then: those that do alone are the
        slower ones, or the faster ones."""
        found = [_after(row, hours) for row in self.rows if _end(row) is not None and training_hours(row)]
        return None if None in found else _median(found)


def groups(rows: Iterable[Row]) -> tuple[list[Group], list[str]]:
    """Pretrainings by name, baselines first; and remarks. Names contain the options that differ."""
    runs, notes = newest(row for row in rows if row.stage == "pretraining" and not is_untrained(row))
    found: dict[str, list[Row]] = {}
    for row, name in sorted(zip(runs, distinct_names(runs), strict=True), key=lambda pair: _order(pair[0])):
        found.setdefault(name, []).append(row)
    return [Group(name, group) for name, group in found.items()], notes


def perplexity_table(rows: Iterable[Row]) -> tuple[list[Table], list[str]]:
    """The table, and the notes below it."""
    found, notes = groups(rows)
    lines = [["", "parameters", "perplexity", "tokens/s", "hours", "RoBERTa then"]]
    for group in found:
        lines.append([group.name, *_cells(group, found)])
    unfinished = [row.name for group in found for row in group.rows if not row.finished]
    if unfinished:
        notes.append(f"Unfinished, not counted: {', '.join(unfinished)}.")
    without = [row.name for group in found for row in group.rows if row.finished and _end(row) is None]
    if without:
        notes.append(f"Without a finite perplexity at the end, not counted: {', '.join(without)}.")
    notes += changed_settings(row for group in found for row in group.rows if row.finished)
    return [Table("Masked-language modelling", lines)], [_LEGEND, *notes, _about(found)]


def perplexity_figure(rows: Iterable[Row]) -> tuple[Figure, list[str]]:
    """Curves over tokens and over time, and remarks."""
    found, notes = groups(rows)
    longest = max((x for curve in _curves(found, _hours) for x, _ in curve.points), default=0.0)
    time, unit = (_minutes, "minutes") if longest < 1 else (_hours, "hours")
    panels = [
        Panel("by tokens", _curves(found, _tokens), "million tokens"),
        Panel("by time in training", _curves(found, time), unit),
    ]
    caption = (
        "Perplexity of masked validation tokens, logarithmic; in brackets the last value of each run. Curves may begin "
        f"above the axes. {_about(found)}"
    )
    return Figure("perplexity", "Validation perplexity in pretraining", caption, panels, one_scale=True), notes


def _end(row: Row) -> float | None:
    """Perplexity at the end of a finished run; None if the run is unfinished, or diverged."""
    return row.perplexity.final if row.finished and row.perplexity else None


def _about(found: Sequence[Group]) -> str:
    everything = [row for group in found for row in group.rows]
    return provenance(everything) if everything else "No pretrainings."


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _order(row: Row) -> tuple[object, ...]:
    return row.model.family != "roberta", row.model.n, str(row.model.k), row.name


def _cells(group: Group, found: Sequence[Group]) -> list[str]:
    model = group.rows[0].model
    speeds = [row.tokens_per_second for row in group.rows if row.tokens_per_second]
    hours = group.hours
    rivals = [other for other in found if other.is_baseline and _input_and_size(other) == _input_and_size(group)]
    then = rivals[0].after(hours) if len(rivals) == 1 and hours and not group.is_baseline else None
    return [
        f"{model.parameters:,}" if model.parameters else "-",
        spread(group.perplexities),
        f"{statistics.median(speeds):,.0f}" if speeds else "-",
        f"{hours:.2f}" if hours else "-",
        f"{then:,.1f}" if then else "-",
    ]


def _input_and_size(group: Group) -> tuple[object, ...]:
    model = group.rows[0].model
    return model.n, model.layers, model.width


def _tokens(row: Row, update: float) -> float | None:
    return update * row.tokens_per_update / 1e6 if row.tokens_per_update else None


def _hours(row: Row, update: float) -> float | None:
    hours = training_hours(row)
    return update / row.updates * hours if hours and row.updates else None


def _minutes(row: Row, update: float) -> float | None:
    hours = _hours(row, update)
    return None if hours is None else 60 * hours


def _after(row: Row, hours: float) -> float | None:
    """Perplexity after so many hours; None before the first validation and after the last."""
    curve = [(at, perplexity) for update, perplexity in points(row) if (at := _hours(row, update)) is not None]
    for (start, first), (end, second) in itertools.pairwise(curve):
        if start <= hours <= end:
            return first + (second - first) * (hours - start) / (end - start)
    return None


def _last_value(row: Row) -> str:
    update, perplexity = points(row)[-1]
    return f"{perplexity:,.4g}" + (diverged(row) if row.finished else f" at {update:,.0f}, unfinished")


def _curves(found: Sequence[Group], axis: Callable[[Row, float], float | None]) -> list[Curve]:
    curves = []
    for group in found:
        for number, row in enumerate(group.rows):
            line = [(x, perplexity) for update, perplexity in points(row) if (x := axis(row, update)) is not None]
            if line:
                values = ", ".join(_last_value(each) for each in group.rows if points(each))
                label = f"{group.name} ({values})" if number == 0 else None
                curves.append(Curve(label, group.name, group.is_baseline, line))
    return curves

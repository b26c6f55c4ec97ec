"""Selection, names and provenance of rows, for tables and figures."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from linformer_fairseq.results.rows import Model, Row

_BEFORE = {"kernel_strides": 1}
"""The values that models had before the option existed; names leave them out."""

_SEED = re.compile(r"(^|[^A-Za-z0-9])s(eed)?[-_]?[0-9]+(?![A-Za-z0-9])")
"""In the name of a run: ``_s1`` at its end, as the configs write it, or ``seed1`` anywhere."""
UNKNOWN_OPTIONS = "Rows do not know every option: runs that differ in dropout alone, for example, count as seeds."
"""For the legends of tables with `distinct_names`."""


def newest(rows: Iterable[Row]) -> tuple[list[Row], list[str]]:
    """One row per run: of several with the same name and size, the newest finished one, otherwise the newest.

    Returns:
        The selected rows, and a note for each name with several rows.
    """
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        scale = row.scale
        size = (scale.layers, scale.width, scale.max_update, scale.tokens_per_update)
        groups.setdefault((row.stage, row.name, row.max_update, variant(row), *size), []).append(row)
    kept, notes = [], []
    for group in groups.values():
        kept.append(max(group, key=lambda row: (row.finished, row.started)))
        if len(group) > 1:
            notes.append(f"{len(group)} runs are called {kept[-1].name}: the one of {kept[-1].started} counts.")
    return kept, notes


def changed_settings(rows: Iterable[Row]) -> list[str]:
    """A note about the runs whose settings changed on the way; none if there are no such runs."""
    found = [f"{row.name} ({', '.join(row.changed)})" for row in rows if row.changed]
    return [f"Settings were changed on the way, which names do not tell: {'; '.join(found)}."] if found else []


def model_name(model: Model, with_n: bool = False) -> str:
    """Such as "Linformer, n = 512, k = 128, layerwise"."""
    parts = ["RoBERTa" if model.family == "roberta" else model.family.capitalize()]
    if with_n:
        parts.append(f"n = {model.n}")
    if model.k is not None:
        parts.append(f"{'k' if model.family == 'linformer' else 'm'} = {str(model.k).replace(' ', '')}")
    if model.sharing is not None and model.projection in (None, "linear", "convolution"):
        parts.append(model.sharing.replace("_", "-"))
    if model.projection not in (None, "linear"):
        parts.append(str(model.projection).replace("_", " "))
    return ", ".join(parts)


def distinct_names(rows: Sequence[Row]) -> list[str]:
    """For each row, its model's name and what distinguishes it from rows that differ in more than the seed.

    Rows do not have every option of a run. If several of one name have the same seed, the names of the runs are added.
    """
    names = [_distinct_name(row, rows) for row in rows]
    for detail in (_heads, _architecture, _tokens_per_update, _start_without_seed):
        found: dict[str, set[str]] = {}
        for row, name in zip(rows, names, strict=True):
            found.setdefault(name, set()).add(detail(row))
        names = [
            f"{name}, {detail(row)}" if len(found[name]) > 1 and detail(row) else name
            for row, name in zip(rows, names, strict=True)
        ]
    starts = [row.pretrained.run if row.pretrained else "" for row in rows]
    keys = [(n, row.stage, row.task, row.seed, start) for n, row, start in zip(names, rows, starts, strict=True)]
    repeated = {key[0] for key, count in Counter(keys).items() if count > 1}
    return [f"{name}, run {row.name}" if name in repeated else name for row, name in zip(rows, names, strict=True)]


def _heads(row: Row) -> str:
    return f"{row.model.heads} heads"


def _architecture(row: Row) -> str:
    return row.model.architecture


def _tokens_per_update(row: Row) -> str:
    tokens = row.scale.tokens_per_update
    return f"{tokens:,} tokens per update" if tokens else ""


def _pretraining(row: Row) -> str:
    """How long a model was pretrained; if that is not known, what a finetuning started from."""
    if row.scale.max_update:
        return f"{row.scale.max_update:,} updates"
    if row.stage == "pretraining":
        return "unknown number of updates"
    return (row.pretrained and row.pretrained.run) or "pretraining unknown"


def _start_without_seed(row: Row) -> str:
    """Of a finetuning, whose row does not have all options of the pretraining; a pretraining's name has its start."""
    if row.stage != "finetuning" or not (row.pretrained and row.pretrained.run):
        return ""
    return f"starting from {_SEED.sub('', row.pretrained.run).strip('/_-.')}"


def variant(row: Row) -> str:
    """How a finetuning's examples differ from texts with labels, such as ", soft labels (weight of labels 0.5)"."""
    soft = "" if row.label_weight is None else f", soft labels (weight of labels {row.label_weight:g})"
    return soft + ", windows of texts" * row.windows


def counted_windows(rows: Iterable[Row]) -> list[str]:
    """A note for accuracies of texts in windows, which are those of fairseq's validation."""
    if any(row.windows for row in rows):
        return ["Where the examples are windows of texts, each window counts; `linformer evaluate` counts whole texts."]
    return []


def _distinct_name(row: Row, rows: Sequence[Row]) -> str:
    name = model_name(row.model, with_n=True)
    if row.model.projection == "linear" and any(other.model.projection not in (None, "linear") for other in rows):
        name += ", linear"
    if len({(other.model.layers, other.model.width) for other in rows}) > 1:
        name += f", {row.model.layers} layers x {row.model.width}"
    for option, value in row.model.options.items():
        if value == _BEFORE.get(option):
            continue
        others = (other.model.options for other in rows if other.model.projection == row.model.projection)
        if any(options.get(option, _BEFORE.get(option, value)) != value for options in others):
            name += f", {option}={value:g}" if isinstance(value, float) else f", {option}={value}"
    if row.stage == "pretraining" and row.pretrained:
        # Without the seed, so that runs of several parts, each of which goes on from its own seed's, are seeds of one.
        name += f", starting from {row.pretrained.run.removesuffix(f'_s{row.seed}')}"
    if is_untrained(row):
        name += ", no pretraining"
    elif len({_pretraining(other) for other in rows if not is_untrained(other)}) > 1:
        name += f", {_pretraining(row)}"
    if len({other.lr for other in rows}) > 1 and row.lr is not None:
        name += f", learning rate {row.lr:g}"
    if row.stage == "finetuning":
        kind = row.stage, row.task, variant(row)
        alike = [other for other in rows if (other.stage, other.task, variant(other)) == kind]
        if statistics.multimode(other.max_update for other in alike) != [row.max_update] and row.max_update:
            name += f", finetuned for {row.max_update:,} updates"
    return name + variant(row)


def identity(model: Model) -> tuple[object, ...]:
    """Equal for equal models, also if the row of one was written before an option existed."""
    options = [(name, value) for name, value in model.options.items() if value not in (False, _BEFORE.get(name))]
    return (
        model.architecture,
        model.layers,
        model.width,
        model.heads,
        model.n,
        str(model.k),
        model.sharing,
        model.projection,
        *sorted(options),
    )


def is_untrained(row: Row) -> bool:
    """Whether its model is untrained: initial weights, stored after one update that changes nothing."""
    return row.scale.max_update == 1


def training_hours(row: Row) -> float | None:
    """Hours of training alone: tokens divided by the log's median speed; None if the log lacks either."""
    return row.tokens / row.tokens_per_second / 3600 if row.tokens and row.tokens_per_second else None


def provenance(rows: Iterable[Row]) -> str:
    """Commits, hardware and dates of rows, in one sentence."""
    rows = list(rows)
    commits = sorted({row.commit for row in rows})
    machines = sorted(
        {
            f"{h.processor}, {'no accelerator' if h.accelerator == 'none' else h.accelerator}, "
            f"{h.processes} process{'es' * (h.processes > 1)} on {h.machines} machine{'s' * (h.machines > 1)}"
            for row in rows
            for h in row.hardware
        }
    )
    days = sorted({stamp[:10] for row in rows for stamp in (row.started, row.ended or row.started)})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    runs = f"{len(rows)} run{'s' * (len(rows) != 1)}, {span}"
    return f"{runs}, commit{'s' * (len(commits) > 1)} {', '.join(commits)}; {'; '.join(machines)}."

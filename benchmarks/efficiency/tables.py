"""Results as Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from benchmarks.efficiency import paper
from benchmarks.efficiency.cells import (
    DENSE_FORMS,
    FUSED,
    HUGGING_FACE,
    OUR_MODELS,
    STATUS,
    STORED,
    Ratio,
    Result,
    best_of,
    both_forms,
    cell_of,
    cells_of,
    faster,
    fewer_operations,
    label,
    less_memory,
    number,
    ours_of,
    place,
    same_input,
    unique_inputs,
)
from benchmarks.efficiency.models.registry import MODELS
from benchmarks.efficiency.store import Cell
from benchmarks.efficiency.timing import OUTLIER
from benchmarks.measuring import said
from linformer_fairseq.files.markdown import markdown_table

SHOWN = (512, 4096, 16384, 65536)
"""Lengths of Figure 2 that have a column; the report has all."""


def forms_of(result: Result) -> str:
    """The forms in which the dense rival was measured, as text."""
    found = [form for name, form in DENSE_FORMS.items() if cells_of(result, model=name)]
    return " or ".join(found) + (", whichever is better" if len(found) > 1 else "")


def table3(result: Result) -> list[str]:
    """The paper's Table 3: time, then memory; each cell has our figure and the paper's."""
    ours = ours_of(result)
    if ours is None:
        return []
    by_batch = bool(result["settings"]["largest_batch"])
    memory = "peak memory per token beyond the weights"
    if by_batch:
        memory = "largest batch that fits, where neither model's was limited by the time of a pass"
    n = result["settings"]["positions"]
    built = f", built for n = {n:,}" if n else ""
    lines = [
        f"Ours, on {result['provenance']['hardware']}, in {result['settings']['dtype']}, {size_of(result)}{built}; in "
        f"brackets the paper's, on {paper.HARDWARE}, 12 layers; in square brackets how many times fewer operations it "
        f"takes, which is the gain of the method. Batches are {batches(result)}. Memory is the {memory}; the paper's "
        f"is the largest batch that fits. The dense rival is the same layer with n x n attention, {forms_of(result)} "
        "for each figure.",
    ]
    dense, space = tuple(DENSE_FORMS), partial(less_memory, by_batch=by_batch)
    parts: list[tuple[str, tuple[str, ...], dict[int, tuple[float, ...]] | None, Ratio]] = [
        ("Times faster than the dense rival", dense, None, faster),
        ("Times faster than Hugging Face's RoBERTa", (HUGGING_FACE,), None, faster),
        ("Times faster than fairseq's RoBERTa", (FUSED,), None, faster),
        ("Times faster than a Transformer that stores P, as the paper's", (STORED,), paper.TIMES_FASTER, faster),
        ("Times less memory than the dense rival", dense, None, space),
        ("Times less memory than a Transformer that stores P", (STORED,), paper.TIMES_LESS_MEMORY, space),
    ]
    for title, models, printed, ratio in parts:
        if any(cells_of(result, model=name) for name in models):
            lines += ["", f"**{title}**", "", *_by_n_and_k(result, ours, models, printed, ratio)]
    return [*lines, "", *outliers_note(result), *notes(result)]


def _by_n_and_k(
    result: Result, ours: str, models: Sequence[str], printed: dict[int, tuple[float, ...]] | None, ratio: Ratio
) -> list[str]:
    dims = sorted({cell["k"] for cell in cells_of(result, model=ours)})
    rows = []
    for n in sorted({cell["length"] for cell in cells_of(result, model=ours)}):
        row = [f"{n:,}"]
        for k in dims:
            other = cell_of(result, model=ours, length=n, k=k)
            baseline = best_of(models, result, other, ratio)
            text = "" if other is None else _ratio_text(ratio(baseline, other), baseline, other)
            if ratio is faster and baseline and other and baseline["status"] == other["status"] == "ok":
                text += f"{star(baseline, other)} [{number(fewer_operations(baseline, other))}]"
            there = paper.figure(printed, n, k) if printed and other else None
            row.append(text + (f" ({there:g})" if there is not None else ""))
        rows.append(row)
    first = "T" if result["settings"]["positions"] else "n"
    return markdown_table([[first, *(f"k = {k:,}" for k in dims)], *rows], left=())


def _ratio_text(value: float | None, base: Cell | None, other: Cell) -> str:
    """A ratio, or why there is none."""
    if value is not None:
        return number(value)
    if other["status"] != "ok":
        return STATUS[other["status"]]
    return f"Transformer {STATUS[base['status']]}" if base and base["status"] != "ok" else "-"


def batches(result: Result) -> str:
    """How the batches were chosen, as text."""
    settings = result["settings"]
    padded = {"no": "", "yes": ", padded", "both": ", with padding or without"}[settings["padded"]]
    if settings["largest_batch"]:
        limit = f" in {settings['memory_limit']:g} GiB" if settings["memory_limit"] else ""
        return f"the largest that fit{limit}{padded}"
    more = "".join(f", and {batch} sequences" for batch in settings["batches"])
    return f"{settings['tokens']:,} tokens, at least one sequence{more}{padded}"


def by_model(result: Result) -> list[str]:
    """Every model with each input: tokens per second, share of the limit, memory, and the speed-up of ours."""
    rows = []
    ours = ours_of(result)
    for cell in sorted(result["cells"], key=place):
        name = [f"{cell['length']:,}", _batch_text(cell), label(cell["model"]), number(cell["k"])]
        if cell["status"] != "ok":
            rows.append([*name, STATUS[cell["status"]], *["-"] * 8])
            continue
        mine = [c for c in cells_of(result, model=ours, status="ok", **same_input(cell)) if cell["k"] in (None, c["k"])]
        held = mine and cell["model"] != ours
        per_token = cell["peak_bytes_per_token"]
        rows.append(
            [
                *name,
                number(cell["tokens_per_second"]),
                number(1e3 * cell["seconds"]),
                quartiles_text(cell),
                rounds_text(cell),
                number(cell["operations_per_second"] / 1e9),
                f"{100 * cell['share_of_limit']:.0f} %",
                number(per_token / 1024) if per_token is not None else "-",
                number(faster(cell, mine[0]) if held else None),
                number(fewer_operations(cell, mine[0]) if held else None),
            ]
        )
    head = ["T", "batch", "model", "k", "tokens/s", "ms a pass", "quartiles", "rounds", "Gop/s", "share of limit"]
    head += ["KiB/token", "speed-up", "by operations"]
    if all(cell["length"] == cell["n"] and not cell["padded"] for cell in result["cells"]):
        head[0] = "n"
        rows = [[*row[:1], "-", *row[2:]] for row in rows]  # the batch follows from n
    lines = markdown_table(_without_empty([head, *rows]), left=range(3))
    columns = _limit(result)
    if ours:
        columns += (
            f" Speed-up: how many times less time a token takes in {label(ours)!r}, the median over the rounds; by "
            "operations: how many times fewer operations."
        )
    if len({cell["k"] for cell in cells_of(result, model=ours)}) > 1:
        columns += " Models without k are compared with its first k."
    return [
        f"On {result['provenance']['hardware']}, in {result['settings']['dtype']}, {size_of(result)}, "
        f"threads: {result['settings']['threads']}; batches of {batches(result)}. {columns}",
        "",
        *lines,
        "",
        *outliers_note(result, limit=True),
        *notes(result),
    ]


def by_length(result: Result) -> list[str]:
    """Tokens per second, and how many times faster ours is with how many times fewer operations."""
    ours = ours_of(result)
    measured = sorted({cell["length"] for cell in result["cells"]})
    lengths = [n for n in measured if n in SHOWN] or measured
    rows, memory = [], []
    for model in [name for name in MODELS if cells_of(result, model=name)]:
        row, peaks = [label(model)], [label(model)]
        for n in lengths:
            cell = cell_of(result, model=model, length=n)
            row.append(_speed_text(cell, None if model == ours else cell_of(result, model=ours, length=n)))
            there = cell is not None and cell["peak_bytes_per_token"] is not None
            peaks.append(number(cell["peak_bytes_per_token"] / 1024) if there and cell else "-")
        rows.append([f"**{text}**" for text in row] if model == ours else row)
        memory.append(peaks)
    head = [f"n = {n:,}" for n in lengths]
    settings = result["settings"]
    ks = ", ".join(f"{k:,}" for k in settings["projected_dims"])
    return [
        f"Tokens per second on {result['provenance']['hardware']}, in {settings['dtype']}, {size_of(result)}, "
        f"k = {ks}, batches of {batches(result)}. In brackets how many times faster {label(ours or '')!r} is, "
        "the median over the rounds, and in square brackets how many times fewer operations it takes, which is the "
        "gain of the method; the rest is implementation. Every Linformer is counted with our operations, although some "
        "do more. The dense rival is our layer with n x n attention.",
        "",
        *markdown_table([["tokens per second", *head], *rows]),
        "",
        *markdown_table([["peak memory, KiB a token", *head], *memory]),
    ]


def _speed_text(cell: Cell | None, ours: Cell | None) -> str:
    if cell is None:
        return "-"
    if cell["status"] != "ok":
        return STATUS[cell["status"]]
    text = number(cell["tokens_per_second"]) + star(cell)
    ratio = faster_text(cell, ours)
    return f"{text} ({ratio})" if ratio else text


def faster_text(base: Cell | None, other: Cell | None) -> str:
    """How many times less time a token takes, and in square brackets how many times fewer operations; "" if one has no
    time."""
    ratio = faster(base, other)
    if ratio is None or base is None or other is None:
        return ""
    return f"{ratio:.2f} [{fewer_operations(base, other):.2f}]"


def short(result: Result) -> list[str]:
    """Times of short inputs relative to the dense rival's, and from which length on a Linformer pays off."""
    cells = sorted(result["cells"], key=place)
    variants = list(dict.fromkeys((cell["model"], cell["k"]) for cell in cells if cell["model"] not in DENSE_FORMS))
    rows = []
    for given in unique_inputs(result):
        dense = [cell for name in DENSE_FORMS for cell in cells_of(result, model=name, **given)]
        if not dense:
            continue
        base = min(dense, key=lambda cell: cell["seconds"] or math.inf)
        row = [f"{base['length']:,}", _batch_text(base), number(base["tokens_per_second"])]
        for model, k in variants:
            cell = cell_of(result, model=model, k=k, **given)
            rival = best_of(DENSE_FORMS, result, cell)
            ratio = faster(cell, rival)
            row.append(_time_text(ratio, cell, rival) if cell and rival and ratio else "-")
        rows.append(row)
    names = [label(model) + (f", k = {k:,}" if k else "") for model, k in variants]
    lines = [
        f"Time divided by that of the dense rival (our layer with n x n attention, {forms_of(result)}), and in square "
        f"brackets operations divided by the dense rival's; on {result['provenance']['hardware']}, in "
        f"{result['settings']['dtype']}, {size_of(result)}, built for n = {result['settings']['positions']:,}; "
        f"batches of {batches(result)}.",
        "",
        *markdown_table(_without_empty([["T", "batch", "dense rival, tokens/s", *names], *rows]), left=range(2)),
        "",
    ]
    for model, k in variants:
        if MODELS[model].projects and model in OUR_MODELS:
            lines.append(f"- {_pays_text(result, model, k)}")
    return [*lines, "", *outliers_note(result), *notes(result)]


def short_ranges(results: Sequence[Result], longest: int) -> list[str]:
    """The lowest and the highest ratio of times to the dense rival's, in `short` or `training`, for at most ``longest``
    positions; a row for each file."""
    cells = [cell for result in results for cell in result["cells"]]
    ours = [cell for cell in cells if MODELS[cell["model"]].projects and cell["model"] in OUR_MODELS]
    variants = list(dict.fromkeys((cell["model"], cell["k"]) for cell in ours))
    rows = []
    for result in results:
        trains = result["kind"] == "training"
        dropouts = ", ".join(f"{one:g}" for one in result["settings"]["dropouts"]) if trains else ""
        row = [result["provenance"]["hardware"] + (f"; training, dropout {dropouts}" if trains else "")]
        for model, k in variants:
            found = [cell for cell in cells_of(result, model=model, k=k) if cell["length"] <= longest]
            ratios = [ratio for cell in found if (ratio := faster(cell, _dense(result, cell)))]
            row.append(f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "-")
        rows.append(row)
    names = [f"{label(model)}, k = {k:,}" for model, k in variants]
    return markdown_table([[f"time divided by the dense rival's, T up to {longest:,}", *names], *rows]) if rows else []


def _dense(result: Result, cell: Cell) -> Cell | None:
    """The dense rival of one of our cells of inference or training."""
    if result["kind"] == "training":
        return _beside(result, cell, _WITH_COMPILED)
    return best_of(DENSE_FORMS, result, cell)


def _time_text(ratio: float, cell: Cell, base: Cell) -> str:
    return f"{ratio:.2f}{star(cell, base)}" + (f" [{fewer_operations(cell, base):.2f}]" if cell["k"] else "")


def _pays_text(result: Result, model: str, k: int | None) -> str:
    """The length from which on a model is no slower than the dense rival in any batch, as text."""
    name = f"{label(model)}, k = {k:,}"
    first = None
    for length in sorted({cell["length"] for cell in result["cells"]}, reverse=True):
        cells = cells_of(result, model=model, k=k, length=length)
        ratios = [faster(_dense(result, cell), cell) for cell in cells]
        if not ratios or any(ratio is None or ratio < 1 for ratio in ratios):
            break
        first = length
    return f"{name}: " + (
        f"no slower than the dense rival from T = {first:,} on." if first else "slower at some input of each T."
    )


def _batch_text(cell: Cell) -> str:
    return f"{cell['batch'] or cell['wanted_batch'] or 0:,}{', padded' if cell['padded'] else ''}"


def quartiles_text(cell: Cell) -> str:
    """Quartiles in milliseconds; a dash if there were too few rounds."""
    if cell["seconds_q1"] is None:
        return "-"
    return f"{number(1e3 * cell['seconds_q1'])} to {number(1e3 * cell['seconds_q3'])}"


def rounds_text(cell: Cell) -> str:
    """Number of rounds, and how many of them are outliers."""
    return f"{len(cell['all_seconds'])}" + (f", {cell['outliers']}*" if cell["outliers"] else "")


def star(*cells: Cell) -> str:
    """A star if an outlier contributes to a figure, otherwise nothing."""
    return "*" if any(cell["outliers"] for cell in cells) else ""


def outliers_note(result: Result, limit: bool = False) -> list[str]:
    """The footnote that explains the star, if the table has one; the limit has one only where it is shown."""
    if not any(cell["outliers"] or (limit and cell["limit_outliers"]) for cell in cells_of(result, status="ok")):
        return []
    return [f"\\* with rounds that took more than {OUTLIER:g} times the median over the rounds; they are included.", ""]


def training(result: Result) -> list[str]:
    """Tokens per second of the bare loop and of fairseq's trainer; ratios to the baselines in time and operations. In
    training, which form of the dense rival is faster depends on the dropout: without both there is no ratio to it."""
    settings = result["settings"]
    known = both_forms(result)
    one_form = "" if known or not any(cells_of(result, model=name) for name in DENSE_FORMS) else _ONE_FORM
    order = settings["models"].index
    cells = sorted(
        result["cells"], key=lambda c: (c["length"], c["dropout"], c["path"], order(c["model"]), c["k"] or 0)
    )
    rows = []
    for cell in cells:
        name = [
            f"{cell['length']:,}",
            f"{cell['dropout']:g}",
            "fairseq's trainer" if cell["path"] == "trainer" else "bare",
        ]
        name += [label(cell["model"]), "-" if cell["k"] is None else f"{cell['k']:,}"]
        if cell["status"] != "ok":
            rows.append([*name, STATUS[cell["status"]], *["-"] * 7])
            continue
        rival, fairseqs = _beside(result, cell, _WITH_COMPILED), _beside(result, cell, (FUSED,))
        base = rival or fairseqs
        rows.append(
            [
                *name,
                number(cell["tokens_per_second"]),
                quartiles_text(cell),
                number(faster(rival, cell) if known else None),
                number(faster(fairseqs, cell)),
                number(base["operations"] / cell["operations"] if base else None),
                f"{100 * cell['share_of_limit']:.0f} %",
                number(cell["peak_bytes"] / 2**30) if cell["peak_bytes"] else "-",
                number(cell["times_bare"]),
            ]
        )
    head = [
        "T",
        "dropout",
        "loop",
        "model",
        "k",
        "tokens/s",
        "ms an update, quartiles",
        "times the dense rival's speed",
    ]
    head += ["times fairseq's RoBERTa's", "times fewer operations", "share of limit", "GiB", "time by bare loop's"]
    n = f", n = {settings['positions']:,} in the models" if settings["positions"] else ""
    padded = ", T / 2 to T of them words and the rest padding" if settings["padded"] else ""
    formats = {(c["parameters_dtype"], c["optimized_dtype"]) for c in cells_of(result, status="ok")}
    said_formats = "; ".join(f"parameters in {one}, updated in {other}" for one, other in sorted(formats))
    symbols = ", ".join(f"{one:,}" for one in sorted({c["vocabulary"] for c in cells_of(result, status="ok")}))
    return [
        f"On {result['provenance']['hardware']}, {size_of(result)}, vocabulary of {symbols}, {said_formats}; threads: "
        f"{settings['threads']}, optimizer {settings['optimizer']}, {settings['tokens']:,} tokens an update{padded}"
        f"{n}. {settings['rounds']} rounds; in each, every model and loop has {settings['warm_up']} untimed and "
        f"{settings['updates']} timed updates in a process of its own. Ratios are medians over the rounds, for the "
        "same loop and dropout, and between compiled models if ours is compiled; the ratio of operations is by "
        f"formula. {one_form}GiB is the peak memory of training. {_limit(result)} The share of it is the model FLOPs "
        "utilisation (MFU), relative to this measured limit instead of a data sheet's peak.",
        "",
        *markdown_table(_without_empty([head, *rows]), left=range(5)),
        "",
        *notes(result),
    ]


_ONE_FORM = "There is no ratio to the dense rival, because it was not measured in both of its forms. "
_WITH_COMPILED = (*DENSE_FORMS, "roberta_sdpa_core_compiled")
"""The same layer as ours with dense attention."""


def _beside(result: Result, cell: Cell, bases: Sequence[str]) -> Cell | None:
    """The baseline that one of our cells is compared with: compiled if ours is and such a baseline was measured, and
    of several the one over which ours gains least."""
    if cell["k"] is None:
        return None
    found = [name for name in bases if cells_of(result, model=name, status="ok", **same_input(cell))]
    alike = [name for name in found if MODELS[name].compiled == MODELS[cell["model"]].compiled]
    return best_of(alike or found, result, cell)


def size_of(result: Result) -> str:
    """Number of layers and width of the models, as text."""
    settings = result["settings"]
    layers = settings["layers"]
    return f"{layers} layer{'s' if layers != 1 else ''} of width {settings['width']:,}"


def _without_empty(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The columns of a table that have a value in any row below the header."""
    kept = [number for number in range(len(rows[0])) if any(row[number] != "-" for row in rows[1:])]
    return [[row[number] for number in kept] for row in rows]


def _limit(result: Result) -> str:
    """The rates of matrix products, by length; shares are per round, so the machine's speed may vary between rounds."""
    limits: dict[int, list[Cell]] = {}
    for cell in cells_of(result, status="ok"):
        limits.setdefault(cell["length"], []).append(cell)
    parts = []
    for length, cells in sorted(limits.items()):
        rates = [cell["limit_operations_per_second"] / 1e9 for cell in cells]
        several = f" to {max(rates):,.0f}" if round(max(rates)) > round(min(rates)) else ""
        slow = max(cell.get("limit_outliers", 0) for cell in cells)
        slow_text = f" (rounds: {slow}*)" if slow else ""
        parts.append(f"{min(rates):,.0f}{several} Gop/s at {length:,} positions{slow_text}")
    return f"The limit is the rate of matrix products in the same rounds: {', '.join(parts) or 'not measured'}."


def notes(result: Result) -> list[str]:
    """The reasons for missing times, the lengths that were asked for and have no cell, and the provenance."""
    reasons: dict[str, list[int | None]] = {}
    for cell in result["cells"]:
        if cell["status"] != "ok":
            at = "" if cell["status"] == "not_installed" else f" at {cell['length']:,} positions"
            reasons.setdefault(f"{label(cell['model'])}{at}: {cell['reason']}", []).append(cell["k"])
    lines = []
    for reason, ks in reasons.items():
        several = ", ".join(f"{k:,}" for k in dict.fromkeys(ks) if k is not None)
        lines.append(f"- {reason}" + (f" (k = {several})" if several else ""))
    absent = sorted({*result["settings"].get("lengths", [])} - {cell["length"] for cell in result["cells"]})
    stopped = "the command was stopped before, or no k is below n"
    lines += [f"- all models at {length:,} positions: {stopped}" for length in absent]
    lines = lines and ["Not measured:", "", *lines, ""]
    return [*lines, *(f"({said(made)})" for made in [result["provenance"], *result.get("resumed", [])])]

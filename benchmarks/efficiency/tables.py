"""Results as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.efficiency import paper
from benchmarks.efficiency.models.registry import MODELS
from benchmarks.efficiency.store import Cell
from benchmarks.efficiency.timing import times_faster
from benchmarks.measuring import said

STORED, FUSED = "roberta_materialised", "roberta_fairseq"
OURS = ("linformer", "linformer_core")
Result = dict[str, Any]
STATUS = {
    "too_slow": "too slow",
    "out_of_memory": "out of memory",
    "not_installed": "not installed",
    "failed": "failed",
}


def label(name: str) -> str:
    """A model's name for readers; one that this version does not know keeps its own."""
    return MODELS[name].label if name in MODELS else name


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """A table; the first ``left`` columns are aligned left."""
    rule = ["---" if column < left else "---:" for column in range(len(head))]
    return ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]


def number(value: float | None) -> str:
    """Three digits; a dash for nothing."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cells_of(result: Result, **wanted: Any) -> list[Cell]:
    """Cells with these values."""
    return [cell for cell in result["cells"] if all(cell[key] == value for key, value in wanted.items())]


def cell_of(result: Result, **wanted: Any) -> Cell | None:
    """The first of them."""
    return next(iter(cells_of(result, **wanted)), None)


def ours_of(result: Result) -> str | None:
    """The name under which our model was measured."""
    return next((name for name in OURS if cells_of(result, model=name, status="ok")), None)


def faster(base: Cell | None, other: Cell | None) -> float | None:
    """How many times less time a token takes: the median of the rounds."""
    if base is None or other is None or base["status"] != "ok" or other["status"] != "ok":
        return None
    return times_faster(base["all_seconds"], other["all_seconds"], (base["tokens"], other["tokens"]))[1]


def less_memory(base: Cell | None, other: Cell | None, by_batch: bool) -> float | None:
    """How many times larger the batch that fits is, or how many times less memory a token takes."""
    if base is None or other is None or base["status"] != "ok" or other["status"] != "ok":
        return None
    if by_batch:
        return float(other["batch"] / base["batch"])
    if not base["peak_bytes"] or not other["peak_bytes"]:
        return None
    return float(base["peak_bytes_per_token"] / other["peak_bytes_per_token"])


def table3(result: Result) -> list[str]:
    """The paper's Table 3: time, then memory, each cell ours and the paper's."""
    ours = ours_of(result)
    if ours is None:
        return []
    by_batch = bool(result["settings"]["largest_batch"])
    memory = "largest batch that fits" if by_batch else "peak memory per token beyond the weights"
    lines = [
        f"Ours, on {result['provenance']['hardware']}, in {result['settings']['dtype']}, {size_of(result)}; in "
        f"brackets the paper's, on {paper.HARDWARE}, 12 layers. Batches are {batches(result)}. Memory is the "
        f"{memory}; the paper's is the largest batch that fits.",
    ]
    parts: list[tuple[str, str, dict[int, tuple[float, ...]] | None, Callable[..., float | None]]] = [
        ("Times faster than a Transformer that stores P, as the paper's", STORED, paper.TIMES_FASTER, faster),
        (
            "Times less memory than a Transformer that stores P",
            STORED,
            paper.TIMES_LESS_MEMORY,
            lambda base, other: less_memory(base, other, by_batch),
        ),
        ("Times faster than fairseq's RoBERTa of today, whose attention is fused", FUSED, None, faster),
        (
            "Times less memory than fairseq's RoBERTa of today",
            FUSED,
            None,
            lambda base, other: less_memory(base, other, by_batch),
        ),
    ]
    for title, base, printed, ratio in parts:
        if cells_of(result, model=base):
            lines += ["", f"**{title}**", "", *_by_n_and_k(result, ours, base, printed, ratio)]
    return [*lines, "", *_notes(result)]


def _by_n_and_k(
    result: Result,
    ours: str,
    base: str,
    printed: dict[int, tuple[float, ...]] | None,
    ratio: Callable[[Cell | None, Cell | None], float | None],
) -> list[str]:
    dims = sorted({cell["k"] for cell in cells_of(result, model=ours)})
    rows = []
    for n in sorted({cell["n"] for cell in cells_of(result, model=ours)}):
        row = [f"{n:,}"]
        for k in dims:
            other, baseline = cell_of(result, model=ours, n=n, k=k), cell_of(result, model=base, n=n)
            text = "" if other is None else _ratio_text(ratio(baseline, other), baseline, other)
            there = paper.figure(printed, n, k) if printed and other else None
            row.append(text + (f" ({there:g})" if there is not None else ""))
        rows.append(row)
    return markdown(["n", *(f"k = {k:,}" for k in dims)], rows, left=0)


def _ratio_text(value: float | None, base: Cell | None, other: Cell) -> str:
    """A ratio, or why there is none."""
    if value is not None:
        return number(value)
    if other["status"] != "ok":
        return STATUS[other["status"]]
    return f"Transformer {STATUS[base['status']]}" if base and base["status"] != "ok" else "-"


def batches(result: Result) -> str:
    """How they were chosen."""
    settings = result["settings"]
    if settings["largest_batch"]:
        limit = f" in {settings['memory_limit']:g} GiB" if settings["memory_limit"] else ""
        return f"the largest that fit{limit}"
    return f"{settings['tokens']:,} tokens, at least one sequence"


def by_model(result: Result) -> list[str]:
    """Every model of each length: tokens per second, share of the limit, memory, and ours against it."""
    rows = []
    ours = ours_of(result)
    for cell in sorted(result["cells"], key=lambda cell: (cell["n"], cell["k"] or 0)):
        name = [f"{cell['n']:,}", label(cell["model"]), number(cell["k"])]
        if cell["status"] != "ok":
            rows.append([*name, STATUS[cell["status"]], *["-"] * 6])
            continue
        mine = [c for c in cells_of(result, model=ours, n=cell["n"]) if cell["k"] in (None, c["k"])]
        ratio = faster(cell, mine[0]) if mine and cell["model"] != ours else None
        per_token = cell["peak_bytes_per_token"]
        rows.append(
            [
                *name,
                number(cell["tokens_per_second"]),
                number(1e3 * cell["seconds"]),
                f"{number(1e3 * cell['seconds_q1'])} to {number(1e3 * cell['seconds_q3'])}",
                number(cell["operations_per_second"] / 1e9),
                f"{100 * cell['share_of_limit']:.0f} %",
                number(per_token / 1024) if per_token is not None else "-",
                number(ratio),
            ]
        )
    head = ["n", "model", "k", "tokens/s", "ms a pass", "quartiles", "Gop/s", "share of limit", "KiB/token", "speed-up"]
    lines = markdown(*_without_empty(head, rows), left=2)
    columns = _limit(result)
    if ours:
        columns += f" Speed-up: how many times less time a token takes in {label(ours)!r}, the median over the rounds."
    if len({cell["k"] for cell in cells_of(result, model=ours)}) > 1:
        columns += " Models without k are held against its first k."
    return [
        f"On {result['provenance']['hardware']}, in {result['settings']['dtype']}, {size_of(result)}, "
        f"threads: {result['settings']['threads']}; batches of {batches(result)}. {columns}",
        "",
        *lines,
        "",
        *_notes(result),
    ]


def training(result: Result) -> list[str]:
    """Tokens per second of the bare loop and of fairseq's trainer; how ours compares, and what operations say of it."""
    settings = result["settings"]
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
        rival, fairseqs = _beside(result, cell, _DENSE), _beside(result, cell, (FUSED,))
        base = rival or fairseqs
        rows.append(
            [
                *name,
                number(cell["tokens_per_second"]),
                f"{number(1e3 * cell['seconds_q1'])} to {number(1e3 * cell['seconds_q3'])}",
                number(faster(rival, cell)),
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
        f"{settings['updates']} timed updates in a process of its own. Ratios are medians over the rounds, each to the "
        "model in the same loop and dropout, compiled to compiled; beside them is what the formula of operations says. "
        f"GiB is the peak of all that training takes. {_limit(result)} The share of it is the model FLOPs "
        "utilisation (MFU), against what was measured instead of a data sheet's peak.",
        "",
        *markdown(*_without_empty(head, rows), left=5),
        "",
        *_notes(result),
    ]


_DENSE = ("roberta_sdpa_core", "roberta_sdpa_core_compiled")
"""The same layer as ours with dense attention."""


def _beside(result: Result, cell: Cell, bases: Sequence[str]) -> Cell | None:
    """The baseline that one of our cells is held against: compiled where ours is, if it was measured."""
    if cell["k"] is None:
        return None
    same = {name: cell[name] for name in ("length", "dropout", "path")} | {"status": "ok"}
    found = [one for name in bases for one in cells_of(result, model=name, **same)]
    alike = [one for one in found if MODELS[one["model"]].compiled == MODELS[cell["model"]].compiled]
    return next(iter(alike or found), None)


def size_of(result: Result) -> str:
    """How large the models were."""
    settings = result["settings"]
    return f"{settings['layers']} layers of width {settings['width']:,}"


def _without_empty(head: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """The columns in which something stands."""
    kept = [number for number in range(len(head)) if any(row[number] != "-" for row in rows)]
    return [head[number] for number in kept], [[row[number] for number in kept] for row in rows]


def _limit(result: Result) -> str:
    """What matrix products reached, by length: where the machine's speed moves, the shares do not follow it."""
    limits = {cell["n"]: cell["limit_operations_per_second"] for cell in cells_of(result, status="ok")}
    said_of = ", ".join(f"{limit / 1e9:,.0f} Gop/s at n = {n:,}" for n, limit in sorted(limits.items()))
    return f"The limit is what matrix products reach in the same rounds: {said_of or 'not measured'}."


def _notes(result: Result) -> list[str]:
    """Why cells are missing, and what it was measured with."""
    reasons: dict[str, list[int | None]] = {}
    for cell in result["cells"]:
        if cell["status"] != "ok":
            at = "" if cell["status"] == "not_installed" else f" at n = {cell['n']:,}"
            reasons.setdefault(f"{label(cell['model'])}{at}: {cell['reason']}", []).append(cell["k"])
    lines = []
    for reason, ks in reasons.items():
        several = ", ".join(f"{k:,}" for k in dict.fromkeys(ks) if k is not None)
        lines.append(f"- {reason}" + (f" (k = {several})" if several else ""))
    lines = lines and ["Not measured:", "", *lines, ""]
    return [*lines, *(f"({said(made)})" for made in [result["provenance"], *result.get("resumed", [])])]

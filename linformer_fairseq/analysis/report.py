"""Results as Markdown, made of their JSON."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from linformer_fairseq.analysis import approximations, attention, attention_page, insertion, limits, spectrum, theory
from linformer_fairseq.analysis.insertion_report import insertion_section
from linformer_fairseq.analysis.limits_report import limits_section
from linformer_fairseq.analysis.proofs import LENGTH
from linformer_fairseq.analysis.record import Record, matrix_name, origin_line, read_record
from linformer_fairseq.analysis.spectrum import CURVES, SHARES, default_index, describe, share_name, values_at
from linformer_fairseq.analysis.spectrum_figure import NAMES
from linformer_fairseq.analysis.theorem1 import EPSILON
from linformer_fairseq.analysis.theorem2 import METHODS
from linformer_fairseq.analysis.theory_figure import METHOD_NAMES
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import naming
from linformer_fairseq.files.markdown import link, markdown_table, picture

MARK = "Made by `linformer analyse report`"
"""In each page."""
ERROR = 0.5
"""Relative error of attention for which the table of Theorem 2 gives k."""


def page(folder: Path) -> str:
    """A page on all results in and below a folder.

    Raises:
        UserError: there are none, or one cannot be read.
    """
    found = [(path, show) for name, show in _SECTIONS.items() for path in sorted(folder.rglob(name))]
    if not found:
        *names, last = _SECTIONS
        raise UserError(f"{folder}: no {', '.join(names)} or {last} there; `linformer analyse` writes them")
    lines = [
        "# Analysis",
        "",
        f"{MARK} from the JSON files in this folder. docs/analysis.md explains them.",
        "",
    ]
    for path, show in found:
        with naming(path):
            lines += [*show(path, path.parent.relative_to(folder)), ""]
    return "\n".join(lines).rstrip() + "\n"


def spectrum_section(record: Record, where: Path) -> Iterator[str]:
    index = default_index(record)
    yield f"## Singular values of {matrix_name(record)}: {record['settings']['model']}"
    yield ""
    yield f"{describe(record)}, of the {record['available_blocks']:,} in the text. {LEGEND}"
    yield ""
    yield from spectrum_table(record, index)
    yield ""
    yield "By layer, the mean over heads (lowest to highest head):"
    yield ""
    yield from layer_table(record)
    yield ""
    for name in ("spectrum_curves", "spectrum_heat_map"):
        yield picture(name, where / f"{name}.png")
        yield ""
    yield from ("```", *needed_lines(record), "```", "")
    yield origin_line(record["provenance"])


LEGEND = (
    "The share of the largest singular values in the sum of all, and how many make up 90, 95 and 99 % of it: mean over "
    "layers and heads, and the lowest and highest head in brackets."
)


def spectrum_table(record: Record, index: int | None) -> list[str]:
    """The model beside the controls."""
    rows = [["", share_name(index), *(f"for {_percent(share)}" for share in SHARES)]]
    for name in CURVES:
        values = values_at(record, name, index)
        known = values[~np.isnan(values)]  # a head of fewer projected rows than the index has no value there
        counts = [record["needed"][name][f"{share:g}"] for share in SHARES]
        of_heads = f", {known.size} of {values.size} heads" if known.size < values.size else ""
        shares = _spread(known.tolist(), ".3f") + of_heads
        rows.append([NAMES[name], shares, *(_spread(_flat(count), ".0f") for count in counts)])
    return markdown_table(rows)


def layer_table(record: Record) -> list[str]:
    """How many singular values each layer of the model needs."""
    rows = [["layer", *(f"for {_percent(share)}" for share in SHARES)]]
    found = [record["needed"]["checkpoint"][f"{share:g}"] for share in SHARES]
    for layer, counts in enumerate(zip(*found, strict=True), 1):
        rows.append([str(layer), *(_spread(count, ".0f") for count in counts)])
    return markdown_table(rows)


def needed_lines(record: Record) -> list[str]:
    """``projected_dim`` with what each head needs, and one k with the same sum."""
    lines = []
    for share in SHARES:
        found = record["needed"]["checkpoint"][f"{share:g}"]
        lines.append(f"{_percent(share)}: projected_dim={json.dumps(found, separators=(',', ':'))}")
        lines.append(f"      one k with the same sum: {statistics.mean(_flat(found)):.0f}")
    lines.append(
        "These lists need sharing=none and projection=linear; windows of the others give only some numbers of rows."
    )
    return lines


def attention_section(record: Record, where: Path) -> Iterator[str]:
    name = matrix_name(record)
    yield f"## {name} for a text: {record['settings']['model']}"
    yield ""
    page = link("A page to click", where / attention_page.NAME)
    yield f"{len(record['tokens'])} tokens. {page} has the values by layer, head and token."
    yield ""
    yield picture("attention", where / "attention.png")
    if not record["encoder"]["is_dense"]:
        yield ""
        yield picture("projection", where / "projection.png")
    yield ""
    yield origin_line(record["provenance"])


def theory_section(record: Record, where: Path) -> Iterator[str]:
    settings = record["settings"]
    named = settings["model"] is not None
    text = f"; layers: {settings['model']} on {settings['samples']} blocks of {settings['data']}" if named else ""
    yield f"## Theorems 1 and 2: {'inputs of ' + settings['model'] if named else 'drawn inputs'}"
    yield ""
    yield (
        "Steps of the proofs, checked (mean over draws). *Output zero* is zeros in place of the output of attention; "
        "its relative error is 1:"
    )
    yield ""
    yield from proof_table(record)
    yield ""
    yield (
        "Theorem 1: relative error of P Rᵀ R w, measured (median) and by the formula for the mean square, beside ε of "
        f"the paper's proof for that k{text}:"
    )
    yield ""
    yield from theorem1_table(record)
    yield ""
    yield picture("theorem1", where / "theorem1.png")
    yield ""
    yield (
        f"Theorem 2: the smallest k of those tried ({', '.join(map(str, settings['projected_dims']))}; below n) with "
        f"a relative error of at most {ERROR}; in brackets the lowest error, where no k has that{text}:"
    )
    yield ""
    yield from theorem2_table(record)
    yield ""
    if record["trained"]:
        yield "The model's own E and F, and others with the same k where that was tried:"
        yield ""
        yield from trained_table(record)
        yield ""
    yield picture("theorem2", where / "theorem2.png")
    yield ""
    if record["approximations"]:
        yield from _approximations_section(record, where, text)
    yield origin_line(record["provenance"])


def _approximations_section(record: Record, where: Path, text: str) -> Iterator[str]:
    yield (
        "Other approximations with at most as many multiplications as k rows of E and F, for the largest n: the "
        "relative error, and the share of exact attention's multiplications. Queries, keys and values are given. "
        f"Performer: mean of {approximations.DRAWS} draws, and the range{text}:"
    )
    yield ""
    yield from approximations_table(record)
    yield ""
    yield picture("approximations", where / "approximations.png")
    yield ""


def proof_table(record: Record) -> list[str]:
    """What `proofs` found."""
    cells = record["proofs"]

    def mean(check: str, field: str, **more: Any) -> float:
        wanted = {"check": check, **more}
        return statistics.mean(c[field] for c in cells if all(c[name] == value for name, value in wanted.items()))

    rows = [
        ["", "found"],
        [f"entries of P V within ε |x w|, ε = {EPSILON}", _percent(mean("inner_products", "within_product"), 1)],
        ["entries within ε |x| |w|", _percent(mean("inner_products", "within_norms"), 1)],
        ["ε for which output zero is within Theorem 2's bound", f"{mean('output_zero', 'frobenius'):.3f}"],
        ["the same with the spectral norm of V", f"{mean('output_zero', 'spectral'):.3f}"],
    ]
    exact = mean("small_delta", "exact_spread")
    rows.append(["how much exact attention depends on the query", _percent(exact, 1)])
    for delta in dict.fromkeys(cell["delta"] for cell in cells if cell["check"] == "small_delta"):
        spread, error = (mean("small_delta", field, delta=delta) for field in ("spread", "error"))
        name = "1/n" if delta == 1 / LENGTH else f"{delta:g}"
        rows.append(
            [f"the proof's E and F, δ = {name}: dependence on the query, error", f"{_percent(spread, 2)}, {error:.2f}"]
        )
    return markdown_table(rows)


def theorem1_table(record: Record) -> list[str]:
    """Errors at every n, for the k that all n have and the largest."""
    cells = record["theorem1"]
    lengths = sorted({cell["n"] for cell in cells})
    common = [k for k in sorted({cell["k"] for cell in cells}) if k < lengths[0]][-1:]
    rows = [["", "k", *(f"n = {n:,}" for n in lengths)]]
    for name in dict.fromkeys(cell["input"] for cell in cells):
        for k in sorted({*common, max(cell["k"] for cell in cells)}):
            found = {cell["n"]: cell for cell in cells if cell["input"] == name and cell["k"] == k}
            rows.append([name, str(k), *(_product(found.get(n)) for n in lengths)])
    return markdown_table(rows)


def _product(cell: Record | None) -> str:
    if cell is None:
        return "-"
    bound = cell["epsilon_of_paper"]
    return f"{cell['error']:.2f} ({cell['expected']:.2f}; ε {'none' if bound is None else f'{bound:.2f}'})"


def theorem2_table(record: Record) -> list[str]:
    """The k that each method needs, by n."""
    cells = record["theorem2"]
    lengths = sorted({cell["n"] for cell in cells})
    rows = [["input", "E and F", *(f"n = {n:,}" for n in lengths)]]
    for name in dict.fromkeys(cell["input"] for cell in cells):
        for method in METHODS:
            found = [_least([c for c in cells if (c["input"], c["n"]) == (name, n)], method) for n in lengths]
            rows.append([name, METHOD_NAMES[method], *found])
    return markdown_table(rows, left=(0, 1))


def _least(cells: Sequence[Record], method: str) -> str:
    if not cells:
        return "-"
    enough = [cell["k"] for cell in cells if cell["errors"][method] <= ERROR]
    if enough:
        return str(min(enough))
    lowest = min(cell["errors"][method] for cell in cells)
    return f"({lowest:.2f})" if round(lowest, 2) > ERROR else f"({lowest:.3f})"


def trained_table(record: Record) -> list[str]:
    """Errors of a Linformer's own E and F, beside others with its k."""
    rows = [["layer", "n", "k", METHOD_NAMES["trained"], *(METHOD_NAMES[method] for method in METHODS)]]
    for own in record["trained"]:
        place = (own["input"], own["n"], own["k"])
        others = [c["errors"] for c in record["theorem2"] if (c["input"], c["n"], c["k"]) == place]
        values = [f"{others[0][method]:.2f}" if others else "-" for method in METHODS]
        rows.append([own["input"], str(own["n"]), str(own["k"]), f"{own['error']:.2f}", *values])
    return markdown_table(rows)


def approximations_table(record: Record) -> list[str]:
    """Errors at the largest n by input, method and k; at the top, the number of rows of each method."""
    length = max(cell["n"] for cell in record["approximations"])
    cells = {(c["input"], c["k"]): c for c in record["approximations"] if c["n"] == length}
    inputs, dims = (list(dict.fromkeys(column)) for column in zip(*cells, strict=True))
    rows = [[f"n = {length:,}", "", *(f"k = {k:,} ({_percent(2 * k / length)})" for k in sorted(dims))]]
    for method in approximations.METHODS:
        counts = [  # of landmarks, there can be fewer for inputs of another width
            " or ".join(dict.fromkeys(str(cells[name, k]["rows"][method]) for name in inputs)) for k in sorted(dims)
        ]
        rows.append(["rows, features, landmarks", METHOD_NAMES[method], *counts])
    for name in inputs:
        for method in approximations.METHODS:
            found = [cells[name, k] for k in sorted(dims)]
            texts = [
                _spread(cell["draws"], ".2f") if method == "performer" else f"{cell['errors'][method]:.2f}"
                for cell in found
            ]
            rows.append([name, METHOD_NAMES[method], *texts])
    return markdown_table(rows, left=(0, 1))


def _percent(share: float, digits: int = 0) -> str:
    return f"{100 * share:.{digits}f} %"


def _flat(found: list[list[int]]) -> list[int]:
    return [count for layer in found for count in layer]


def _spread(values: Sequence[float], form: str) -> str:
    low, high = format(min(values), form), format(max(values), form)
    return format(statistics.mean(values), form) + (f" ({low} to {high})" if low != high else "")


_SECTIONS: dict[str, Callable[[Path, Path], Iterator[str]]] = {
    spectrum.NAME: lambda path, where: spectrum_section(read_record(path, "spectrum"), where),
    theory.NAME: lambda path, where: theory_section(theory.read(path), where),
    limits.NAME: lambda path, where: limits_section(read_record(path, "limits"), where),
    insertion.NAME: lambda path, where: insertion_section(read_record(path, "insertion"), where),
    attention.NAME: lambda path, where: attention_section(read_record(path, "attention"), where),
}
"""Functions that make the section of a result, by the name of its file, in the order of the page."""

"""Tables 1 and 3 and Figure 2 of the paper: time and memory of inference; and short inputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.efficiency import exponents, paper, tables
from benchmarks.efficiency.cells import STORED, Result, by_lengths, cells_of
from benchmarks.efficiency.energy import WATTS, energy_table
from benchmarks.efficiency.store import of_preset
from linformer_fairseq.files.json_records import naming
from linformer_fairseq.files.markdown import markdown_table, picture
from linformer_fairseq.report.section import Missing, Part, shown
from linformer_fairseq.results.paper import SOURCE

_MEASURE = "linformer benchmark inference --preset"


def table1(results: Path) -> Iterator[Part]:
    """The paper's orders of growth beside the exponents that were measured."""
    found = by_lengths(results, "table1")
    for path, result in found:
        with naming(path):
            lines = [_title(result), *exponents.table1(result)]
        yield from lines
        yield from _picture(results, path.stem, "Time and memory of a token against the length, a line for each model")
    if not found:
        head = ["", "complexity per layer", "sequential operations"]
        yield from markdown_table([head, *paper.COMPLEXITIES], left=range(3))
        yield f"\n(Paper: {SOURCE}, Table 1; formulas, not measurements.)\n"
        yield Missing("how operations, time and memory grow with n, measured", f"{_MEASURE} table1")


def table3(results: Path) -> Iterator[Part]:
    """Ratios by n and k, the paper's in brackets."""
    lengths, devices = set[int](), set[str]()
    for path, result in by_lengths(results, "table3"):
        with naming(path):
            lines = [_title(result, with_lengths=True), *tables.table3(result)]
            has_picture = bool(cells_of(result, model=STORED, status="ok"))
            lengths |= {cell["n"] for cell in result["cells"]}
            devices.add(str(result["settings"]["device"]))
        yield from lines
        if has_picture:
            yield from _picture(results, f"{path.stem}_ratios", "Heat maps of the ratios by n and k")
    if left := sorted(paper.TIMES_FASTER.keys() - lengths):
        yield Missing(
            f"n = {', '.join(f'{n:,}' for n in left)}", f"{_MEASURE} table3 --lengths {' '.join(map(str, left))}"
        )
    if not _has_gpu(devices):
        yield Missing(
            "the measurement on a GPU with the largest batches that fit, as the paper's",
            f"{_MEASURE} table3 --device cuda --dtype float16 --largest-batch",
        )


def figure2(results: Path) -> Iterator[Part]:
    """Tokens per second and memory of all models by length, and the plot."""
    devices = set[str]()
    for path, result in by_lengths(results, "figure2"):
        with naming(path):
            lines = [_title(result), *tables.by_length(result), ""]
            lines += [*tables.outliers_note(result), *tables.notes(result)]
            devices.add(str(result["settings"]["device"]))
        yield from lines
        yield from _picture(results, path.stem, "Time and memory of a token against the length, a line for each model")
    if not devices:
        yield Missing("time and memory by length", f"{_MEASURE} figure2")
    if not _has_gpu(devices):
        yield Missing("the measurement on a GPU", f"{_MEASURE} figure2 --device cuda --dtype float16")


def short_inputs(results: Path) -> Iterator[Part]:
    """Times of inputs shorter than n, relative to dense attention."""
    found = of_preset(results, "short")
    for path, result in found:
        with naming(path):
            lines = [_title(result), *tables.short(result)]
        yield from lines
    if not found:
        yield Missing("times of short inputs", f"{_MEASURE} short")


def energy(results: Path) -> Iterator[Part]:
    """Estimated energy of inference by length."""
    for path, result in by_lengths(results, "figure2"):
        with naming(path):
            lines = [_title(result), *energy_table(result, WATTS)]
        yield from lines


def _title(result: Result, with_lengths: bool = False) -> str:
    """The machine; where several files have the same, also the range of n."""
    n = sorted({cell["n"] for cell in result["cells"]}) if with_lengths else []
    span = f", n = {' to '.join(f'{one:,}' for one in dict.fromkeys((n[0], n[-1])))}" if n else ""
    return f"\n#### {result['provenance']['hardware']}{span}\n"


def _picture(results: Path, stem: str, text: str) -> Iterator[Part]:
    yield ""
    draw = f"linformer benchmark report --results {results.name}/efficiency"
    yield from shown(results, [picture(text, Path("efficiency", f"{stem}.png"))], draw)
    yield ""


def _has_gpu(devices: set[str]) -> bool:
    return any(device.startswith("cuda") for device in devices)

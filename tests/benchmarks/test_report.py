"""Tables and plots from small files of results."""

from __future__ import annotations

import importlib.util
import json
import math

import pytest

from benchmarks.__main__ import main
from benchmarks.efficiency.exponents import exponent, table1
from benchmarks.efficiency.group import KEYS
from benchmarks.efficiency.store import read
from benchmarks.efficiency.tables import short_ranges

PROVENANCE = {
    "command": "python -m benchmarks inference",
    "commit": "0123456789abcdef",
    "uncommitted_changes": False,
    "date": "2026-01-01 00:00 UTC",
    "hardware": "some machine",
    "load_before": 0.0,
    "python": "3.11",
    "versions": {"torch": "2"},
}


def cell(model, n, k, seconds, peak, **more):
    """A measured cell with three rounds."""
    figures = {"status": "ok", "batch": 1, "wanted_batch": 1, "batch_limited_by": "memory: 17 GiB", "tokens": n}
    figures |= {"length": n, "padded": False, "outliers": 0, "limit_outliers": 0, "peak_bytes": peak}
    figures |= {"seconds": seconds, "seconds_q1": seconds, "seconds_q3": seconds, "all_seconds": [seconds] * 3}
    figures |= {"tokens_per_second": n / seconds, "operations": 1e9, "operations_per_second": 1e9 / seconds}
    figures |= {"limit_operations_per_second": 1e10, "share_of_limit": 0.5, "peak_bytes_per_token": peak / n}
    return dict.fromkeys(KEYS) | {"model": model, "n": n, "k": k} | figures | more


def result(cells, **settings):
    plain = {"preset": "table3", "dtype": "float32", "tokens": 512, "threads": 1, "memory_limit": None}
    plain |= {"largest_batch": False, "layers": 3, "width": 96, "padded": "no", "batches": [], "positions": None}
    return {"kind": "inference", "settings": plain | settings, "provenance": PROVENANCE, "cells": cells}


@pytest.fixture
def table3(tmp_path):
    cells = [
        cell("roberta_materialised", 512, None, 3.0, 4096),
        cell("linformer", 512, 128, 1.0, 1024),
        cell("linformer", 512, 256, 2.0, 2048),
        cell("roberta_materialised", 1024, None, 1.0, 1, status="out_of_memory", reason="needs more"),
        cell("linformer", 1024, 128, 2.0, 2048),
        cell("linformer", 1024, 256, 4.0, 4096),
    ]
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "a.json").write_text(json.dumps(result(cells)))
    return folder


def test_table_3_has_the_papers_figures_beside_ours(table3, tmp_path):
    assert main(["report", "--results", str(table3), "--out", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "README.md").read_text()
    assert "| 512 | 3 [1] (1.5) | 1.5 [1] (1.3) |" in text
    assert "| 512 | 4 (1.7) | 2 (1.5) |" in text
    assert "| 1,024 | Transformer out of memory (1.7) | Transformer out of memory (1.6) |" in text
    assert text.count("3 layers of width 96") == 2, "the size stands at both tables"
    assert "some machine" in text and "one Tesla V100, 16 GB" in text
    assert "- Transformer, P stored at 1,024 positions: needs more" in text
    if importlib.util.find_spec("matplotlib"):
        assert {path.name for path in (tmp_path / "out").iterdir()} == {"README.md", "a.png", "a_ratios.png"}
        assert "![a_ratios](a_ratios.png)" in text


def test_exponents_are_of_power_laws():
    assert exponent({n: 3 * n**1.5 for n in (1024, 2048, 4096, 8192)}) == pytest.approx(1.5)
    assert exponent({512: 1.0}) is None and exponent({512: 0.0, 1024: 1.0}) is None


def test_table_1_has_the_papers_rows_and_measured_exponents(tmp_path):
    cells = []
    for n in (512, 1024, 2048):
        cells.append(cell("performer", n, 128, n / 1e6, 2**20 * n, operations=n))
        cells.append(cell("recurrent", n, None, n**2 / 1e6, 2**20 * n**0.5, operations=n, batch=2, tokens=2 * n))
        stored = {"status": "too_slow", "reason": "too slow"} if n == 2048 else {}
        cells.append(cell("roberta_materialised", n, None, 1e-9 * n**2.5, n**3, operations=n**2, **stored))
    (tmp_path / "a.json").write_text(json.dumps(result(cells, preset="table1")))
    assert main(["report", "--results", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    rows = [line for line in text.split("<details>")[0].splitlines() if line.startswith("| ")][2:]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == [
        *("Recurrent", "Transformer", "not in it", "Sparse Transformer", "Reformer", "Linformer")
    ]
    assert "| O(n) | O(n) | LSTM | 1.00 | 2.00 | 0.50 | 131 | 2,097 | 11.3 | 22.6 |" in rows[0]
    assert "| O(n²) | O(1) | Transformer, P stored | 2.00 | 2.50 | 3.00 | 5.93 | too slow | 128 | - |" in rows[1]
    assert "| Performer, our layer, k = 128 | 1.00 | 1.00 | 1.00 | 0.512 | 2.05 | 512 | 2,048 |" in rows[2]
    assert "| O(n log n) | O(log n) | not run |" in rows[4]


def test_exponents_of_all_models_are_of_the_longest_lengths_of_the_table():
    cells = []
    for n in (256, 512, 1024, 2048, 4096):
        seconds = 1.0 if n == 256 else n**1.5
        stored = {"status": "too_slow", "reason": "too slow"} if n == 4096 else {}
        cells += [cell("recurrent", n, None, seconds, n), cell("roberta_materialised", n, None, seconds, n, **stored)]
    lines = table1(result(cells, preset="table1"))
    assert "fitted to n = 512, 1,024, 2,048, 4,096." in lines[0]
    assert [line.split(" | ")[5] for line in lines if "LSTM" in line or "P stored |" in line] == ["1.50", "1.50"]


def test_the_same_results_give_the_same_files(table3, tmp_path):
    for name in ("one", "two"):
        assert main(["report", "--results", str(table3), "--out", str(tmp_path / name)]) == 0
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_a_plot_of_a_file_whose_name_has_spaces(tmp_path):
    pytest.importorskip("matplotlib")
    cells = [cell("roberta_sdpa_core", n, None, float(n), 1) for n in (512, 1024)]
    (tmp_path / "my gpu.json").write_text(json.dumps(result(cells, preset="figure2")))
    assert main(["report", "--results", str(tmp_path)]) == 0
    assert "![my gpu](my%20gpu.png)" in (tmp_path / "README.md").read_text()


def test_the_largest_batch_is_what_memory_means_there(tmp_path):
    cells = [
        cell("roberta_materialised", 512, None, 3.0, 4096, batch=10, tokens=5120),
        cell("linformer", 512, 128, 3.0, 4096, batch=35, tokens=17920),
    ]
    (tmp_path / "a.json").write_text(json.dumps(result(cells, largest_batch=True, memory_limit=16.0)))
    assert main(["report", "--results", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    assert "| 512 | 3.5 [3.5] (1.5) |" in text, "times faster, and times fewer operations"
    assert "| 512 | 3.5 (1.7) |" in text, "times less memory"
    assert "Batches are the largest that fit in 16 GiB" in text


def test_a_batch_that_time_limits_says_nothing_about_memory(tmp_path):
    cells = [
        cell("roberta_materialised", 512, None, 3.0, 4096, batch=10, tokens=5120),
        cell("linformer", 512, 128, 3.0, 4096, batch=35, tokens=17920, batch_limited_by="time: 61 s predicted"),
    ]
    (tmp_path / "a.json").write_text(json.dumps(result(cells, largest_batch=True)))
    assert main(["report", "--results", str(tmp_path)]) == 0
    _, memory = (tmp_path / "README.md").read_text().split("**Times less memory than a Transformer that stores P**")
    assert memory.splitlines()[4] == "| 512 | - (1.7) |"


def test_a_form_of_the_dense_rival_whose_batch_time_limits_may_need_less_memory_than_the_other(tmp_path):
    cells = [
        cell("roberta_sdpa_core", 512, None, 3.0, 4096, batch=10, tokens=5120),
        cell("roberta_sdpa_core_blocks", 512, None, 3.0, 4096, batch=30, tokens=15360, batch_limited_by="time: 61 s"),
        cell("linformer", 512, 128, 3.0, 4096, batch=40, tokens=20480),
    ]
    (tmp_path / "a.json").write_text(json.dumps(result(cells, largest_batch=True)))
    assert main(["report", "--results", str(tmp_path)]) == 0
    _, memory = (tmp_path / "README.md").read_text().split("**Times less memory than the dense rival**")
    assert memory.splitlines()[4] == "| 512 | - |"


def test_the_speed_up_is_the_median_over_the_rounds(tmp_path):
    ours = cell("linformer", 512, 128, 2.0, 1, all_seconds=[1.0, 2.0, 4.0])
    other = cell("roberta_fairseq", 512, None, 6.0, 1, all_seconds=[5.0, 6.0, 8.0])
    (tmp_path / "a.json").write_text(json.dumps(result([ours, other], preset=None)))
    assert main(["report", "--results", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    (row,) = (line for line in text.splitlines() if line.startswith("| 512 | fairseq's RoBERTa"))
    assert row.endswith("| 3 | 1 |")
    assert "less time a token takes in 'ours', the median over the rounds" in text


def test_the_faster_form_of_the_dense_rival_counts_and_leads(tmp_path):
    cells = [
        cell("roberta_sdpa_core", 512, None, 3.0, 1, operations=3e9),
        cell("roberta_sdpa_core_blocks", 512, None, 2.5, 1, operations=3e9, all_seconds=[2.0, 2.5, 4.5], outliers=1),
        cell("roberta_hf", 512, None, 4.0, 1, operations=3e9),
        cell("linformer", 512, 128, 1.0, 1),
    ]
    (tmp_path / "a.json").write_text(json.dumps(result(cells)))
    assert main(["report", "--results", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    assert "| 512 | 2.5* [3] |" in text and "1.5 times the median" in text
    assert text.index("than the dense rival**") < text.index("than Hugging Face's RoBERTa**")


def test_a_table_by_length_has_all_lengths_of_models_for_more_positions(tmp_path):
    cells = []
    for length, seconds in ((128, 3.0), (512, 4.0)):
        cells.append(cell("roberta_sdpa_core", 1024, None, seconds, 1, length=length))
        cells.append(cell("linformer", 1024, 128, 1.0, 1, length=length))
    (tmp_path / "a.json").write_text(json.dumps(result(cells, positions=1024)))
    assert main(["report", "--results", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    assert "| T | k = 128 |" in text and "| 128 | 3 [1] |" in text and "| 512 | 4 [1] |" in text
    assert "built for n = 1,024" in text


@pytest.mark.parametrize("preset", ["table1", "table3", None])
def test_several_inputs_of_a_length_are_listed_and_not_drawn_as_one(tmp_path, preset):
    cells = []
    for length in (512, 1024):
        for batch in (1, 8):
            cells.append(cell("roberta_sdpa_core", length, None, 1.0, 1, wanted_batch=batch, batch=batch))
            cells.append(cell("linformer", length, 128, 1.0, 1, wanted_batch=batch, batch=batch))
    (tmp_path / "a.json").write_text(json.dumps(result(cells, preset=preset, batches=[8])))
    assert main(["report", "--results", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    assert text.count("| ours |") == 4 and "Times faster than" not in text and "the paper's row" not in text
    assert not list(tmp_path.glob("*.png"))


def test_memory_is_held_against_the_dense_rival_that_needs_less(tmp_path):
    cells = [
        cell("roberta_sdpa_core", 512, None, 2.0, 4096),  # the faster one
        cell("roberta_sdpa_core_blocks", 512, None, 3.0, 1536),
        cell("linformer", 512, 128, 1.0, 1024),
    ]
    (tmp_path / "a.json").write_text(json.dumps(result(cells)))
    assert main(["report", "--results", str(tmp_path)]) == 0
    memory = (tmp_path / "README.md").read_text().split("Times less memory than the dense rival")[1]
    assert memory.splitlines()[4] == "| 512 | 1.5 |"


def test_the_plot_of_table_3_has_the_ratios_of_the_table(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    from benchmarks.efficiency import plots

    drawn = []
    monkeypatch.setattr(plots, "_heat", lambda axes, values, norm: drawn.append(values))
    cells = [
        cell("roberta_sdpa_core", 512, None, 2.0, 4096),  # the faster one
        cell("roberta_sdpa_core_blocks", 512, None, 3.0, 1536),
        cell("linformer", 512, 128, 1.0, 1024),
        cell("roberta_sdpa_core", 1024, None, 1.0, 1, status="too_slow", reason="slow"),
        cell("linformer", 1024, 128, 1.0, 1024),
    ]
    plots.heat_maps(result(cells), tmp_path / "a.png")
    assert [values[0] for values in drawn] == [[2.0], [1.5]] and all(math.isnan(values[1][0]) for values in drawn)


def test_a_file_without_all_cells_is_named(tmp_path, refused):
    ablation = result([{"n": 512, "variant": "no blocks", "seconds": 1.0}]) | {"kind": "ablation"}
    (tmp_path / "a.json").write_text(json.dumps(ablation))
    assert "a.json: cannot be shown" in refused("report", "--results", str(tmp_path))


def test_short_inputs_say_from_which_length_a_linformer_pays(tmp_path):
    cells = []
    for length, seconds in ((16, 1.5), (64, 1.2), (128, 0.9), (256, 0.5)):
        more = {"length": length, "tokens": 100, "padded": True, "wanted_batch": 32, "batch": 32}
        cells.append(cell("linformer", 512, 128, seconds, 1, **more | {"operations": 8e8}))
        cells.append(cell("linformer", 512, 256, 2 * seconds, 1, **more))
        cells.append(cell("roberta_sdpa_core", 512, None, 1.0, 1, **more))
    (tmp_path / "a.json").write_text(json.dumps(result(cells, preset="short", positions=512, padded="yes")))
    assert main(["report", "--results", str(tmp_path)]) == 0
    text = (tmp_path / "README.md").read_text()
    assert "| 64 | 32, padded | 512 | 1.20 [0.80] | 2.40 [1.00] |" in text
    assert "ours, k = 128: no slower than the dense rival from T = 128 on." in text
    assert "ours, k = 256: no slower than the dense rival from T = 256 on." in text
    ranges = short_ranges([read(tmp_path / "a.json")], 64)
    assert ranges[-1] == "| some machine | 1.20 to 1.50 | 2.40 to 3.00 |"


def test_no_results_or_other_files_are_said(tmp_path, refused):
    assert "has no JSON files" in refused("report", "--results", str(tmp_path / "none"))
    (tmp_path / "a.json").write_text("{}")
    assert "holds no results" in refused("report", "--results", str(tmp_path))
    (tmp_path / "a.json").write_text("{")
    assert "not JSON" in refused("report", "--results", str(tmp_path))

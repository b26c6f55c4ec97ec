"""The table of training, from small files of results."""

from __future__ import annotations

import importlib.util
import json

import pytest

from benchmarks.__main__ import main
from benchmarks.efficiency import tables
from benchmarks.efficiency.training import KEYS
from tests.benchmarks.test_report import PROVENANCE

SETTINGS = {
    **{"preset": None, "dtype": "bfloat16", "positions": None, "padded": False, "tokens": 512, "threads": 1},
    **{"optimizer": "adam", "rounds": 3, "updates": 2, "warm_up": 1, "layers": 3, "width": 96},
    "models": [
        *("linformer", "linformer_compiled", "roberta_sdpa_core", "roberta_sdpa_core_blocks"),
        *("roberta_sdpa_core_compiled", "roberta_fairseq"),
    ],
}


def cell(model, seconds, operations=1e9, path="bare", dropout=0.0, **more):
    figures = {"seconds": seconds[1], "seconds_q1": seconds[0], "seconds_q3": seconds[2], "all_seconds": seconds}
    figures |= {"tokens": 512, "tokens_per_second": 512 / seconds[1], "operations": operations, "share_of_limit": 0.5}
    figures |= {"limit_operations_per_second": 1e10, "peak_bytes": 3 << 30, "vocabulary": 50265}
    figures |= {"parameters_dtype": "bfloat16", "optimized_dtype": "float32", "status": "ok", "outliers": 0}
    names = {"model": model, "n": 512, "length": 512, "padded": False, "k": 128 if "linformer" in model else None}
    return dict.fromkeys(KEYS) | names | {"path": path, "dropout": dropout} | figures | more


def result(*cells):
    return {"kind": "training", "settings": SETTINGS, "provenance": PROVENANCE, "cells": list(cells)}


def rows_of(made, name):
    head, _, *rows = (line.strip("| ").split(" | ") for line in tables.training(made) if line.startswith("| "))
    return [dict(zip(head, row, strict=True)) for row in rows if row[3] == name]


def test_ratios_are_medians_over_the_rounds_within_a_loop_and_a_dropout():
    made = result(
        cell("linformer", [2.0, 3.0, 4.0]),
        cell("roberta_sdpa_core", [6.0, 12.0, 8.0], 1.5e9),
        cell("roberta_sdpa_core_blocks", [9.0, 12.0, 9.0], 1.5e9),
        cell("roberta_fairseq", [9.0, 9.0, 9.0], 1.5e9),
        cell("linformer", [1.0, 1.0, 1.0], dropout=0.1),
        cell("linformer", [4.0, 4.0, 4.0], path="trainer", times_bare=1.25),
        cell("roberta_fairseq", [20.0, 20.0, 20.0], 1.5e9, path="trainer"),
    )
    bare, alone, trainer = rows_of(made, "ours")[0], rows_of(made, "ours")[2], rows_of(made, "ours")[1]
    assert bare["times the dense rival's speed"] == "3", "of 3, 4 and 2; the ratio of the medians is 2.67"
    assert bare["times fairseq's RoBERTa's"] == "3" and bare["times fewer operations"] == "1.5"
    assert alone["dropout"] == "0.1" and alone["times the dense rival's speed"] == "-"
    assert trainer["loop"] == "fairseq's trainer" and trainer["times the dense rival's speed"] == "-"
    assert trainer["times fairseq's RoBERTa's"] == "5" and trainer["time by bare loop's"] == "1.25"
    assert bare["GiB"] == "3"
    text = "\n".join(tables.training(made))
    assert "vocabulary of 50,265, parameters in bfloat16, updated in float32" in text


def test_the_dense_rival_counts_in_its_faster_form():
    forms = cell("roberta_sdpa_core", [4.0] * 3), cell("roberta_sdpa_core_blocks", [3.0] * 3)
    for cells in (forms, forms[::-1]):
        (ours,) = rows_of(result(cell("linformer", [1.0] * 3), *cells), "ours")
        assert ours["times the dense rival's speed"] == "3"


def test_the_form_counts_over_which_ours_gains_less_whatever_its_median_is():
    # The medians of the seconds are 4 and 3.9, those of the ratios 4 and 4.2.
    ours, whole, blocks = [1.0, 0.5, 2.0], [4.0, 1.0, 9.0], [4.2, 3.9, 3.0]
    made = result(cell("linformer", ours), cell("roberta_sdpa_core", whole), cell("roberta_sdpa_core_blocks", blocks))
    (row,) = rows_of(made, "ours")
    assert row["times the dense rival's speed"] == "4"


def test_the_range_of_short_inputs_is_of_the_faster_form_at_each_length():
    def at(length, ours, dense, blocks):
        given = {"n": 512, "length": length, "dropout": 0.1}
        return [
            cell("linformer", [ours] * 3, **given),
            cell("roberta_sdpa_core", [dense] * 3, **given),
            cell("roberta_sdpa_core_blocks", [blocks] * 3, **given),
        ]

    made = result(*at(16, 3.0, 2.0, 2.5), *at(128, 2.2, 2.5, 2.0), *at(256, 1.0, 4.0, 4.0))
    made["settings"] = SETTINGS | {"preset": "short", "dropouts": [0.1]}
    assert tables.short_ranges([made], 128)[-1] == "| some machine; training, dropout 0.1 | 1.10 to 1.50 |"


@pytest.mark.parametrize("form", ["roberta_sdpa_core", "roberta_sdpa_core_blocks"])
def test_one_form_of_the_dense_rival_gives_no_ratio(form):
    made = result(cell("linformer", [1.0] * 3), cell(form, [4.0] * 3), cell("roberta_fairseq", [5.0] * 3))
    (ours,) = rows_of(made, "ours")
    assert "times the dense rival's speed" not in ours and ours["times fairseq's RoBERTa's"] == "5"
    assert "not measured in both of its forms" in tables.training(made)[0]


def test_compiled_is_held_against_compiled():
    made = result(
        cell("linformer", [1.0] * 3),
        cell("linformer_compiled", [1.0] * 3),
        cell("roberta_sdpa_core", [4.0] * 3),
        cell("roberta_sdpa_core_blocks", [5.0] * 3),
        cell("roberta_sdpa_core_compiled", [2.0] * 3),
    )
    (plain,), (compiled,) = rows_of(made, "ours"), rows_of(made, "ours, compiled")
    assert plain["times the dense rival's speed"] == "4" and compiled["times the dense rival's speed"] == "2"


def test_what_was_not_measured_is_named_and_empty_columns_go():
    failed = {"status": "out_of_memory", "reason": "can't allocate memory"}
    made = result(cell("linformer", [1.0] * 3), cell("roberta_fairseq", [1.0] * 3, **failed))
    (row,) = rows_of(made, "fairseq's RoBERTa")
    assert row["tokens/s"] == "out of memory" and "times fairseq's RoBERTa's" not in row
    assert "- fairseq's RoBERTa at 512 positions: can't allocate memory" in tables.training(made)


def test_a_length_that_was_asked_for_and_has_no_cell_is_named():
    made = result(cell("linformer", [1.0] * 3))
    made["settings"] = SETTINGS | {"lengths": [512, 8192]}
    named = [line for line in tables.training(made) if line.startswith("- all models at")]
    assert len(named) == 1 and "8,192 positions" in named[0]


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="matplotlib is not installed")
def test_the_report_has_a_plot_of_it(tmp_path):
    cells = [cell("linformer", [1.0] * 3, dropout=dropout) for dropout in (0.0, 0.1)]
    (tmp_path / "t.json").write_text(json.dumps(result(*cells)))
    assert main(["report", "--results", str(tmp_path)]) == 0
    assert "![t](t.png)" in (tmp_path / "README.md").read_text() and (tmp_path / "t.png").is_file()


def drawn(monkeypatch, *cells):
    """The visible panels of the plot: title, names of the rows that are shown, words at the bars, horizontal label."""
    from benchmarks.efficiency import plots

    seen = []

    def look(_plt, figure, _path):
        figure.draw_without_rendering()
        for axes in filter(lambda axes: axes.get_visible(), figure.axes):
            names = [tick.label1.get_text() for tick in axes.yaxis.get_major_ticks() if tick.label1.get_visible()]
            words = [text.get_text().strip() for text in axes.texts]
            seen.append((axes.get_title(), names, words, axes.get_xlabel()))

    monkeypatch.setattr(plots, "_save", look)
    plots.bars(result(*cells), None)
    return seen


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="matplotlib is not installed")
def test_the_plot_names_rows_once_and_loops_where_they_differ(monkeypatch):
    bare = [
        cell("linformer", [1.0] * 3),
        cell("linformer", [1.0] * 3, length=1024),
        cell("linformer", [1.0] * 3, length=1024, dropout=0.1),
    ]
    assert drawn(monkeypatch, *bare) == [
        ("T = 512, dropout 0", ["ours"], ["512"], "tokens per second, bare"),
        ("T = 1,024, dropout 0", [], ["512"], "tokens per second, bare"),
        ("T = 1,024, dropout 0.1", ["ours"], ["512"], "tokens per second, bare"),
    ]
    (both,) = drawn(monkeypatch, bare[0], cell("linformer", [2.0] * 3, path="trainer"))
    assert both[2:] == (["512 bare", "256 through fairseq"], "tokens per second")

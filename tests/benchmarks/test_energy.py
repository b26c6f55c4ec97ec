"""Energy: power times time, from stored speeds; the ratio does not depend on the power."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from tests.benchmarks.test_report import cell, result


@pytest.fixture
def stored(tmp_path):
    """Speeds at n = 512 and 4,096, and at a length that is not shown."""
    cells = [
        cell("linformer", 512, 128, 0.5, 1),  # 1,024 tokens per second
        cell("roberta_sdpa_core", 512, None, 2.0, 1),
        cell("roberta_sdpa_core_blocks", 512, None, 1.0, 1),
        cell("linformer", 1024, 128, 1.0, 1),
        cell("linformer", 4096, 128, 2.0, 1),
        cell("roberta_sdpa_core", 4096, None, 1.0, 1, status="too_slow", reason="slow", tokens_per_second=None),
    ]
    (tmp_path / "inference_figure2.json").write_text(json.dumps(result(cells, preset="figure2")))
    (tmp_path / "inference_table3.json").write_text(json.dumps(result(cells, preset="table3")))
    return tmp_path


@pytest.mark.parametrize(("watts", "rows"), [
    (100, {"ours": ["97,656", "48,828"], "dense rival": ["195,312", "-"]}),
    (0.001, {"ours": ["0.977", "0.488"], "dense rival": ["1.95", "-"]}),
])  # fmt: skip
def test_joules_are_watts_by_tokens_per_second(stored, watts, rows, capsys):
    assert main(["energy", "--watts", str(watts), "--results", str(stored)]) == 0
    said = capsys.readouterr().out
    table = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in said.splitlines()}
    assert table["J per million tokens"] == ["n = 512", "n = 4,096"]
    assert {name: table[name] for name in rows} == rows
    assert table["ours, default projection"] == ["-", "-"]
    assert table["dense rival / ours"] == ["2", "-"], "the faster form, whatever the watts"
    assert f"{watts:g} W" in said and "commit 0123456789" in said and said.count("J per million") == 1


@pytest.mark.parametrize("watts", ["0", "-5", "nan", "inf"])
def test_a_power_that_is_none(stored, watts, refused):
    assert "--watts" in refused("energy", f"--watts={watts}", "--results", str(stored))


def test_nothing_measured_by_length_alone(tmp_path, refused):
    words = ["energy", "--watts", "100", "--results", str(tmp_path)]
    assert "--preset figure2" in refused(*words)
    cells = [cell("linformer", 512, 128, 1.0, 1, wanted_batch=batch, batch=batch) for batch in (1, 8)]
    (tmp_path / "inference.json").write_text(json.dumps(result(cells, preset="figure2")))
    assert "--preset figure2" in refused(*words), "of which batch?"

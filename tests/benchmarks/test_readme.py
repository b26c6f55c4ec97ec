"""The tables in the repository's pages are what the files of results say."""

from __future__ import annotations

import importlib.util
import json
import shutil

import pytest

from benchmarks.__main__ import main
from benchmarks.efficiency import readme
from benchmarks.measuring import ROOT
from linformer_fairseq.files.errors import UserError
from tests.benchmarks.test_report import PROVENANCE, cell, result

PAGE = "before\n<!-- figure2 -->\nold\n<!-- /figure2 -->\nbetween\n<!-- mine -->\nkept\n<!-- /mine -->\n"


@pytest.mark.parametrize("name", readme.PAGES)
def test_the_pages_say_what_was_measured(name):
    page = (ROOT / name).read_text(encoding="utf-8")
    assert readme.filled(page, ROOT / "results") == page, "run `linformer benchmark readme`"


def test_the_pages_have_a_place_for_each_part():
    page = "".join((ROOT / name).read_text(encoding="utf-8") for name in readme.PAGES)
    assert [name for name in readme.PARTS if f"<!-- {name} -->" not in page] == []


def test_what_stands_between_markers_is_made_anew(tmp_path):
    folder = tmp_path / "efficiency"
    folder.mkdir()
    assert "\n<!-- figure2 -->\n(Not measured yet.)\n<!-- /figure2 -->\n" in readme.filled(PAGE, tmp_path)
    cells = [
        cell("linformer", 512, 128, 2.0, 1024),
        cell("roberta_sdpa_core", 512, None, 3.0, 1024, operations=2e9, outliers=1),
    ]
    content = json.dumps(result(cells, preset="figure2", projected_dims=[128]))
    (folder / "inference_figure2_cpu_float32.json").write_text(content)
    page = readme.filled(PAGE, tmp_path)
    assert page.startswith("before\n<!-- figure2 -->\n")
    assert page.endswith("\n<!-- /figure2 -->\nbetween\n<!-- mine -->\nkept\n<!-- /mine -->\n")
    assert "\nold\n" not in page and "some machine" in page and "commit 0123456789" in page
    assert "| **ours** | **256** |" in page
    assert "| dense rival | 171* (1.50 [2.00]) |" in page
    assert readme.filled(page, tmp_path) == page


@pytest.mark.parametrize("part", ["table1", "table3", "figure2", "energy", "speed"])
def test_several_inputs_of_a_length_are_in_no_table_by_length(tmp_path, part):
    folder = tmp_path / "efficiency"
    folder.mkdir()
    cells = []
    for batch in (1, 8):
        cells.append(cell("roberta_sdpa_core", 512, None, 3.0, 1, wanted_batch=batch, batch=batch))
        cells.append(cell("linformer", 512, 128, 1.0, 1, wanted_batch=batch, batch=batch))
    preset = part if part in ("table1", "table3") else "figure2"
    for count, shown in ((4, False), (2, True)):
        content = result(cells[:count], preset=preset, projected_dims=[128])
        (folder / "inference.json").write_text(json.dumps(content))
        assert bool(readme.PARTS[part](tmp_path)) is shown


def test_the_short_table_has_how_many_times_faster_ours_is(tmp_path):
    folder = tmp_path / "efficiency"
    folder.mkdir()
    assert readme.speed(tmp_path) == []
    dense = [cell("roberta_sdpa_core", 512, None, 4.0, 1024), cell("roberta_sdpa_core_blocks", 512, None, 3.0, 1024)]
    for one in dense:
        one["operations"] *= 1.25
    cells = [cell("linformer", 512, 128, 2.0, 1024), *dense]  # the faster form counts
    content = json.dumps(result(cells, preset="figure2", projected_dims=[128]))
    (folder / "inference_figure2_cpu_float32.json").write_text(content)
    head, _, *rows = readme.speed(tmp_path)
    assert head == "| times as fast as | forward pass, n = 512 |"
    assert rows[:2] == ["| dense rival | 1.50 [1.25] |", "| Hugging Face's RoBERTa | - |"]
    assert "some machine" in rows[-1]


def test_the_short_table_is_of_a_machine_that_has_training_with_both_forms_of_the_dense_rival(tmp_path):
    folder = tmp_path / "efficiency"
    folder.mkdir()
    forms = "roberta_sdpa_core", "roberta_sdpa_core_blocks"
    for machine, factor, measured in (("a", 1.0, forms[:1]), ("b", 2.0, forms)):
        made = {**PROVENANCE, "hardware": machine}
        cells = [cell("linformer", 512, 128, 1.0, 1024), *(cell(form, 512, None, factor, 1024) for form in forms)]
        figure = result(cells, preset="figure2", projected_dims=[128]) | {"provenance": made}
        (folder / f"inference_{machine}.json").write_text(json.dumps(figure))
        kind = {"path": "bare", "dropout": 0.0}
        cells = [cell("linformer", 512, 128, 1.0, 1024, **kind)]
        cells += [cell(form, 512, None, 3 * factor, 1024, **kind) for form in measured]
        trained = result(cells, preset=None, dropouts=[0.0]) | {"provenance": made, "kind": "training"}
        (folder / f"training_{machine}.json").write_text(json.dumps(trained))
    head, _, dense, *_ = readme.speed(tmp_path)
    assert head == "| times as fast as | forward pass, n = 512 | training, n = 512 |"
    assert dense == "| dense rival | 2.00 [1.00] | 6.00 [1.00] |"


def test_a_marker_without_its_other_half_is_said(tmp_path):
    with pytest.raises(UserError, match="<!-- /figure2 -->"):
        readme.filled("<!-- figure2 -->\ntext\n", tmp_path)


def test_check_says_which_page_is_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    monkeypatch.setattr(readme, "PAGES", ("page.md",))
    (tmp_path / "page.md").write_text(PAGE)
    assert main(["readme", "--check"]) == 1
    assert "page.md" in capsys.readouterr().err and (tmp_path / "page.md").read_text() == PAGE
    assert main(["readme"]) == 0
    assert "old" not in (tmp_path / "page.md").read_text()
    assert main(["readme", "--check"]) == 0


@pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="matplotlib is not installed")
@pytest.mark.slow
def test_the_report_is_what_was_measured(tmp_path):
    measured = ROOT / "results" / "efficiency"
    for path in measured.glob("*.json"):
        shutil.copy(path, tmp_path)
    assert main(["report", "--results", str(tmp_path)]) == 0
    assert (tmp_path / "README.md").read_text() == (measured / "README.md").read_text(), (
        "run `linformer benchmark report`"
    )
    assert sorted(path.name for path in tmp_path.glob("*.png")) == sorted(p.name for p in measured.glob("*.png"))

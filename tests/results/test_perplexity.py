"""Perplexity of any pretrainings: seeds together, models apart, and the RoBERTa at the same time."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq import cli
from linformer_fairseq.results import merge_rows
from linformer_fairseq.results.perplexity import groups, perplexity_figure, perplexity_table
from linformer_fairseq.results.rows import Pretrained, Row, Score
from tests.results.examples import finetuned, model, row

SIZE = (2, 128)


def pretrained(name: str, final: float, speed: float, family: str = "linformer", **changes: object) -> Row:
    """1,000 updates of 3,600 tokens: at ``speed`` = 1,000 an hour."""
    options = changes.pop("options", {})
    return row(
        name,
        model=dataclasses.replace(model(family, n=256, k=64, size=SIZE), options=options),
        updates=1000,
        max_update=1000,
        tokens=3_600_000,
        tokens_per_update=3600,
        tokens_per_second=speed,
        curve=[[500, 3 * final], [1000, final]],
        perplexity=Score(final, final, 1000),
        **changes,
    )


ROWS = [
    pretrained("linformer_s1", 100, 2000, seed=1),
    pretrained("linformer_s2", 140, 2000, seed=2),
    pretrained("linformer_s3", 120, 2000, seed=3),
    pretrained("roberta_s1", 200, 1600, "roberta"),
]


def test_seeds_stand_together_and_the_roberta_at_the_same_time() -> None:
    (table,), notes = perplexity_table([*ROWS, finetuned("sst2", 90.0)])
    assert table.rows[1] == ["RoBERTa, n = 256", "1,000", "200.0", "1,600", "0.62", "-"]
    # After half an hour the RoBERTa is at update 800: 3/5 of the way from 600 to 200.
    name = "Linformer, n = 256, k = 64, layerwise"
    assert table.rows[2:] == [[name, "1,000", "120.0 (100.0 to 140.0, 3)", "2,000", "0.50", "360.0"]]
    assert "4 runs" in notes[-1]


def test_finetunings_alone_have_neither_rows_nor_curves() -> None:
    rows = [finetuned("sst2", 90.0)]
    (table,), notes = perplexity_table(rows)
    assert len(table.rows) == 1 and notes[-1] == "No pretrainings."
    figure, _ = perplexity_figure(rows)
    assert [panel.curves for panel in figure.panels] == [[], []] and figure.caption.endswith("No pretrainings.")


@pytest.mark.parametrize(
    ("changes", "details"),
    [
        (
            {"scale": dataclasses.replace(ROWS[0].scale, tokens_per_update=900), "tokens_per_update": 900},
            ["8,192 tokens per update", "900 tokens per update"],
        ),
        ({"model": dataclasses.replace(ROWS[0].model, heads=4)}, ["2 heads", "4 heads"]),
        (
            {"model": dataclasses.replace(ROWS[0].model, architecture="linformer_roberta_prenorm")},
            ["linformer_roberta_base", "linformer_roberta_prenorm"],
        ),
    ],
)
def test_runs_that_differ_in_more_than_the_seed_are_apart(changes: dict[str, Any], details: list[str]) -> None:
    other = dataclasses.replace(ROWS[0], name="other_s4", seed=4, **changes)
    (table,), _ = perplexity_table([*ROWS, other])
    found = {line[0].rpartition("layerwise, ")[2]: line[2] for line in table.rows[2:]}
    assert found == {details[0]: "120.0 (100.0 to 140.0, 3)", details[1]: "100.0"}


def test_runs_of_the_same_seed_are_not_seeds() -> None:
    """They differ in something that rows do not have, such as the data."""
    again = dataclasses.replace(ROWS[0], name="others")
    (table,), _ = perplexity_table([*ROWS[:2], again])
    names = [line[0].rpartition(", ")[2] for line in table.rows[1:]]
    assert sorted(names) == ["run linformer_s1", "run linformer_s2", "run others"]


def test_models_of_two_sizes_are_apart() -> None:
    deep = dataclasses.replace(ROWS[0].model, layers=6)
    (table,), _ = perplexity_table([*ROWS, dataclasses.replace(ROWS[0], name="deep_s1", model=deep)])
    name = "Linformer, n = 256, k = 64, layerwise"
    assert [row[0] for row in table.rows[2:]] == [f"{name}, 6 layers x 128", f"{name}, 2 layers x 128"]
    assert [row[-1] for row in table.rows[2:]] == ["-", "360.0"]  # there is no RoBERTa of six layers


def test_a_roberta_of_another_length_is_not_compared_with() -> None:
    longer = dataclasses.replace(ROWS[3], name="longer_s1", model=dataclasses.replace(ROWS[3].model, n=512))
    for robertas, then in (([ROWS[3], longer], "360.0"), ([longer], "-")):
        (table,), _ = perplexity_table([*ROWS[:3], *robertas])
        assert [row[-1] for row in table.rows[1:]] == ["-"] * len(robertas) + [then]


def test_of_two_kinds_of_robertas_none_is_compared_with() -> None:
    heads = dataclasses.replace(ROWS[3], name="heads_s1", model=dataclasses.replace(ROWS[3].model, heads=4))
    (table,), _ = perplexity_table([*ROWS, heads])
    assert [row[-1] for row in table.rows[1:]] == ["-", "-", "-"]


def test_robertas_of_which_one_has_ended_by_then_have_no_median() -> None:
    for speed, then in ((1600, "360.0"), (2500, "-")):  # half an hour is 1,250 updates of the second
        (table,), _ = perplexity_table([*ROWS, pretrained("roberta_s2", 200, speed, "roberta", seed=2)])
        assert table.rows[-1][-1] == then


def test_a_roberta_that_is_not_counted_does_not_take_the_figure_of_the_others() -> None:
    other = pretrained("roberta_s2", 200, 1600, "roberta", seed=2)
    begun = {"finished": False, "updates": 100, "tokens": 360_000, "curve": [[100, 900.0]], "perplexity": None}
    diverged = {"curve": [[500, 900.0], [1000, None]], "perplexity": None}
    for changes in (begun, diverged, {"tokens_per_second": None}):
        (table,), _ = perplexity_table([*ROWS, dataclasses.replace(other, **changes)])
        assert table.rows[-1][-1] == "360.0"


def test_a_run_that_started_from_a_converted_model_says_so() -> None:
    rows = [
        pretrained("a", 100, 2000, pretrained=Pretrained("converted", "model.safetensors")),
        pretrained("b", 110, 2000),
    ]
    name = "Linformer, n = 256, k = 64, layerwise"
    assert {group.name for group in groups(rows)[0]} == {f"{name}, starting from converted", name}


def test_seeds_of_two_parts_stand_together() -> None:
    rows = [
        pretrained(
            f"second_s{seed}", 100, 2000, seed=seed, pretrained=Pretrained(f"first_s{seed}", "checkpoint_last.pt")
        )
        for seed in (1, 2)
    ]
    rows.append(pretrained("third_s1", 90, 2000, pretrained=Pretrained("second_s2", "checkpoint_last.pt")))
    name = "Linformer, n = 256, k = 64, layerwise, starting from "
    assert {group.name: len(group.rows) for group in groups(rows)[0]} == {name + "first": 2, name + "second_s2": 1}


def test_options_that_differ_are_in_the_name() -> None:
    rows = [
        pretrained("a", 100, 2000, options={"row_weights": "affine", "projection_step": 1.0}),
        pretrained("b", 110, 2000, options={"row_weights": "free", "projection_step": 1.0}),
        pretrained("c", 120, 2000, options={"row_weights": "free", "projection_step": 1.0}, lr=1e-3),
    ]
    found, _ = groups(rows)
    name = "Linformer, n = 256, k = 64, layerwise"
    assert [group.name.removeprefix(name) for group in found] == [
        ", row_weights=affine, learning rate 0.0005",
        ", row_weights=free, learning rate 0.0005",
        ", row_weights=free, learning rate 0.001",
    ]


def test_unfinished_runs_are_named_and_do_not_count() -> None:
    (table,), notes = perplexity_table([*ROWS[:2], dataclasses.replace(ROWS[2], finished=False), ROWS[3]])
    assert table.rows[2][2] == "120.0 (100.0 to 140.0, 2)"
    assert any("linformer_s3" in note for note in notes)


def test_runs_whose_log_has_no_speed_and_no_validation() -> None:
    bare = dataclasses.replace(ROWS[0], tokens_per_second=None, tokens=None, curve=[], perplexity=None)
    (table,), _ = perplexity_table([bare])
    assert table.rows[1][2:] == ["-", "-", "-", "-"]
    figure, _ = perplexity_figure([bare])
    assert [panel.curves for panel in figure.panels] == [[], []]


def test_curves_over_tokens_and_time() -> None:
    figure, _ = perplexity_figure(ROWS)
    tokens, time = figure.panels
    assert (tokens.along, time.along) == ("million tokens", "minutes")
    assert [curve.points for curve in tokens.curves[:2]] == [[(1.8, 600), (3.6, 200)], [(1.8, 300), (3.6, 100)]]
    assert [at for at, _ in time.curves[1].points] == [15, 30]
    assert [curve.label for curve in tokens.curves] == [
        "RoBERTa, n = 256 (200)",
        "Linformer, n = 256, k = 64, layerwise (100, 140, 120)",
        *(None, None),
    ]


def test_long_runs_have_hours() -> None:
    figure, _ = perplexity_figure([*ROWS, pretrained("slow_s1", 100, 1000)])
    time = figure.panels[1]
    assert time.along == "hours" and time.curves[-1].points[-1] == (1.0, 100)


def test_both_panels_have_the_same_vertical_axis(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = pytest.importorskip("linformer_fairseq.results.drawing")
    fast = pretrained("fast_s1", 10, 20_000, "roberta")  # so early on the axis of time that its beginning is left out
    figure, _ = perplexity_figure([*ROWS, fast])
    seen = []

    def look(canvas: Any, path: Path) -> Path:
        seen.append([axes.get_ylim() for axes in canvas.axes])
        return path

    monkeypatch.setattr(drawing, "save", look)
    drawing.draw(figure, tmp_path)
    drawing.draw(dataclasses.replace(figure, one_scale=False), tmp_path)
    together, _, apart, _ = seen
    assert together[0] == together[1] and apart[0] != apart[1]


def test_a_long_name_in_the_legend_stays_in_its_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = pytest.importorskip("linformer_fairseq.results.drawing")
    rows = [pretrained(f"one_s{seed}", 100.0 + seed, 1000.0) for seed in range(6)]
    rows += [pretrained(f"two_s{seed}", 90.0, 1000.0, pretrained=Pretrained("name " * 24, "a.pt")) for seed in range(6)]
    figure, _ = perplexity_figure(rows)
    assert max(len(curve.label or "") for curve in figure.panels[0].curves) > 150
    seen = []

    def look(canvas: Any, path: Path) -> Path:
        canvas.draw_without_rendering()
        for axes in canvas.axes:
            legend, whole = axes.get_legend().get_window_extent(), canvas.bbox
            seen.append(legend.x0 >= whole.x0 and legend.x1 <= whole.x1 and legend.y0 >= whole.y0)
        return path

    monkeypatch.setattr(drawing, "save", look)
    drawing.draw(figure, tmp_path)
    assert seen == [True] * 4


@pytest.mark.parametrize("others", [[], ROWS])
def test_a_huge_perplexity_and_dollars_in_a_name_are_drawn(others: list[Row], tmp_path: Path) -> None:
    drawing = pytest.importorskip("linformer_fairseq.results.drawing")
    huge = pretrained("huge_s1", 1e300, 1000, pretrained=Pretrained("a_$x_{$b", "model.pt"))
    figure, _ = perplexity_figure([huge, *others])
    assert all(path.is_file() for path in drawing.draw(figure, tmp_path))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    merge_rows(tmp_path / "rows.jsonl", ROWS)
    words = ["results", "perplexity", "--runs", str(tmp_path / "rows.jsonl"), "--figure", str(tmp_path / "figures")]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    assert "120.0 (100.0 to 140.0, 3)" in said and said.endswith("perplexity.png\n" + said.splitlines()[-1] + "\n")
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["perplexity.png", "perplexity.svg"]


def test_a_seed_that_diverged_is_named_and_not_counted() -> None:
    lost = dataclasses.replace(ROWS[0], perplexity=Score(None, 300.0, 500), curve=[[500, 300.0], [1000, None]])
    (table,), notes = perplexity_table([lost, *ROWS[1:]])
    assert table.rows[2][2] == "130.0 (120.0 to 140.0, 2)"
    assert "Without a finite perplexity at the end, not counted: linformer_s1." in notes
    figure, _ = perplexity_figure([lost, *ROWS[1:]])
    labels = [curve.label for curve in figure.panels[0].curves if curve.label]
    assert any("(300 at 500, then not finite, 140, 120)" in label for label in labels), labels


def test_the_hours_are_those_of_the_runs_that_count() -> None:
    short = dataclasses.replace(ROWS[0], finished=False, updates=100, tokens=360_000)
    shorter = dataclasses.replace(ROWS[1], finished=False, updates=50, tokens=180_000)
    (table,), _ = perplexity_table([short, shorter, *ROWS[2:]])
    assert table.rows[2][2:] == ["120.0", "2,000", "0.50", "360.0"]

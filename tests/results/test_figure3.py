"""The panels of Figure 3 and their files."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from linformer_fairseq.results.curves import Figure
from linformer_fairseq.results.drawing import draw
from linformer_fairseq.results.figure3 import figures
from linformer_fairseq.results.rows import Row
from tests.results.examples import model, row, scale

SMALL = scale(3, 128, 600)


def small(name: str, panels: str, n: int = 128, k: int = 32, sharing: str = "layerwise", **changes: object) -> Row:
    changes = {"scale": SMALL, "max_update": 600, "updates": 600, **changes}
    return row(name, figure3=list(panels), model=model(n=n, k=k, sharing=sharing, size=(3, 128)), **changes)


def labels(figure: Figure) -> list[list[str | None]]:
    return [[curve.label for curve in panel.curves] for panel in figure.panels]


def test_runs_that_are_in_no_panel_are_said() -> None:
    (figure,), (note,) = figures([small("x", ""), small("y", "")])
    assert not any(panel.curves for panel in figure.panels)
    assert note.startswith("none of the 2 pretrainings is in a panel: run.paper.figure3 says where a run belongs")
    assert figures([small("x", "a", stage="finetuning")])[1] == ["there is no pretraining among the runs."]
    assert figures([])[1] == []


@pytest.mark.slow
def test_long_labels_leave_room_for_the_axes(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    rows = [small("x" * 60 + str(number), "a", k=2**number) for number in range(7)]
    (figure,), _ = figures(rows)
    curves = [
        replace(curve, label=f"{curve.label} and " + "much more of it " * 60) for curve in figure.panels[0].curves
    ]
    draw(replace(figure, panels=[replace(figure.panels[0], curves=curves), *figure.panels[1:]]), tmp_path)
    assert not [str(warning.message) for warning in recwarn if "constrained_layout" in str(warning.message)]


def test_panels_hold_the_runs_that_name_them_in_the_order_of_n_k_and_sharing() -> None:
    rows = [small(f"n{n}", "d", n=n) for n in (512, 64, 128)]
    rows += [small(f"k{k}", "a", k=k) for k in (64, 8, 16)]
    rows += [small(sharing, "c", sharing=sharing) for sharing in ("layerwise", "key_value", "none", "headwise")]
    rows.append(row("base", figure3=["a", "c"], model=model("roberta", n=128, size=(3, 128)), scale=SMALL))
    rows += [small("elsewhere", ""), small("finetuned", "a", stage="finetuning")]
    (figure,), notes = figures(rows)
    assert labels(figure) == [
        ["RoBERTa, n = 128 (5)", *(f"Linformer, n = 128, k = {k}, layerwise (5)" for k in (8, 16, 64))],
        [],
        [
            "RoBERTa, n = 128 (5)",
            *(f"Linformer, n = 128, k = 32, {s} (5)" for s in ("none", "headwise", "key-value", "layerwise")),
        ],
        [f"Linformer, n = {n}, k = 32, layerwise (5)" for n in (64, 128, 512)],
    ]
    assert [curve.is_baseline for curve in figure.panels[0].curves] == [True, False, False, False]
    assert notes == []


def test_runs_that_differ_in_more_than_the_seed_are_curves_of_their_own() -> None:
    rows = []
    for seed, weights in enumerate(("affine", "free")):
        one = small(weights, "a", seed=seed)
        rows.append(replace(one, model=replace(one.model, options={"row_weights": weights})))
    (figure,), _ = figures(rows)
    name = "Linformer, n = 128, k = 32, layerwise, row_weights="
    assert labels(figure)[0] == [f"{name}affine (5)", f"{name}free (5)"]


def test_runs_of_different_scale_are_never_in_one_figure() -> None:
    paper = row("paper", figure3=["a"])
    other_tokens = small("tokens", "a", scale=replace(SMALL, tokens_per_update=4096))
    found, _ = figures([small("small", "a"), paper, other_tokens, small("wide", "a", scale=scale(3, 256, 600))])
    assert [figure.stem for figure in found] == [
        "figure3",
        "figure3_3x128_600updates_4096tokens",
        "figure3_3x128_600updates_8192tokens",
        "figure3_3x256_600updates_8192tokens",
    ]
    assert all(len(figure.panels[0].curves) == 1 for figure in found)
    assert found[0].title.endswith("v3, reproduced: 12 layers x 768, 250,000 updates of 8,192 tokens")
    assert found[2].title.endswith("v3, at another scale than the paper's: 3 layers x 128, 600 updates of 8,192 tokens")
    assert [panel.title for panel in found[0].panels] == [
        "(a) k varied, n = 512",
        "(b) k varied, n = 1024",
        "(c) sharing varied, n = 512",
        "(d) n varied, k = 256",
    ]
    assert found[2].panels[1].title == "(b) k varied (in the paper at n = 1024)"


def test_what_a_label_must_say_of_seeds_and_unfinished_runs() -> None:
    (figure,), _ = figures([small("s1", "a"), small("s2", "a", seed=2, curve=[[9, 7.25]], finished=False, updates=9)])
    assert labels(figure)[0] == [
        "Linformer, n = 128, k = 32, layerwise, 2 seeds (5, 7.25; unfinished: 9 of 600 updates)",
        None,
    ]
    assert [len(curve.points) for curve in figure.panels[0].curves] == [3, 1]


def test_a_point_that_diverged_is_left_out_and_a_run_without_any_is_named() -> None:
    rows = [small("x", "a", curve=[[1, 9.0], [2, None], [3, 8.0]]), small("y", "a", curve=[[1, None]])]
    (figure,), notes = figures(rows)
    assert [curve.points for curve in figure.panels[0].curves] == [[(1, 9.0), (3, 8.0)]]
    assert notes == ["y: no validation in its log, so it has no curve."]


def test_of_runs_with_one_name_the_newest_counts() -> None:
    later = small("x", "a", identity="2", started="2026-12-01T00:00:00+00:00", curve=[[1, 3.0]])
    (figure,), notes = figures([later, small("x", "a")])
    assert labels(figure)[0] == ["Linformer, n = 128, k = 32, layerwise (3)"]
    assert notes == ["2 runs are called x: the one of 2026-12-01T00:00:00+00:00 counts."]


def test_the_caption_says_where_the_curves_come_from() -> None:
    (figure,), _ = figures([small("x", "a"), small("y", "c", commit="fedcba")])
    assert "2 runs, 2026-11-20 to 2026-11-21, commits abcdef123456, fedcba; AMD EPYC, 2 cores" in figure.caption


@pytest.mark.slow
def test_the_files_are_the_same_for_the_same_rows_and_say_what_is_missing(tmp_path: Path) -> None:
    rows = [small(f"k{k}", "a", k=k, curve=[[u, 900 / (u + k)] for u in range(1, 600, 20)]) for k in (8, 16)]
    digests = []
    for folder in (tmp_path / "one", tmp_path / "two" / "deep"):
        (figure,), _ = figures(rows)
        paths = draw(figure, folder)
        assert [path.suffix for path in paths] == [".png", ".svg"]
        assert sorted(folder.iterdir()) == paths, "and nothing else stays"
        digests.append([hashlib.sha256(path.read_bytes()).hexdigest() for path in paths])
        rows.reverse()
    assert digests[0] == digests[1]
    svg = paths[1].read_text()
    assert svg.count("<!-- no runs -->") == 3
    for text in (figure.title, *(panel.title for panel in figure.panels), *labels(figure)[0]):
        assert f"<!-- {text} -->" in svg


def test_without_runs_every_panel_says_so(tmp_path: Path) -> None:
    (figure,), _ = figures([])
    _, svg = draw(figure, tmp_path)
    assert svg.name == "figure3.svg" and svg.read_text().count("<!-- no runs -->") == 4


def test_two_groups_of_the_papers_scale_have_two_files() -> None:
    other = replace(scale(), tokens_per_update=524_288)
    drawn, _ = figures([row("a", figure3=["a"]), row("b", figure3=["a"], scale=other)])
    assert [figure.stem for figure in drawn] == [
        "figure3_12x768_250000updates_524288tokens",
        "figure3_12x768_250000updates_8192tokens",
    ]


def test_an_unfinished_run_reproduces_nothing() -> None:
    (figure,), _ = figures([row(figure3=["a"], scale=scale(done=3000), updates=3000, finished=False)])
    assert "at the paper's scale, unfinished" in figure.title and figure.stem == "figure3"

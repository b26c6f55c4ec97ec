"""Accuracy of any finetunings: seeds together, models apart."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from linformer_fairseq import cli
from linformer_fairseq.results import merge_rows
from linformer_fairseq.results.accuracy import Control, Truncated, accuracy_table
from linformer_fairseq.results.figure3 import figures
from linformer_fairseq.results.perplexity import perplexity_table
from linformer_fairseq.results.table2 import table2
from tests.results.examples import finetuned, model, row, scale

SIZE = (2, 128)
SMALL = {"model": model(n=256, k=64, size=SIZE), "scale": scale(2, 128, 600), "lr": 1e-3}
UNTRAINED = {**SMALL, "scale": scale(2, 128, 1)}
ROBERTA = {**SMALL, "model": model("roberta", n=256, size=SIZE)}
ROWS = [
    finetuned("sst2", 74.0, 1, **SMALL, tokens=120_000, tokens_per_second=1000.0),
    finetuned("sst2", 75.0, 2, **SMALL, tokens=120_000, tokens_per_second=2000.0),
    finetuned("authors", 40.0, 1, **SMALL),
    finetuned("sst2", 60.0, 1, run="untrained", **UNTRAINED),
    finetuned("sst2", 76.0, 1, run="roberta_s1", **ROBERTA),
]


def test_models_apart_and_seeds_together() -> None:
    (table,), notes = accuracy_table(ROWS)
    name = "Linformer, n = 256, k = 64, layerwise"
    assert table.rows == [
        ["", "SST-2", "minutes", "authors", "minutes"],
        ["RoBERTa, n = 256", "76.0", "-", "-", "-"],
        [name, "74.5 (74.0 to 75.0, 2)", "1.5", "40.0", "-"],
        [f"{name}, no pretraining", "60.0", "-", "-", "-"],
    ]
    assert "5 runs" in notes[-1]


def test_the_papers_projection_is_named_beside_another() -> None:
    convolution = dataclasses.replace(SMALL["model"], projection="convolution")
    other = finetuned("sst2", 76.0, 1, run="convolution", **{**SMALL, "model": convolution})
    (table,), _ = accuracy_table([ROWS[0], other])
    name = "Linformer, n = 256, k = 64, layerwise"
    assert [row[0] for row in table.rows[1:]] == [f"{name}, convolution", f"{name}, linear"]


def test_a_longer_finetuning_is_not_one_more_seed() -> None:
    longer = dataclasses.replace(ROWS[1], name="longer", max_update=5 * (ROWS[1].max_update or 0))
    (table,), _ = accuracy_table([*ROWS, longer])
    name = f"Linformer, n = 256, k = 64, layerwise, finetuned for {longer.max_update:,} updates"
    assert table.rows[2][1] == "74.5 (74.0 to 75.0, 2)"
    assert table.rows[3][:2] == [name, "75.0"]
    assert table.rows[3][3] == "-", "the number of updates of other tasks is their own"


def test_a_finetuning_that_learns_more_than_labels_is_not_one_more_seed() -> None:
    taught = dataclasses.replace(ROWS[1], name="taught", label_weight=0.5)
    windows = dataclasses.replace(ROWS[1], name="windows", seed=3, windows=True, max_update=1300)
    of_one_name = dataclasses.replace(taught, name=ROWS[1].name, identity="1" * 16, seed=4)
    (table,), notes = accuracy_table([*ROWS, taught, windows, of_one_name])
    name = "Linformer, n = 256, k = 64, layerwise"
    assert {row[0]: row[1] for row in table.rows if row[0].startswith(name)} == {
        name: "74.5 (74.0 to 75.0, 2)",
        f"{name}, soft labels (weight of labels 0.5)": "75.0 (75.0 to 75.0, 2)",
        f"{name}, windows of texts": "75.0",
        f"{name}, no pretraining": "60.0",
    }
    assert not any("are called" in note for note in notes)
    assert [any("each window counts" in note for note in accuracy_table(rows)[1]) for rows in ([windows], ROWS)] == [
        True,
        False,
    ]


def test_of_two_lengths_none_is_the_usual_one() -> None:
    short, long = (dataclasses.replace(ROWS[1], name=str(updates), max_update=updates) for updates in (12, 120))
    for rows in ([short, long], [long, short]):
        (table,), _ = accuracy_table(rows)
        assert {row[0].rpartition(", ")[2] for row in table.rows[1:]} == {
            f"finetuned for {updates} updates" for updates in (12, 120)
        }


def test_an_option_that_came_later_is_named_beside_models_without_it() -> None:
    """Rows from before `kernel_strides` do not have it; they are models with 1."""
    convolution = dataclasses.replace(SMALL["model"], projection="convolution")
    models = [dataclasses.replace(convolution, options={"kernel_strides": strides}) for strides in (1, 2.0)]
    rows = [
        finetuned("sst2", 76.0, 1, run=f"r_s{i}", **{**SMALL, "model": m}) for i, m in enumerate([convolution, *models])
    ]
    (table,), _ = accuracy_table(rows)
    name = "Linformer, n = 256, k = 64, layerwise, convolution"
    assert [row[0] for row in table.rows[1:]] == [name, f"{name}, kernel_strides=2"]


def test_a_pretraining_without_a_run_folder_is_named() -> None:
    unknown = dataclasses.replace(SMALL["scale"], max_update=None)
    (table,), _ = accuracy_table(
        [*ROWS[:2], finetuned("sst2", 80.0, run="linformer-small", **{**SMALL, "scale": unknown})]
    )
    assert [row[0].rpartition(", ")[2] for row in table.rows[1:]] == ["600 updates", "linformer-small"]


def test_an_unfinished_pretraining_of_so_many_epochs_is_named() -> None:
    scales = [dataclasses.replace(SMALL["scale"], max_update=planned) for planned in (600, 0)]
    rows = [finetuned("sst2", 80.0, run=f"r{i}_s1", **{**SMALL, "scale": each}) for i, each in enumerate(scales)]
    (table,), _ = accuracy_table(rows)
    assert [row[0].rpartition(", ")[2] for row in table.rows[1:]] == ["600 updates", "r1_s1"]
    rows = [row(f"r{i}_s1", **{**SMALL, "scale": each}) for i, each in enumerate(scales)]
    names = [line[0].rpartition(", ")[2] for line in perplexity_table(rows)[0][0].rows[1:]]
    assert names == ["600 updates", "unknown number of updates"]


def test_models_of_unknown_pretraining_are_apart() -> None:
    unknown = {**SMALL, "scale": dataclasses.replace(SMALL["scale"], max_update=None)}
    (table,), _ = accuracy_table([finetuned("sst2", 80.0 + i, run=f"model-{x}", **unknown) for i, x in enumerate("ab")])
    assert [row[0].rpartition(", ")[2] for row in table.rows[1:]] == ["model-a", "model-b"]
    assert [row[1] for row in table.rows[1:]] == ["80.0", "81.0"]


def test_seeds_of_finetuning_are_counted_for_each_seed_of_pretraining() -> None:
    rows = [finetuned("sst2", 70.0 + run + seed, seed, run=f"r_s{run}", **SMALL) for run in (1, 2) for seed in (1, 2)]
    (table,), _ = accuracy_table(rows)
    assert [row[1] for row in table.rows[1:]] == ["73.0 (72.0 to 74.0, 4)"]


def test_pretrainings_that_differ_in_more_than_the_seed_are_apart() -> None:
    """Rows of finetunings do not have, for example, the learning rate of the pretraining."""
    runs = [("slow_s1", 70.0, 1), ("slow_s1", 71.0, 3), ("slow_s2", 72.0, 2), ("fast_s2", 80.0, 4)]
    (table,), _ = accuracy_table([finetuned("sst2", best, seed, run=run, **SMALL) for run, best, seed in runs])
    name = "Linformer, n = 256, k = 64, layerwise, starting from"
    assert [row[:2] for row in table.rows[1:]] == [[f"{name} fast", "80.0"], [f"{name} slow", "71.0 (70.0 to 72.0, 3)"]]


@pytest.mark.parametrize("runs", ["base-seed1 base-seed2", "seed1/base seed2/base", "base_s1 base_s12", "s1 s2"])
def test_pretrainings_that_differ_in_the_seed_are_together(runs: str) -> None:
    (table,), _ = accuracy_table([finetuned("sst2", 80.0, i, run=run, **SMALL) for i, run in enumerate(runs.split())])
    assert [row[1] for row in table.rows[1:]] == ["80.0 (80.0 to 80.0, 2)"]


def test_controls_stand_above_the_models() -> None:
    (table,), notes = accuracy_table(ROWS, [Control("sst2", 81.9, 50.1), Control("imdb", 88.0, 50.0)])
    assert table.rows[1:3] == [
        ["always the most frequent answer", "50.1", "-", "-", "-"],
        ["bag of words", "81.9", "-", "-", "-"],
    ]
    assert any("tf-idf" in note for note in notes)
    (table,), notes = accuracy_table(ROWS, [Control("sst2", 81.9, 50.1, Truncated(256, 80.5))])
    assert table.rows[3] == ["bag of words, truncated texts", "80.5", "-", "-", "-"]
    assert any("256 tokens" in note for note in notes)
    (table,), notes = accuracy_table(ROWS, [Control("imdb", 88.0, 50.0)])
    assert len(table.rows) == 4 and not any("tf-idf" in note for note in notes)


def test_unfinished_runs_are_named_and_do_not_count() -> None:
    (table,), notes = accuracy_table([ROWS[0], dataclasses.replace(ROWS[1], finished=False)])
    assert table.rows[1][1] == "74.0" and any(ROWS[1].name in note for note in notes)
    (table,), notes = accuracy_table([])
    assert table.rows == [[""]] and notes[-1] == "No finetunings."


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merge_rows(tmp_path / "rows.jsonl", ROWS)
    out = tmp_path / "accuracy.md"
    assert cli.main(["results", "accuracy", "--runs", str(tmp_path / "rows.jsonl"), "--out", str(out)]) == 0
    assert "74.5 (74.0 to 75.0, 2)" in out.read_text() and capsys.readouterr().out == f"{out}\n"


def test_the_command_with_controls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merge_rows(tmp_path / "rows.jsonl", ROWS)
    control = tmp_path / "sst2.json"
    command = ["results", "accuracy", "--runs", str(tmp_path / "rows.jsonl"), "--controls", str(control)]
    control.write_text('{"task": "sst2", "bag_of_words": 81.94, "majority": 50.92, "seconds": 3}')
    assert cli.main(command) == 0 and "bag of words" in (out := capsys.readouterr().out) and "81.9" in out
    twice = tmp_path / "again.json"
    twice.write_text(control.read_text())
    assert cli.main([*command, str(twice)]) == 1
    error = capsys.readouterr().err
    assert str(twice) in error and "sst2" in error
    control.write_text('{"task": "sst2", "majority": 50.92}')
    assert cli.main(command) == 1
    error = capsys.readouterr().err
    assert str(control) in error and "bag_of_words: missing" in error


def test_runs_whose_settings_changed_are_named() -> None:
    rows = [finetuned("sst2", 90.0, seed=1), finetuned("sst2", 91.0, seed=2, changed=["optimizer.weight_decay"])]
    said = "Settings were changed on the way, which names do not tell: "
    assert f"{said}linformer_s1/sst2_lr1e-05_s2 (optimizer.weight_decay)." in accuracy_table(rows)[1]
    assert not any(said in text for text in accuracy_table(rows[:1])[1])
    pretrained = [row("linformer_s1"), row("linformer_s2", seed=2, changed=["task.mask_prob"])]
    assert f"{said}linformer_s2 (task.mask_prob)." in perplexity_table(pretrained)[1]
    assert f"{said}linformer_s1/sst2_lr1e-05_s2 (optimizer.weight_decay)." in table2(rows)[1]
    in_panel = dataclasses.replace(pretrained[1], figure3=["a"])
    assert f"{said}linformer_s2 (task.mask_prob)." in figures([in_panel])[1]

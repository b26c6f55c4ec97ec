"""The paper's Table 2 with ours beside it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from linformer_fairseq.results.paper import TABLE2, TASKS
from linformer_fairseq.results.render import latex, markdown
from linformer_fairseq.results.rows import Pretrained, Row
from linformer_fairseq.results.table2 import table2
from linformer_fairseq.results.tables import Table
from tests.results.examples import finetuned, model, row, scale

TAG = "Linformer, 128, shared kv, layer"
SMALL = scale(3, 128, 600)


def tagged(task: str, accuracy: float, seed: int = 1, lr: float = 1e-5, **changes: object) -> Row:
    """A finetuning that belongs into the paper's table."""
    return finetuned(task, accuracy, seed, lr, **{"table2": TAG, **changes})


def small(task: str, accuracy: float, seed: int = 1, **changes: object) -> Row:
    changes = {"model": model(n=128, k=32, size=(3, 128)), "scale": SMALL, "table2": TAG, **changes}
    return finetuned(task, accuracy, seed, **changes)


def ours(tables: list[Table], n: str = "512", name: str = TAG) -> list[str]:
    """The cells of our row below one of the paper's: four tasks and the average."""
    lines = tables[0].rows
    place = next(i for i, line in enumerate(lines) if line[:3] == [n, name, "paper"])
    assert lines[place + 1][2] == "ours"
    return lines[place + 1][3:]


def test_the_papers_numbers_are_consistent() -> None:
    assert list(TASKS.values()) == ["SST-2", "IMDB", "QNLI", "QQP"]
    assert len({(paper.n, paper.name) for paper in TABLE2}) == len(TABLE2) == 12
    for paper in TABLE2:
        assert abs(sum(paper.scores) / 4 - paper.average) < 0.0051, paper


def test_without_runs_all_of_ours_is_missing() -> None:
    for rows in ([], [row()]):
        (table,), notes = table2(rows)
        mine = [line for line in table.rows[1:] if line[2] != "paper"]
        assert len(mine) == 10, "none for BERT and its distilled form"
        assert all(line[3:] == ["- (0 runs)"] * 4 + ["-"] for line in mine)
        assert "Ours: no finetuning runs." in notes


def test_median_spread_and_number_of_seeds_at_the_best_learning_rate() -> None:
    rows = [tagged("sst2", accuracy, seed, 1e-5) for seed, accuracy in enumerate([92.0, 92.1, 92.2, 92.3, 99.0], 1)]
    rows += [tagged("sst2", accuracy, seed, 2e-5) for seed, accuracy in enumerate([92.9, 93.1, 92.7, 92.8, 80.0], 1)]
    assert ours(table2(rows)[0]) == ["92.8 (80.0 to 93.1, 5, 2e-5)", *["- (0 runs)"] * 3, "-"]


def test_a_learning_rate_with_fewer_seeds_does_not_win_by_luck() -> None:
    rows = [tagged("sst2", 92.0, 1), tagged("sst2", 92.5, 2), tagged("sst2", 95.0, 1, 3e-5)]
    assert ours(table2(rows)[0])[0] == "92.25 (92.0 to 92.5, 2, 1e-5)"


def test_of_equal_learning_rates_the_lower_counts_and_one_seed_has_no_spread() -> None:
    rows = [tagged("sst2", 92.0, 1, lr) for lr in (3e-5, 1e-5, 2e-5)]
    assert ours(table2(rows)[0])[0] == "92.0 (1, 1e-5)"


def test_the_average_is_that_of_the_medians_and_only_of_whole_rows() -> None:
    scores = dict(zip(TASKS, (93.0, 94.0, 91.0, 90.1), strict=True))
    rows = [tagged(task, score) for task, score in scores.items()]
    assert ours(table2(rows)[0])[-1] == "92.03"
    assert ours(table2(rows[:3])[0])[3:] == ["- (0 runs)", "-"]


def test_rows_of_one_name_and_another_n_are_apart() -> None:
    rows = [tagged("sst2", 91.0, table2="Linformer, 256", model=model(n=1024, k=256, sharing="headwise"))]
    tables, _ = table2(rows)
    assert ours(tables, "1024", "Linformer, 256")[0] == "91.0 (1, 1e-5)"
    assert ours(tables, "512", "Linformer, 256")[0] == "- (0 runs)"


def test_unfinished_runs_are_counted_and_named_but_give_no_number() -> None:
    rows = [tagged("sst2", 92.0, 1, finished=False), dataclasses.replace(tagged("sst2", 93.0, 2), accuracy=None)]
    tables, notes = table2(rows)
    assert ours(tables)[0] == "- (0 of 2 runs done)"
    named = (
        "Not counted, unfinished or without an accuracy: linformer_s1/sst2_lr1e-05_s1, linformer_s1/sst2_lr1e-05_s2."
    )
    assert named in notes
    tables, notes = table2([*rows, tagged("sst2", 91.0, 3)])
    assert ours(tables)[0] == "91.0 (1, 1e-5)" and named in notes


def test_shorter_finetunings_are_not_mixed_in() -> None:
    rows = [tagged("sst2", 99.0, 1, max_update=10), tagged("sst2", 92.0, 2), tagged("sst2", 92.2, 3)]
    tables, notes = table2(rows)
    assert ours(tables)[0] == "92.1 (92.0 to 92.2, 2, 1e-5)"
    assert any(
        "others of that model and task take 1,000 updates: linformer_s1/sst2_lr1e-05_s1" in note for note in notes
    )
    assert "Updates in finetuning: SST-2 10 and 1,000." in notes


def test_another_scale_is_never_in_the_papers_block() -> None:
    rows = [small(task, 70.0 + i, seed) for i, task in enumerate(TASKS) for seed in (1, 2, 3)]
    baseline = {"model": model("roberta", n=128, size=(3, 128)), "run": "roberta_s1"}
    tables, _ = table2([*rows, *(small(task, 75.0, seed, **baseline) for task in TASKS for seed in (1, 2, 3))])
    assert ours(tables)[0] == "- (0 runs)"
    assert len(tables) == 2
    assert tables[1].title.endswith(
        "ours at another scale than the paper's: 3 layers x 128, 600 updates of 8,192 tokens"
    )
    assert tables[1].rows == [
        ["n", "Model", "SST-2", "IMDB", "QNLI", "QQP", "Average"],
        ["128", "RoBERTa", *["75.0 (75.0 to 75.0, 3, 1e-5)"] * 4, "75.00"],
        [
            "128",
            "Linformer, k = 32, layerwise",
            *[f"{a}.0 ({a}.0 to {a}.0, 3, 1e-5)" for a in (70, 71, 72, 73)],
            "71.50",
        ],
    ]


def test_each_scale_has_a_block() -> None:
    unfinished = tagged("sst2", 90.0, scale=scale(done=100_000), run="other_s1")
    tables, _ = table2([small("sst2", 70.0), unfinished, tagged("sst2", 91.0, table2=None)])
    assert [table.title.partition(", ours ")[2] for table in tables] == [
        "",
        "at another scale than the paper's: 12 layers x 768, 100,000 of 250,000 updates of 8,192 tokens",
        "not in the paper's table: 12 layers x 768, 250,000 updates of 8,192 tokens",
        "at another scale than the paper's: 3 layers x 128, 600 updates of 8,192 tokens",
    ]
    assert [table.rows[1][2] for table in tables[1:]] == ["90.0 (1, 1e-5)", "91.0 (1, 1e-5)", "70.0 (1, 1e-5)"]
    assert ours(tables)[0] == "- (0 runs)"


def test_two_pretrainings_of_one_model_are_told_apart() -> None:
    rows = [small("sst2", 70.0), small("sst2", 80.0, run="linformer_s2")]
    names = [line[1] for line in table2(rows)[0][1].rows[1:]]
    assert names == ["Linformer, k = 32, layerwise (linformer_s1)", "Linformer, k = 32, layerwise (linformer_s2)"]
    rows = [tagged("sst2", 90.0), tagged("sst2", 91.0, run="linformer_s2")]
    lines = [line[2:4] for line in table2(rows)[0][0].rows if "linformer" in line[2]]
    assert lines == [["ours (linformer_s1)", "90.0 (1, 1e-5)"], ["ours (linformer_s2)", "91.0 (1, 1e-5)"]]


def test_of_runs_with_one_name_the_newest_counts_and_a_finished_one_before() -> None:
    old = tagged("sst2", 90.0, identity="1", started="2026-11-01T00:00:00+00:00")
    new = tagged("sst2", 91.0, identity="2", started="2026-11-02T00:00:00+00:00")
    newest = tagged("sst2", 99.0, identity="3", started="2026-11-03T00:00:00+00:00", finished=False)
    tables, notes = table2([old, newest, new])
    assert ours(tables)[0] == "91.0 (1, 1e-5)"
    assert any("3 runs are called linformer_s1/sst2_lr1e-05_s1: the one of 2026-11-02" in note for note in notes)


def test_source_reading_and_provenance_are_said() -> None:
    _, notes = table2([tagged("sst2", 90.0), tagged("sst2", 90.0, 2, commit="fedcba")])
    text = "\n".join(notes)
    assert "arXiv 2006.04768 v3, Table 2" in text and "headwise sharing in our reading" in text
    assert (
        "Ours: 2 runs, 2026-11-20 to 2026-11-21, commits abcdef123456, fedcba; AMD EPYC, 2 cores, no accelerator"
        in text
    )


def test_markdown() -> None:
    table = Table("Title", [["n", "Model"], ["512", "a | b"], ["", "x"]])
    assert markdown([table], ["one", "two"]) == (
        "**Title**\n\n| n   | Model  |\n|-----|--------|\n| 512 | a \\| b |\n|     | x      |\n\n- one\n- two\n"
    )


def test_latex() -> None:
    text = latex([Table("50 %", [["n", "A & B"], ["512", "a_b"]])], ["C:\\ #1 ~ ^ {x} $"])
    assert text.splitlines() == [
        r"% \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        r"\caption{50 \%}",
        r"\begin{tabular}{ll}",
        r"\toprule",
        r"n & A \& B \\",
        r"\midrule",
        r"512 & a\_b \\",
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
        "",
        r"\par\noindent",
        r"C:\textbackslash{} \#1 \textasciitilde{} \textasciicircum{} \{x\} \$",
    ]


@pytest.mark.parametrize("form", [markdown, latex])
def test_every_number_of_the_paper_is_in_the_text(form) -> None:
    text = form(*table2([]))
    for paper in TABLE2:
        separator = " | " if form is markdown else " & "
        assert (
            separator.join([*(f"{score:.1f}".ljust(10 if form is markdown else 0) for score in paper.scores)]) in text
        )
        assert f"{paper.average:.2f}" in text


def test_models_and_checkpoints_of_one_pretraining_are_apart() -> None:
    other = dataclasses.replace(model(n=128, k=32, size=(3, 128)), options={"row_weights": "free"})
    early = Pretrained("linformer_s1", "checkpoint_1_200.pt")
    rows = [small("sst2", 80.0), small("sst2", 60.0, model=other), small("sst2", 55.0, pretrained=early)]
    (_, table), _ = table2(dataclasses.replace(each, name=f"run_{number}") for number, each in enumerate(rows))
    assert {line[1].partition("(")[2].rstrip(")"): line[2] for line in table.rows[1:]} == {
        "linformer_s1, checkpoint_best.pt": "80.0 (1, 1e-5)",
        "linformer_s1, checkpoint_best.pt, row_weights=free": "60.0 (1, 1e-5)",
        "linformer_s1, checkpoint_1_200.pt": "55.0 (1, 1e-5)",
    }


def test_an_option_that_older_rows_do_not_have_sets_no_models_apart() -> None:
    newer = dataclasses.replace(model(n=128, k=[32, 32], size=(3, 128)), options={"kernel_strides": 1})
    older = dataclasses.replace(newer, options={}, parameters=None)
    (_, table), _ = table2([small("sst2", 80.0, 1, model=older), small("sst2", 82.0, 2, model=newer)])
    assert [line[2] for line in table.rows[1:]] == ["81.0 (80.0 to 82.0, 2, 1e-5)"]


def test_of_two_runs_of_one_seed_the_newer_counts() -> None:
    first = small("sst2", 80.0)
    second = dataclasses.replace(small("sst2", 90.0), name="other_dropout", started="2026-11-21T10:00:00+00:00")
    (_, table), notes = table2([second, first, small("sst2", 84.0, 2)])
    assert table.rows[1][2] == "87.0 (84.0 to 90.0, 2, 1e-5)"
    assert any("other_dropout" in note and first.name in note for note in notes)


@pytest.mark.parametrize(
    ("learned", "name"),
    [({"label_weight": 0.0}, ", soft labels (weight of labels 0)"), ({"windows": True}, ", windows of texts")],
)
def test_a_finetuning_that_learns_more_than_labels_is_apart(learned: dict[str, Any], name: str) -> None:
    tables, notes = table2([tagged("sst2", 93.0), tagged("sst2", 95.0, 2, **learned)])
    assert any("each window counts" in note for note in notes) == ("windows" in learned)
    assert ours(tables)[0] == "93.0 (1, 1e-5)"
    assert [line[1:3] for line in tables[1].rows[1:]] == [[f"Linformer, k = 128, layerwise{name}", "95.0 (1, 1e-5)"]]
    (_, table), _ = table2([small("sst2", 80.0), small("sst2", 82.0, 2, **learned)])
    assert {line[1]: line[2] for line in table.rows[1:]} == {
        "Linformer, k = 32, layerwise": "80.0 (1, 1e-5)",
        f"Linformer, k = 32, layerwise{name}": "82.0 (1, 1e-5)",
    }


@pytest.mark.parametrize("changed", [{"k": 64}, {"sharing": "headwise"}, {"projection": "convolution"}])
def test_another_model_is_not_in_the_papers_block(changed: dict[str, object]) -> None:
    rows = [tagged("sst2", 93.0, model=dataclasses.replace(model(), **changed))]
    (paper, other), _ = table2(rows)
    assert ours([paper])[0] == "- (0 runs)" and "not in the paper's table" in other.title
    assert other.rows[1][2] == "93.0 (1, 1e-5)"

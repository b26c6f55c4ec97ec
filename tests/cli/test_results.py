"""`linformer results`: collect, table2, figure3, and what is said of what cannot be read."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from linformer_fairseq import cli
from tests.messages import says
from tests.results.examples import attempt, run_folder, validation

LOG = [validation(10, ppl=70), validation(20, ppl=60)]


def results(*words: object) -> int:
    return cli.main(["results", *map(str, words)])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two finished runs and an unfinished one."""
    folder = tmp_path / "runs"
    run_folder(folder / "one", LOG, name="one")
    tuned = {"stage": "finetuning", "name": "one/sst2_s1", "task": "sst2", "pretrained": str(folder / "one" / "x.pt")}
    run_folder(folder / "one" / "sst2_s1", [validation(20, accuracy=61.5)], **tuned, lr=1e-5)
    run_folder(folder / "two", LOG, name="two", seed=2, attempts=[attempt(status="stopped", updates_at_end=10)])
    return folder


def test_a_folder_in_place_of_the_file_of_rows_is_refused(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").mkdir()
    assert results("collect", runs, "--out", tmp_path / "taken") == 1
    assert says(capsys.readouterr().err, f"--out {tmp_path / 'taken'}", "is a folder")


@pytest.mark.slow
def test_from_run_folders_to_table_and_figure(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert results("collect", "runs") == 0
    said = capsys.readouterr()
    assert says(said.out, "3 runs", "2 of them finished", "0 left out", "3 new", "0 replaced", "results/runs.jsonl")
    assert says(said.err, "warning", "runs/two", "unfinished", "10 of 20 updates", "stopped")
    assert results("collect", "runs") == 0
    assert "0 new rows, 3 replaced" in capsys.readouterr().out
    names = [json.loads(line)["name"] for line in Path("results/runs.jsonl").read_text().splitlines()]
    assert names == ["one", "one/sst2_s1", "two"]

    assert results("table2") == 0
    printed = capsys.readouterr().out
    assert "| 512  | RoBERTa-base " in printed
    assert (
        "| 64 | Linformer, k = 8, key-value | 61.5 (1, 1e-5) | - (0 runs) | - (0 runs) | - (0 runs) | -       |"
        in printed
    )
    assert "2 layers x 32, 20 updates of 256 tokens" in printed
    assert results("table2", "--out", "tables/table2.md") == 0
    assert capsys.readouterr().out == "tables/table2.md\n"
    assert Path("tables/table2.md").read_text() == printed
    assert results("table2", "--format", "latex") == 0
    assert r"\begin{tabular}" in capsys.readouterr().out
    assert results("table2", "--out", "results/runs.jsonl") == 1
    assert says(capsys.readouterr().err, "--out results/runs.jsonl", "this file is read")
    assert len(Path("results/runs.jsonl").read_text().splitlines()) == 3

    assert results("figure3") == 0
    names = [f"figure3_2x32_20updates_256tokens.{ending}" for ending in ("png", "svg")]
    assert capsys.readouterr() == ("".join(f"results/{name}\n" for name in names), "")
    assert results("figure3", "--runs", "results/runs.jsonl", "--out", "figures") == 0
    assert sorted(path.name for path in Path("figures").iterdir()) == names
    svg = Path("figures", names[1]).read_text()
    drawn = " ".join(" ".join(re.findall("<!--(.*?)-->", svg, re.DOTALL)).split())  # a legend may be on several lines
    assert "k = 8, key-value (60, 60; unfinished: 10 of 20 updates)" not in drawn, "two runs of one model are two seeds"
    assert "2 seeds (60, 60; unfinished: 10 of 20 updates)" in drawn


def test_damaged_runs_are_named_and_the_others_collected(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "two" / "run.json").write_text("{")
    assert results("collect", runs, "--out", tmp_path / "rows.jsonl") == 0
    said = capsys.readouterr()
    assert "2 runs, 2 of them finished, 1 left out: 2 new rows" in said.out
    assert said.err.startswith(f"warning: left out: {runs}/two/run.json: not JSON") and "Traceback" not in said.err


@pytest.mark.parametrize(
    ("prepare", "words", "message"),
    [
        (lambda f: None, ["collect", "gone"], "gone: no such folder; give a folder of runs"),
        (lambda f: (f / "empty").mkdir(), ["collect", "empty"], "empty: no run folders (with a run.json)"),
        (lambda f: run_folder(f / "bad", attempts=[]), ["collect", "bad"], "none of the runs there can be read"),
        (lambda f: None, ["table2"], "results/runs.jsonl: no such file; make it with: linformer results collect DIR"),
        (lambda f: None, ["figure3", "--runs", "x"], "x: no such file"),
        (lambda f: (f / "x").write_text("{}\n"), ["table2", "--runs", "x"], "x, line 1: not a row of results"),
        (
            lambda f: [(f / "x").write_text(""), (f / "file").touch()],
            ["table2", "--runs", "x", "--out", "file/table"],
            "file: is a file",
        ),
        (
            lambda f: [run_folder(f / "run", LOG), (f / "file").touch()],
            ["collect", "run", "--out", "file/rows"],
            "--out file/rows: file: is a file",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    prepare, words, message, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert results(*words) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("linformer results: error: ") and message in last


@pytest.mark.parametrize("lost", ["rows.jsonl", "imdb.json"])
def test_neither_rows_nor_controls_are_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lost: str
) -> None:
    for name in ("rows.jsonl", "imdb.json"):
        (tmp_path / name).write_text("old")
    words = ("--runs", tmp_path / "rows.jsonl", "--controls", tmp_path / "imdb.json", "--out", tmp_path / lost)
    assert results("accuracy", *words) == 1
    assert says(capsys.readouterr().err, f"--out {tmp_path / lost}", "this file is read")
    assert (tmp_path / lost).read_text() == "old"


def test_rows_that_cannot_be_computed_with_are_named(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs.jsonl"
    assert results("collect", runs / "one", "--out", out) == 0
    first, *_ = out.read_text().splitlines()
    out.write_text(json.dumps(json.loads(first) | {"tokens": 10**400, "tokens_per_second": 5.0}))
    capsys.readouterr()
    assert results("perplexity", "--runs", out) == 1
    assert says(capsys.readouterr().err, f"error: {out}: cannot be shown")


def test_without_matplotlib(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.jsonl"
    results("collect", runs, "--out", rows)
    monkeypatch.setitem(sys.modules, "linformer_fairseq.results.drawing", None)
    assert results("figure3", "--runs", rows) == 1
    assert "which is not installed: pip install matplotlib" in capsys.readouterr().err


def test_wrong_usage() -> None:
    for words in ([], ["collect"], ["table2", "--format", "html"]):
        with pytest.raises(SystemExit) as stop:
            results(*words)
        assert stop.value.code == 2

"""What the quickstart shows: progress lines, figures read from logs, the verdict, the figure."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from linformer_fairseq.models import LinformerRobertaModel
from scripts.quickstart_tools import report
from scripts.quickstart_tools.plot import plot_perplexity
from scripts.quickstart_tools.progress import Pace, describe, parse, resumed_at
from scripts.quickstart_tools.report import Result, measure, measure_finetuning, shortcomings, table
from tests.conftest import REPOSITORY
from tests.models import make_pretrained


def _result(**changes: float | None) -> Result:
    figures = {"perplexity_before": 4000.0, "perplexity_after": 800.0, "accuracy": 28.0} | changes
    return Result(parameters=10, tokens_per_second=5, finetuning_updates=20, seconds={}, **figures)


def test_the_verdict_names_what_was_missed() -> None:
    assert shortcomings({"A": _result()}, 14.0) == []
    (missed,) = shortcomings({"A": _result(), "B": _result(perplexity_after=801.0)}, 14.0)
    assert "B: validation perplexity 801.0" in missed and "4,000.0" in missed
    (missed,) = shortcomings({"A": _result(accuracy=27.9)}, 14.0)
    assert missed == "A: accuracy 27.9 % is less than twice the majority class's 14.0 %"


def test_a_model_that_was_only_finetuned_has_no_figures_of_a_pretraining(tmp_path: Path) -> None:
    (tmp_path / ".steps").mkdir()
    (tmp_path / ".steps" / "finetune_shipped.seconds").write_text("40\n")
    (tmp_path / "finetune_shipped").mkdir()
    lines = [f'{{"valid_loss": "2", "valid_accuracy": "{30 + n}", "valid_num_updates": "{n}"}}' for n in (5, 10)]
    (tmp_path / "finetune_shipped" / "train.log").write_text("\n".join(lines) + "\n")
    result = measure_finetuning(tmp_path, "shipped", parameters=1234)
    assert (result.accuracy, result.finetuning_updates, result.seconds) == (40.0, 10, {"finetune": 40})
    assert shortcomings({"A": result}, 14.0) == []
    rows = {name: cells for name, *cells in table({"A": _result(), "B": result}, 14.0)}
    assert rows["validation perplexity, pretrained"] == ["800.0", "-"]
    assert rows["tokens per second in pretraining"] == ["5", "-"]
    assert rows["accuracy of the last checkpoint (majority class: 14.0 %)"] == ["28.0 %", "40.0 %"]
    assert rows["parameters"] == ["10", "1,234"] and rows["finetuning updates"] == ["20", "10"]
    assert rows["pretraining, wall time"] == ["-", "-"] and rows["finetuning, wall time"] == ["-", "40 s"]


def test_masks_are_filled_with_three_tokens_and_their_probabilities(tmp_path: Path) -> None:
    hub = LinformerRobertaModel.from_pretrained(make_pretrained(tmp_path, n=128))
    sentences = (*report.SENTENCES, *report.SENTENCES_OF_SHIPPED)
    for text, mask in zip(sentences, report.fill_masks(hub, sentences), strict=True):
        expected = hub.fill_mask(text, topk=3)
        assert mask == {"sentence": text, "fillers": [(token, round(p, 3)) for _, p, token in expected]}
        assert len(mask["fillers"]) == 3


def test_a_log_without_results_is_named(tmp_path: Path) -> None:
    for model in ("linformer", "roberta"):
        (tmp_path / f"pretrain_{model}").mkdir()
        (tmp_path / f"pretrain_{model}" / "train.log").write_text('{"num_updates": "10", "wps": "1"}')
    with pytest.raises(ValueError, match="pretrain_roberta/train.log: no perplexity in this log"):
        measure(tmp_path, "roberta")


def test_progress_says_how_far_and_how_long() -> None:
    times = iter([1000.0, 1010.0, 1100.0])  # a validation before the last, in which updates are as fast as before
    pace = Pace(100, lambda: next(times))
    said = []
    for update in (20, 30, 40):
        stats = parse(f'INFO | {{"num_updates": "{update}", "ups": "1", "wps": "2048.4", "loss": "9.5"}}')
        assert stats is not None
        said.append(describe(stats, 100, pace) or "")
    assert "20/100" in said[0] and "2,048 tokens/s" in said[0] and "left" not in said[0]
    assert said[1].endswith("  1:10 left") and said[2].endswith("  5:00 left")
    stats = parse('{"valid_loss": "2", "valid_accuracy": "41.5", "valid_num_updates": "50"}')
    assert stats is not None and "accuracy 41.5 %" in (describe(stats, 100, pace) or "")
    assert parse("no braces") is None and describe({"other": 1}, 100, pace) is None


def test_progress_says_where_a_run_continues() -> None:
    line = "INFO | fairseq.trainer | Loaded checkpoint /a (b)/checkpoint_last.pt (epoch 3 @ {} updates)"
    assert (resumed_at(line.format(643)), resumed_at(line.format(0)), resumed_at("another")) == (643, None, None)
    command = [sys.executable, "-m", "scripts.quickstart_tools.progress", "--log", "/dev/null", "--total", "800"]
    ran = subprocess.run(command, input=line.format(643), capture_output=True, text=True, cwd=REPOSITORY)
    assert ran.stdout == "  continuing at update 643 of 800\n"


def test_progress_on_a_terminal_begins_at_once() -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "scripts.quickstart_tools.progress", "--log", "/dev/null", "--total", "800"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=theirs, cwd=REPOSITORY) as process:
        assert select.select([ours], [], [], 60)[0], "nothing was printed"
        assert b"loading" in os.read(ours, 100), "before there is a line"
        process.communicate()
    os.close(theirs)
    os.close(ours)


def test_a_step_that_cannot_say_that_it_begins_fails(tmp_path: Path) -> None:
    script = f"""set -euo pipefail
        source scripts/lib/common.sh && source scripts/quickstart_tools/steps.sh
        mkdir -p '{tmp_path}/out/.steps' && out='{tmp_path}/out'
        step one "the first" README.md -- touch '{tmp_path}/done'"""
    command = ["bash", "-c", script]
    ran = subprocess.run(["bash", "-c", f"exec >/dev/full; {script}"], capture_output=True, text=True, cwd=REPOSITORY)
    assert ran.returncode != 0 and "write error" in ran.stderr
    assert not (tmp_path / "done").exists()
    for said in ("==> the first\n", "==> the first: already done\n"):
        ran = subprocess.run(command, capture_output=True, text=True, cwd=REPOSITORY)
        assert (ran.returncode, said in ran.stdout, ran.stderr) == (0, True, "")
    assert (tmp_path / "done").exists()


def test_the_figure_is_a_png_and_nothing_else_stays(tmp_path: Path) -> None:
    plot_perplexity({"A": {0: 4000.0, 10: 700.0}, "B": {0: 4100.0, 10: 650.0}}, tmp_path / "x" / "p.png")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["p.png"]
    assert (tmp_path / "x" / "p.png").read_bytes().startswith(b"\x89PNG")

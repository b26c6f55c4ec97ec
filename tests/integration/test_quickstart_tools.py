"""What the quickstart shows: progress lines, figures read from logs, the verdict, the figure."""

import json
from pathlib import Path

import pytest

pytest.importorskip("fairseq")
pytest.importorskip("matplotlib")

from scripts.quickstart_tools.logs import read_log
from scripts.quickstart_tools.plot import plot_perplexity
from scripts.quickstart_tools.progress import describe, parse
from scripts.quickstart_tools.report import Result, markdown, shortcomings


def _result(**changes: float) -> Result:
    figures = {"perplexity_before": 4000.0, "perplexity_after": 800.0, "accuracy": 28.0} | changes
    return Result(parameters=10, tokens_per_second=5, seconds={}, **figures)


def test_the_verdict_names_what_was_missed() -> None:
    assert shortcomings({"A": _result()}, 14.0) == []
    (missed,) = shortcomings({"A": _result(), "B": _result(perplexity_after=801.0)}, 14.0)
    assert "B: validation perplexity 801.0" in missed and "4,000.0" in missed
    (missed,) = shortcomings({"A": _result(accuracy=27.9)}, 14.0)
    assert missed == "A: accuracy 27.9 % is less than twice the majority class's 14.0 %"


def test_the_last_line_of_an_update_counts(tmp_path: Path) -> None:
    def training(update: int, speed: float) -> str:
        return json.dumps({"epoch": 1, "loss": "9", "num_updates": str(update), "wps": str(speed), "ups": "1"})

    def valid(update: int, perplexity: float) -> str:
        return json.dumps({"epoch": 1, "valid_loss": "9", "valid_ppl": str(perplexity), "valid_num_updates": update})

    lines = ["a line {that is no JSON", training(10, 1), training(20, 99), valid(20, 500)]
    lines += [training(20, 3), training(20, 3), valid(20, 400.5), training(30, 5)]
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines))
    log = read_log(path)
    assert log.perplexity == {20: 400.5}
    assert log.tokens_per_second == 3
    path.write_text(training(10, 1))
    with pytest.raises(ValueError, match="no training progress or no validation"):
        read_log(path)


def test_progress_says_how_far_and_how_long() -> None:
    stats = parse('INFO | {"num_updates": "30", "ups": "0.5", "wps": "2048.4", "loss": "9.5"}')
    assert stats is not None
    text = describe(stats, total=100)
    assert text is not None and "30/100" in text and "2,048 tokens/s" in text and "2:20 left" in text
    stats = parse('{"valid_loss": "2", "valid_accuracy": "41.5", "valid_num_updates": "50"}')
    assert stats is not None and "accuracy 41.5 %" in (describe(stats, 100) or "")
    assert parse("no braces") is None and describe({"other": 1}, 100) is None


def test_markdown_columns_line_up() -> None:
    lines = markdown([["", "A"], ["parameters", "1,000"]]).splitlines()
    assert lines == ["|            |     A |", "|------------|------:|", "| parameters | 1,000 |"]


def test_the_figure_is_a_png_and_nothing_else_stays(tmp_path: Path) -> None:
    plot_perplexity({"A": {0: 4000.0, 10: 700.0}, "B": {0: 4100.0, 10: 650.0}}, tmp_path / "x" / "p.png")
    assert [path.name for path in (tmp_path / "x").iterdir()] == ["p.png"]
    assert (tmp_path / "x" / "p.png").read_bytes().startswith(b"\x89PNG")

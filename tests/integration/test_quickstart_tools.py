"""What the quickstart shows: progress lines, figures read from logs, the verdict, the figure."""

from pathlib import Path

import pytest

pytest.importorskip("fairseq")
pytest.importorskip("matplotlib")

from scripts.quickstart_tools.plot import plot_perplexity
from scripts.quickstart_tools.progress import describe, parse
from scripts.quickstart_tools.report import Result, markdown, measure, shortcomings


def _result(**changes: float) -> Result:
    figures = {"perplexity_before": 4000.0, "perplexity_after": 800.0, "accuracy": 28.0} | changes
    return Result(parameters=10, tokens_per_second=5, seconds={}, **figures)


def test_the_verdict_names_what_was_missed() -> None:
    assert shortcomings({"A": _result()}, 14.0) == []
    (missed,) = shortcomings({"A": _result(), "B": _result(perplexity_after=801.0)}, 14.0)
    assert "B: validation perplexity 801.0" in missed and "4,000.0" in missed
    (missed,) = shortcomings({"A": _result(accuracy=27.9)}, 14.0)
    assert missed == "A: accuracy 27.9 % is less than twice the majority class's 14.0 %"


def test_a_log_without_results_is_named(tmp_path: Path) -> None:
    for model in ("linformer", "roberta"):
        (tmp_path / f"pretrain_{model}").mkdir()
        (tmp_path / f"pretrain_{model}" / "train.log").write_text('{"num_updates": "10", "wps": "1"}')
    with pytest.raises(ValueError, match="pretrain_roberta/train.log: no training progress or no validation"):
        measure(tmp_path, "roberta")


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

"""The rounds, the ratios, the comparison of ids and the tables of the benchmarks of data preparation."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks import binarizing, preparation
from benchmarks.binarizing import Numbers
from benchmarks.measuring import Measured
from data_prep.binarize import binarize
from tests.data_prep.small_tokenizers import make_gpt2, text

MADE = {
    "command": "python benchmarks/some.py",
    "commit": "0123456789abcdef",
    "uncommitted_changes": False,
    "date": "2026-11-22 12:00 UTC",
    "hardware": "a processor, 2 cores, 24 GiB",
    "load_before": 0.1,
    "python": "3.11.7",
    "versions": {"numpy": "2.4.6"},
}


def test_a_line_needs_two_sizes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(binarizing, "measure", lambda *_: pytest.fail("measured"))
    for sizes in (["20"], ["20", "20"]):
        with pytest.raises(SystemExit):
            binarizing.main(["--text", "a.txt", "--bpe", "bpe", "--sizes", *sizes])
        assert "at least two sizes" in capsys.readouterr().err


def taking(*seconds: float) -> list[Numbers]:
    return [{"seconds": one, "cpu_seconds": 2 * one, "peak_bytes": 1e6 * one} for one in seconds]


def compared(**ids: Any) -> dict[str, Any]:
    runs = {
        "fairseq": taking(40, 90, 50),
        "hugging_face": taking(12, 9, 10),
        "gpt2_bpe": taking(2, 3, 5),
        "sentencepiece": taking(4, 4, 4),
    }
    return {
        "workers": 2,
        "megabytes": 20.0,
        "programs": {name: binarizing.summary(found, 20.0) for name, found in runs.items()},
        "ids": {"fairseq": True, "hugging_face": {"lines": 100, "their_lines": 100, "different": 0}, **ids},
        "sizes": [binarizing.summary(taking(size / 10), size) for size in (10, 20, 40)],
        "fit": {key: {"start": 0.0, "slope": 0.1, "r_squared": 1.0} for key in ("seconds", "cpu_seconds")},
        "provenance": MADE,
    }


def test_commands_one_after_the_other_are_one_run() -> None:
    found = binarizing.numbers(Measured(1.0, 2.0, 30), Measured(4.0, 5.0, 20))
    assert found == {"seconds": 5.0, "cpu_seconds": 7.0, "peak_bytes": 30}


def test_programs_run_in_turn_and_their_folders_go(tmp_path: Path) -> None:
    order: list[str] = []

    def program(name: str) -> Any:
        def run(out: Path) -> Numbers:
            out.mkdir()
            order.append(name)
            return taking(len(order))[0]

        return run

    def look(folder: Path) -> list[str]:
        order.append("look")
        return sorted(path.name for path in folder.iterdir())

    found, seen = binarizing.rounds_of({"a": program("a"), "b": program("b")}, 2, tmp_path, look)
    assert order == ["a", "b", "look", "a", "b"] and seen == ["a", "b"]
    assert [one["seconds"] for one in found["b"]] == [2, 5]
    assert list(tmp_path.iterdir()) == []


def test_a_ratio_is_the_median_over_the_rounds() -> None:
    result = compared()
    assert binarizing.ratio(result, "fairseq", "gpt2_bpe") == 20  # of 20, 30 and 10; the medians' would be 16.7
    assert binarizing.ratio(result, "hugging_face", "gpt2_bpe") == 3
    assert binarizing.ratio(result, "fairseq", "hugging_face") == 5
    assert result["programs"]["fairseq"]["seconds"] == 50 and result["programs"]["fairseq"]["peak_bytes"] == 90e6


def test_the_table_for_readme() -> None:
    lines = binarizing.comparison(compared())
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert [row[1:] for row in rows[2:]] == [
        ["50.0", "1", "0.2", "90 MB"],
        ["10.0", "5.0", "1", "12 MB"],
        ["3.0", "20.0", "3.0", "5 MB"],
        ["4.0", "12.5", "2.5", "4 MB"],
    ]
    assert "0 of 100 lines" in lines[-1] and "3 rounds" in lines[-1] and "0123456789" in lines[-1]
    page = binarizing.table(compared())
    assert "| 40.0 | 90.0 | 50.0 |" in page and "| 40.0 | 4.00 | 10.0 |" in page


def test_other_ids_are_said() -> None:
    assert "DIFFER from fairseq's" in binarizing.same_ids(compared(fairseq=False))
    found = {"lines": 100, "their_lines": 100, "different": 7}
    assert "7 of 100 lines" in binarizing.same_ids(compared(hugging_face=found))
    assert "101 lines of 100" in binarizing.same_ids(compared(hugging_face={**found, "their_lines": 101}))


def test_the_table_of_the_steps() -> None:
    steps = {
        step: binarizing.summary(taking(*seconds), 10.0)
        for step, seconds in zip(preparation.STEPS, ((1, 2, 3), (9, 8, 7), (4, 4, 5)), strict=True)
    }
    counts = {"documents": 1100, "words": 20000, "tokens": 30000}
    result = {"workers": 2, "sizes": [{"megabytes": 10.0, "train": counts, "steps": steps}], "provenance": MADE}
    row = preparation.by_size(result)[2]
    assert row == "| 10 MB of books and Wikipedia | 2.0 s, 3 MB | 8.0 s, 9 MB | 4.0 s, 5 MB |"
    assert "3 rounds" in preparation.by_size(result)[-1]
    assert "| 1,100 | 20,000 | 30,000 |" in preparation.table(result)


def test_lines_are_stripped_and_as_many_as_asked_for(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("  a b \n\nsecond\n" * 10)
    written = tmp_path / "folder" / "train.txt"
    assert binarizing.write_text(written, binarizing.text_lines(tmp_path / "text.txt", None, 16)) == 1.2e-5
    assert written.read_text() == "a b\n\nsecond\n"


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("fairseq", *binarizing.RIVALS))), reason="tokenizers or datasets is missing"
)
def test_hugging_face_gives_our_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks import hugging_face_data

    monkeypatch.setattr(os, "environ", os.environ)  # `datasets` replaces it by a copy, which others do not look at
    bpe = make_gpt2(tmp_path / "bpe")
    source = tmp_path / "train.txt"
    source.write_text(text(20) + "\nI'm  two blanks, naïve\u0085 ½²\u2028 🤖\n")
    hugging_face_data.prepare(source, bpe, tmp_path / "arrow", workers=1)
    binarize([source], bpe, tmp_path / "bin")
    found = binarizing.different_lines(tmp_path / "arrow", tmp_path / "bin")
    assert found == {"lines": found["lines"], "their_lines": found["lines"], "different": 0} and found["lines"] > 40
    changed = tmp_path / "changed" / "train.txt"
    changed.parent.mkdir()
    changed.write_text(source.read_text().replace("I'm", "I"))
    binarize([changed], bpe, tmp_path / "other")
    assert binarizing.different_lines(tmp_path / "arrow", tmp_path / "other")["different"] == 1
    assert not binarizing.same_files(tmp_path / "bin", tmp_path / "other")

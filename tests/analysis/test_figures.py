"""The figures of stored records, with names that matplotlib would take for mathematics, and values beyond 100 %."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

from linformer_fairseq.analysis import limits_figure
from linformer_fairseq.analysis.insertion_figure import draw_insertion
from linformer_fairseq.analysis.limits_figure import draw_limits
from linformer_fairseq.analysis.spectrum_figure import draw_spectrum

RESULTS = Path(__file__).parents[2] / "results" / "analysis"


@pytest.mark.parametrize(
    ("stored", "draw"),
    [
        ("limits_dense_small/limits.json", draw_limits),
        ("insertion_imdb_roberta_s1/insertion.json", draw_insertion),
        ("dense_small/spectrum.json", lambda record, folder: draw_spectrum(record, 1, folder)),
    ],
)
def test_a_dollar_in_a_name_is_no_mathematics(stored: str, draw: Any, tmp_path: Path) -> None:
    record = json.loads((RESULTS / stored).read_text())
    record["settings"] |= {"model": "a_$x_{$b", "data": "a_$x_{$b.txt"}
    assert all(path.is_file() for path in draw(record, tmp_path))


def test_a_change_of_more_than_100_percent_is_within_the_axes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = json.loads((RESULTS / "limits_dense_small/limits.json").read_text())
    drawn: list[Any] = []
    monkeypatch.setattr(limits_figure, "save_both", lambda canvas, _: drawn.append(canvas))
    draw_limits(record, tmp_path)
    record["shifts"][-1]["moved"]["change"] = 1.2
    draw_limits(record, tmp_path)
    usual, higher = ({axes.get_ylim() for axes in canvas.axes} for canvas in drawn)
    assert usual == {(0, 100)}
    ((low, high),) = higher  # one scale for both
    assert low == 0 and high > 120

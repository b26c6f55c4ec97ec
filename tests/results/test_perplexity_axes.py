"""Axes of perplexity: logarithmic, with enough plain numbers on them, and not stretched by a curve's first updates."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot
from matplotlib.axes import Axes

from linformer_fairseq.results import drawing
from linformer_fairseq.results.curves import Curve, Panel
from linformer_fairseq.results.perplexity_axes import label_axes


@pytest.fixture
def axes() -> Iterator[Axes]:
    canvas, made = pyplot.subplots()
    yield made
    pyplot.close(canvas)


@pytest.mark.parametrize(
    ("perplexities", "margin", "ticks"),
    [
        ([1000.0, 50.0, 5.0], 200**0.05, ["5", "10", "20", "50", "100", "200", "500", "1,000"]),
        ([4.5, 9.0], 2**0.05, ["4.5", "5", "5.5", "6", "6.5", "7", "7.5", "8", "8.5", "9"]),
        ([40.0, 42.0], 1.02, ["39.5", "40", "40.5", "41", "41.5", "42", "42.5"]),
        ([7.0], 1.02, ["6.9", "6.95", "7", "7.05", "7.1"]),
    ],
)
def test_scale_limits_and_ticks(axes: Axes, perplexities: list[float], margin: float, ticks: list[str]) -> None:
    axes.plot(range(len(perplexities)), perplexities)
    label_axes(axes, iter(perplexities))
    assert axes.get_yscale() == "log" and axes.get_xlim()[0] == 0
    assert axes.get_ylim() == pytest.approx((min(perplexities) / margin, max(perplexities) * margin))
    assert [label.get_text() for label in axes.get_yticklabels()] == ticks
    assert not axes.get_yticklabels(minor=True)


def test_a_curves_first_updates_may_leave_the_axes(axes: Axes) -> None:
    long = Curve("long", "a", False, [(10, 900.0), (19, 300.0), (20, 90.0), (100, 5.0)])
    short = Curve("short", "b", True, [(10, 800.0), (30, 70.0)])
    panel = Panel("", [long, short])
    drawing._draw_panel(axes, panel, [panel])
    assert axes.get_ylim() == pytest.approx((5 / 18**0.05, 90 * 18**0.05))
    assert [len(line.get_xdata()) for line in axes.get_lines()] == [4, 2]

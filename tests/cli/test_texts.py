"""The stream of texts of `linformer predict`, `embed` and `fill-mask`: what it says on the way."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from linformer_fairseq.cli.texts import TextStream
from linformer_fairseq.files import progress


def test_the_time_left_is_that_of_all_texts_that_are_sorted_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Their results come at once, so that the first of them took as long as all."""
    seconds = 0.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: seconds))
    (path := tmp_path / "texts.txt").write_text("some text\n" * 100)

    def run(texts: Iterable[object]) -> Iterator[object]:
        nonlocal seconds
        waiting = iter(texts)
        while pool := list(itertools.islice(waiting, 50)):
            seconds += 30
            yield from pool

    stream = TextStream(argparse.Namespace(input=path, out=None, format=None, field=[]))
    assert len(list(stream.results(run, "predicting"))) == 100
    first, last = capsys.readouterr().err.splitlines()
    assert first == "predicting: 50 % of 1.0 kB, 1.7 texts/s, 30 s left"
    assert last == "predicting: 1.0 kB in 1 min 0 s, 1.7 texts/s"

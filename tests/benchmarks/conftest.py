"""Tiny models, and a rate of matrix products that is not measured."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import main
from benchmarks.efficiency import rate

TINY = ["--layers", "2", "--width", "16", "--ffn", "64", "--heads", "2", "--vocabulary", "90"]
INFERENCE = ["inference", "--rounds", "1", "--tokens", "64", *TINY]

Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session", autouse=True)
def little_to_collect() -> None:
    """The programs collect garbage around every measurement, and would go through all that other tests left."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def known_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate, "calls", lambda *_: {"a shape": lambda: 1e10})


@pytest.fixture(autouse=True)
def logging_goes_on() -> Iterator[None]:
    """The program silences what others log, and must not do so for good."""
    yield
    assert logging.root.manager.disable == logging.NOTSET


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "results" / "some.json"


@pytest.fixture
def inference(out: Path) -> Run:
    """Runs the program; returns the content of the file."""

    def run(*words: str) -> dict[str, Any]:
        assert main([*INFERENCE, "--out", str(out), *words]) == 0
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs the program, which must say what is wrong in one line; returns it."""

    def run(*words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("error: ")
        return line

    return run

"""What a long step says of itself."""

import pytest

from linformer_fairseq.files import progress
from linformer_fairseq.files.progress import Progress


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_a_log_gets_a_line_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading", 100_000_000) as shown:
        for _ in range(10):
            clock.now += 9
            shown.advance(10_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "reading: 30 % of 100.0 MB, 1.1 MB/s, 1 min 3 s left"
    assert lines[-1] == "reading: 100.0 MB in 1 min 30 s, 1.1 MB/s"
    assert len(lines) == 4


def test_what_an_earlier_run_did_is_no_speed(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading", 100_000_000, done=80_000_000) as shown:
        clock.now += 20
        shown.advance(10_000_000)
    assert "90 % of 100.0 MB, 0.5 MB/s, 20 s left" in capsys.readouterr().err


def test_a_short_step_says_nothing_in_a_log(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading", None) as shown:
        clock.now += 1
        shown.advance(1)
    assert capsys.readouterr().err == ""


def test_hours(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading", 1_000_000_000_000) as shown:
        clock.now += 60
        shown.advance(1_000_000_000)
    assert "16 h 39 min left" in capsys.readouterr().err


def test_other_things_than_bytes(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("evaluating", 4_000, items="examples") as shown:
        clock.now += 20
        shown.advance(1_000)
    assert "evaluating: 25 % of 4,000 examples, 50 examples/s, 1 min 0 s left" in capsys.readouterr().err


def test_a_slow_rate_has_a_decimal(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("SVD", 100, items="blocks") as shown:
        clock.now += 20
        shown.advance(12)
    assert "SVD: 12 % of 100 blocks, 0.6 blocks/s, 2 min 27 s left" in capsys.readouterr().err


def test_little_is_told_in_kilobytes(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("reading", 50_000) as shown:
        clock.now += 20
        shown.advance(10_000)
    assert "reading: 20 % of 50.0 kB, 0.5 kB/s, 1 min 20 s left" in capsys.readouterr().err


def test_the_rate_may_be_that_of_steps(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("embedding", 1_000_000, steps="texts") as shown:
        for _ in range(5):
            clock.now += 10
            shown.advance(100_000)
        clock.now += 0.1
        for _ in range(1000):
            shown.advance(500)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "embedding: 20 % of 1.0 MB, 0.1 texts/s, 1 min 20 s left"
    assert lines[-1] == "embedding: 1.0 MB in 50 s, 20 texts/s"

"""How far a long step is: share, rate and time left, on stderr.

tqdm and rich draw for a terminal; in the log of a job this writes whole lines, seldom, each of which stays.
"""

import sys
import time
from types import TracebackType

_ON_TERMINAL, _IN_LOG = 0.5, 20.0
"""Seconds between two lines: on a terminal they replace each other, in a log each stays."""


class Progress:
    """Counts bytes, or something else, and says now and then how many.

    A context manager; the last line tells the whole.
    """

    def __init__(self, label: str, total: int | None, done: int = 0, items: str = "", steps: str = "") -> None:
        """Args:
        label: what is being done.
        total: how many in all, where known.
        done: of these, what an earlier run did.
        items: what is counted, in the plural; bytes, in kB or MB, if it is empty.
        steps: what a call of `advance` or `add` is, in the plural, if the rate is to be given in these.
        """
        self._label, self._total, self._items, self._steps = label, total, items, steps
        self._done = self._before = done
        self._calls = 0
        self._terminal = sys.stderr.isatty()
        self._started = self._shown = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        seconds = time.monotonic() - self._started
        # A step of a few seconds needs no summary in a log.
        if kind is None and (self._terminal or seconds > _IN_LOG):
            self._show(f"{self._amount(self._done)} in {_duration(seconds)}{self._rate(seconds)}")
        if self._terminal and self._shown > self._started:
            print(file=sys.stderr)

    def advance(self, count: int) -> None:
        """``count`` more are done."""
        self.add(count)
        self.tell()

    def add(self, count: int) -> None:
        """Do as `advance`, but leave it to `tell` to say so: where many are done at a time, their first is no rate."""
        self._done += count
        self._calls += 1

    def tell(self) -> None:
        """Say how far it is, if the last line is not of just before."""
        now = time.monotonic()
        if now - self._shown < (_ON_TERMINAL if self._terminal else _IN_LOG):
            return
        self._shown = now
        seconds = now - self._started
        text = self._amount(self._done)
        if self._total:
            text = f"{min(100.0, 100 * self._done / self._total):.0f} % of {self._amount(self._total)}"
        text += self._rate(seconds)
        fresh = self._done - self._before
        if self._total and fresh > 0:
            text += f", {_duration(max(0, self._total - self._done) * seconds / fresh)} left"
        self._show(text)

    def _rate(self, seconds: float) -> str:
        seconds = max(seconds, 1e-9)
        rate = self._calls / seconds if self._steps else (self._done - self._before) / seconds
        if unit := self._steps or self._items:
            return f", {rate:,.{1 if rate < 10 else 0}f} {unit}/s"
        return f", {self._amount(rate)}/s"

    def _amount(self, number: float) -> str:
        if self._items:
            return f"{number:,.0f} {self._items}"
        return f"{number / 1e6:,.1f} MB" if number >= 1e5 else f"{number / 1e3:,.1f} kB"

    def _show(self, text: str) -> None:
        line = f"{self._label}: {text}"
        self._shown = time.monotonic()
        print(
            f"\r{line:<79}" if self._terminal else line, end="" if self._terminal else "\n", file=sys.stderr, flush=True
        )


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{whole} s"

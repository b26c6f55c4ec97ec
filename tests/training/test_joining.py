"""How long processes wait for each other, and which of them count; nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from linformer_fairseq.training import joining, process_group
from linformer_fairseq.training.joining import JoinError, join


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, timedelta]:
    """The time limits that torch was given, by what they are for."""
    given: dict[str, timedelta] = {}

    class Store:
        def set_timeout(self, timeout: timedelta) -> None:
            given["store"] = timeout

    def rendezvous(*_: Any, timeout: timedelta) -> Iterator[tuple[Store, int, int]]:
        given["meeting"] = timeout
        yield Store(), 0, 2

    monkeypatch.setattr(dist, "rendezvous", rendezvous)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, timeout, **__: given.update(collective=timeout))
    monkeypatch.setattr(joining, "gather", lambda _: ["a (process 1)", "a (process 2)"])
    return given


def _join() -> list[str]:
    return join("gloo", "tcp://localhost:1", 0, world_size=2, seconds=5)


def test_only_the_meeting_has_the_limit_of_joining(limits: dict[str, timedelta]) -> None:
    """Later, the others wait while the first process saves or validates."""
    assert _join() == ["a (process 1)", "a (process 2)"]
    while_saving = timedelta(minutes=30)
    assert limits == {"meeting": timedelta(seconds=5), "store": while_saving, "collective": while_saving}


@pytest.mark.usefixtures("limits")
def test_a_process_that_joined_twice_is_not_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "gather", lambda _: ["a (process 1)", "a (process 1)"])
    with pytest.raises(JoinError, match="but 1 joined"):
        _join()


@pytest.mark.parametrize("rank", [0, 1])
def test_only_the_first_process_looks(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_rank", lambda: rank)
    monkeypatch.setattr(process_group, "gather", lambda text: [text])
    looked: list[int] = []
    found = process_group.on_first_rank(lambda: looked.append(rank) or "found", RuntimeError)
    assert (looked, found) == (([0], "found") if rank == 0 else ([], None))

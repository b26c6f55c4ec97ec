"""Functions are replaced once by each mend, and several mends may go around the same function."""

import functools
from collections.abc import Callable
from types import SimpleNamespace

import pytest

pytest.importorskip("fairseq")

from linformer_fairseq.compat.patching import replace


def doubled(function: Callable[[], int]) -> Callable[[], int]:
    return functools.wraps(function)(lambda: 2 * function())


def plus(count: int) -> Callable[[Callable[[], int]], Callable[[], int]]:
    def make(function: Callable[[], int]) -> Callable[[], int]:
        return functools.wraps(function)(lambda: function() + count)

    return make


def three() -> int:
    return 3


def test_each_mend_once_and_the_later_one_around() -> None:
    owner = SimpleNamespace(three=three)
    for _ in range(2):
        replace(owner, "three", doubled)
        replace(owner, "three", plus(1))  # made anew at each call, and still the same mend
    assert owner.three() == 7
    assert owner.three.__name__ == "three" and three() == 3

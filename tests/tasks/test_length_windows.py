"""Order by length within windows, on lengths alone."""

import numpy as np
import pytest

from linformer_fairseq.tasks.length_windows import by_length

LENGTHS = np.random.default_rng(1).integers(1, 100, 1000).astype(np.int32)
ORDER = np.random.default_rng(2).permutation(1000)


def test_windows_hold_what_they_held_before_and_go_up_and_down() -> None:
    found = by_length(ORDER, LENGTHS, 100)
    for number in range(10):
        part = slice(100 * number, 100 * (number + 1))
        assert sorted(found[part]) == sorted(ORDER[part])
        steps = np.diff(LENGTHS[found[part]]) * (-1 if number % 2 else 1)
        assert steps.min() >= 0
    assert abs(np.diff(LENGTHS[found])).max() < 30, "from one window to the next there is no great step"


def test_examples_of_the_same_length_keep_their_order() -> None:
    same = np.full(1000, 7)
    assert np.array_equal(by_length(ORDER, same, 100), ORDER)


@pytest.mark.parametrize("window", [1, 7, 100, 999, 10**9])
@pytest.mark.parametrize("count", [0, 1, 5, 1000])
def test_every_example_is_there_once_whatever_the_window(window: int, count: int) -> None:
    found = by_length(ORDER[:count], LENGTHS, window)
    assert sorted(found) == sorted(ORDER[:count]) and found.dtype == ORDER.dtype


def test_small_data_are_several_windows_too() -> None:
    found = by_length(ORDER, LENGTHS, 10**9)
    assert sorted(found[:250]) == sorted(ORDER[:250])

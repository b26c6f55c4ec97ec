"""The largest number that still fits."""

from __future__ import annotations

from collections.abc import Callable


def largest(fits: Callable[[int], bool], at_most: int) -> int:
    """The largest number up to ``at_most`` that fits, 0 if 1 does not: by doubling, then by bisection.

    Args:
        fits: asked of each number once at most; if a number fits, so do all below it.
        at_most: at least 1.
    """
    good, bad = 0, 1
    while bad <= at_most and fits(bad):
        good, bad = bad, bad * 2
    if bad > at_most:
        if good == at_most or fits(at_most):
            return at_most
        bad = at_most
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good

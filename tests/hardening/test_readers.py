"""Every reader takes damaged and hostile files by the thousand: it reads them, or refuses them by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hardening.outcomes import outcomes
from tests.hardening.readers import READERS, Reader

FAST, SLOW = 40, 2000


def by_name(slow: bool) -> list[pytest.param]:
    return [pytest.param(reader, id=reader.name) for reader in READERS if slow or not reader.slow]


def check(reader: Reader, numbers: range, work: Path) -> None:
    counts, wrong = outcomes(reader, numbers, work)
    assert wrong == [], f"{len(wrong)} of {len(numbers)}"
    assert (counts["refused"] or reader.lenient) and sum(counts.values()) == len(numbers), counts


@pytest.mark.slow
@pytest.mark.parametrize("reader", by_name(slow=False))
def test_dozens(reader: Reader, tmp_path: Path) -> None:
    check(reader, range(round(FAST * min(1, 5 * reader.share))), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("reader", by_name(slow=True))
def test_thousands(reader: Reader, tmp_path: Path) -> None:
    check(reader, range(FAST, FAST + round(SLOW * reader.share)), tmp_path)

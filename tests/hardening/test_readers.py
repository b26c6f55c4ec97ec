"""Every reader takes damaged and hostile files by the thousand: it reads them, or refuses them by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hardening.outcomes import outcomes
from tests.hardening.readers import READERS, Reader

MUTANTS = 2000


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_mutants(reader: Reader, tmp_path: Path) -> None:
    numbers = range(round(MUTANTS * reader.share))
    counts, wrong = outcomes(reader, numbers, tmp_path)
    assert wrong == [], f"{len(wrong)} of {len(numbers)}"
    assert (counts["refused"] or reader.lenient) and sum(counts.values()) == len(numbers), counts

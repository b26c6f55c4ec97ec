from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with a dictionary and no text."""
    from tests.adapter.building import write_dictionary

    write_dictionary(tmp_path / "data")
    return tmp_path / "data"

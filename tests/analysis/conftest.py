from __future__ import annotations

from pathlib import Path

import pytest

from tests.conversion.sources import make_fairseq
from tests.data_prep.small_tokenizers import text


@pytest.fixture(scope="session")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fairseq RoBERTa of 2 layers with 2 heads and n = 24; not to be changed."""
    folder = tmp_path_factory.mktemp("analysis") / "roberta"
    make_fairseq(folder)
    return folder


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of some thousand tokens."""
    path = tmp_path_factory.mktemp("analysis") / "sample.txt"
    path.write_text(text(40), encoding="utf-8")
    return path

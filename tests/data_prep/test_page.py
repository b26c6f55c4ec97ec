"""The page that follows a document from source to batch is true."""

import doctest
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY


def test_the_page_is_a_session_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("fairseq")
    import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    failed, tried = doctest.testfile(
        str(REPOSITORY / "data_prep" / "README.md"), module_relative=False, encoding="utf-8"
    )
    assert tried > 30 and failed == 0

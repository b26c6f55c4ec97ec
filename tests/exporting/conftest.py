from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("transformers")


# The marks of Hugging Face's common model tests.
_MARKS = ("accelerate_tests", "flash_attn_test", "flash_attn_3_test", "flash_attn_4_test", "torch_compile_test")


def pytest_configure(config: pytest.Config) -> None:
    for mark in _MARKS:
        config.addinivalue_line("markers", f"{mark}: a mark of Hugging Face's tests")


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """linformer-small as a folder of transformers."""
    from linformer_fairseq.exporting.hugging_face import export_folder

    out = tmp_path_factory.mktemp("exported") / "linformer-small"
    export_folder("linformer-small", out)
    return out


@pytest.fixture(scope="session")
def hub() -> object:
    """linformer-small in fairseq."""
    from linformer_fairseq.models import LinformerRobertaModel

    return LinformerRobertaModel.from_pretrained("linformer-small").eval()

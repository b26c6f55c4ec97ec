"""A checkpoint that does not fit: the last line says why."""

import pytest

from linformer_fairseq.checkpoints.reading import CheckpointError
from linformer_fairseq.patches.restore_errors import _with_reason


def _fails_as_fairseq_does(self: object, filename: str) -> None:
    try:
        raise ValueError("k is 128 in the checkpoint, 64 in the model")
    except Exception:
        raise Exception(  # noqa: B904 (as fairseq does)
            f"Cannot load model parameters from checkpoint {filename}; please ensure that the architectures match."
        )


def test_reason_is_said_last() -> None:
    with pytest.raises(CheckpointError, match=r"x\.pt: .* k is 128 in the checkpoint, 64 in the model$") as error:
        _with_reason(_fails_as_fairseq_does)(object(), "x.pt")
    assert isinstance(error.value.__cause__, ValueError)


def test_other_errors_pass() -> None:
    def fails(self: object, filename: str) -> None:
        raise AssertionError("Optimizer does not match")

    with pytest.raises(AssertionError, match="Optimizer does not match"):
        _with_reason(fails)(object(), "x.pt")

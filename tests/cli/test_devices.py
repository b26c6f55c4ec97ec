"""The device of a command."""

from __future__ import annotations

import pytest

from linformer_fairseq.cli import devices


@pytest.mark.parametrize(
    ("bf16", "has", "warned"), [(True, False, True), (True, True, False), (True, None, False), (False, False, False)]
)
def test_bfloat16_is_warned_of_on_a_processor_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bf16: bool, has: bool | None, warned: bool
) -> None:
    monkeypatch.setattr(devices, "has_bfloat16", lambda: has)
    assert devices.device_of("cpu", bf16).type == "cpu"
    assert ("--bf16" in capsys.readouterr().err) is warned

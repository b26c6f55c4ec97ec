"""Linear maps of the same input, together and by themselves."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from linformer_fairseq.core import linear_maps
from linformer_fairseq.core.linear_maps import faster_together, together


def _maps() -> list[nn.Linear]:
    torch.manual_seed(0)
    return [nn.Linear(8, width).bfloat16() for width in (8, 8, 8)]


@pytest.fixture
def amx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_maps, "has_amx", lambda: True)


@torch.no_grad()
def test_together_as_by_themselves() -> None:
    maps, x = _maps(), torch.randn(2, 5, 8).bfloat16()
    for one, out in zip(maps, together(maps, x), strict=True):
        torch.testing.assert_close(out, one(x))


@torch.no_grad()
def test_only_where_it_is_faster_and_nothing_is_left_out(amx: None, monkeypatch: pytest.MonkeyPatch) -> None:
    maps, x = _maps(), torch.randn(4, 128, 8).bfloat16()
    assert faster_together(maps, x)
    assert not faster_together(maps, x[:, :127]), "copying the weights takes longer"
    with torch.enable_grad():
        assert not faster_together(maps, x)
    assert not faster_together(maps, x.float())
    assert not faster_together(maps, x.to("meta"))
    assert not faster_together([*maps, nn.Sequential(maps[0])], x), "LoRA"
    handle = maps[1].register_forward_hook(lambda *args: None)
    assert not faster_together(maps, x)
    handle.remove()
    monkeypatch.setattr(linear_maps, "has_amx", lambda: False)
    assert not faster_together(maps, x)

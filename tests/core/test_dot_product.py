"""Attention by torch's fused kernel and in steps."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from linformer_fairseq.core import PROJECTIONS, LinformerSelfAttention, LinformerSettings, dot_product
from linformer_fairseq.core.dot_product import _LARGEST_IN_INFERENCE, dot_product_attention, without_cudnn
from tests.core.cases import padding_mask

B, H, D = 2, 3, 8
SCALE = 0.3


def draw(heads: int, length: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(B, heads, length, D, generator=torch.Generator().manual_seed(heads + length)).to(dtype)


def exact(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    scores = torch.einsum("bhtd,bhrd->bhtr", query.double() * SCALE, keys.double().expand(-1, H, -1, -1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhtr,bhrd->bhtd", weights, values.double().expand(-1, H, -1, -1)), weights


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Mock:
    spy = Mock(wraps=F.scaled_dot_product_attention)
    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return spy


@pytest.fixture(params=[False, True], ids=["no_amx", "amx"])
def amx(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    found: bool = request.param
    monkeypatch.setattr("linformer_fairseq.core.dot_product._has_amx", lambda: found)
    return found


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("heads", [1, H], ids=["one_head", "own_heads"])
@pytest.mark.parametrize("length", [1, 6, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_the_output_is_softmax_of_scores_times_values(
    dtype: torch.dtype, length: int, heads: int, masked: bool, amx: bool, fused: Mock
) -> None:
    rows = 9
    query, keys, values = draw(H, length, dtype), draw(heads, rows, dtype), draw(heads, rows, dtype)
    kept = [one.clone() for one in (query, keys, values)]
    mask = torch.arange(rows) < torch.tensor([4, 9]).view(B, 1, 1, 1) if masked else None
    expected, weights = exact(query, keys, values, mask)
    tolerance = 1e-5 if dtype == torch.float32 else 0.03
    with torch.inference_mode():
        found, none = dot_product_attention(query, keys, values, mask, scale=SCALE)
    assert none is None and found.shape == query.shape and found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=0)
    # with as many rows or more for each head of few positions, copies of the keys would cost more
    in_steps = dtype == torch.bfloat16 and not amx and (heads == 1 or rows <= 2 * length)
    assert fused.called == (not in_steps)
    found, stored = dot_product_attention(query, keys, values, mask, scale=SCALE, stored=True)
    assert stored is not None and stored.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=0)
    torch.testing.assert_close(stored.double(), weights, atol=tolerance, rtol=0)
    for one, before in zip((query, keys, values), kept, strict=True):
        assert torch.equal(one, before), "an input was overwritten"


def test_large_scores_are_left_to_the_fused_kernel(fused: Mock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linformer_fairseq.core.dot_product._has_amx", lambda: False)
    query, keys = draw(H, 6, torch.bfloat16), draw(H, 6, torch.bfloat16)
    for largest, called in ((B * H * 6 * 6, False), (B * H * 6 * 6 - 1, True)):
        monkeypatch.setattr("linformer_fairseq.core.dot_product._LARGEST_IN_INFERENCE", largest)
        dot_product_attention(query, keys, keys, scale=SCALE)
        assert fused.called == called
    assert _LARGEST_IN_INFERENCE * 2 == 24 * 2**20


@pytest.mark.parametrize(
    ("rows", "dropout", "amx", "called"),
    [
        (256, 0.0, False, False),
        (257, 0.0, False, True),  # too many rows, and 257 * 512 > 2^17
        (256, 0.0, True, False),  # 256 * 512 = 2^17
        (257, 0.0, True, True),
        (257, 0.1, True, False),  # no fused kernel has dropout
        (257, 0.1, False, False),
    ],
)
def test_training_is_in_steps_for_few_rows_and_with_dropout(
    fused: Mock, monkeypatch: pytest.MonkeyPatch, rows: int, dropout: float, amx: bool, called: bool
) -> None:
    monkeypatch.setattr("linformer_fairseq.core.dot_product._has_amx", lambda: amx)
    query, keys = draw(H, 512, torch.bfloat16).requires_grad_(), draw(H, rows, torch.bfloat16)
    dot_product_attention(query, keys, keys, scale=SCALE, dropout=dropout)
    assert fused.called == called
    fused.reset_mock()
    with torch.no_grad():  # as a checkpoint runs it first, with the same dropout
        dot_product_attention(query.detach(), keys, keys, scale=SCALE, dropout=dropout)
    assert dropout == 0 or not fused.called


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["fused", "in_steps"])
def test_weights_are_dropped_with_the_given_probability(fused: Mock, dtype: torch.dtype, stored: bool) -> None:
    rows, dropout = 64, 0.25
    query, keys = torch.zeros(B, H, 40, D, dtype=dtype), torch.zeros(B, H, rows, D, dtype=dtype)
    values = torch.eye(rows, dtype=dtype).expand(B, H, -1, -1)  # the output is the weights
    torch.manual_seed(0)
    found, kept = dot_product_attention(query, keys, values, scale=SCALE, dropout=dropout, stored=stored)
    assert fused.called == (dtype == torch.float32 and not stored)
    assert (found == 0).float().mean().item() == pytest.approx(dropout, abs=0.02)
    assert found.max().item() == pytest.approx(1 / rows / (1 - dropout), rel=0.01)
    assert kept is None or torch.equal(kept, torch.full_like(kept, 1 / rows)), "P is without dropout"


@pytest.mark.parametrize("rows", [1, 7, 64, 1000, 5000])
def test_torch_computes_a_softmax_in_place(rows: int) -> None:
    # torch does not promise this for an output that is the input
    scores = (torch.randn(70, rows, generator=torch.Generator().manual_seed(rows)) * 4).bfloat16()
    scores[::3, rows // 2 + 1 :] = float("-inf")
    expected = scores.clone().softmax(dim=-1)
    assert torch.equal(torch.softmax(scores, -1, out=scores), expected)


@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("enabled", [True, False])
def test_masked_attention_is_computed_without_cudnn(
    enabled: bool, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def attend(query: Tensor, *args: object, **kwargs: object) -> Tensor:
        seen.append(torch.backends.cuda.cudnn_sdp_enabled())
        return query

    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)
    query = draw(H, 4, torch.float32)
    mask = torch.ones(B, 1, 1, 4, dtype=torch.bool) if masked else None
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(enabled)
    try:
        dot_product_attention(query, query, query, mask, scale=SCALE)
        assert torch.backends.cuda.cudnn_sdp_enabled() == enabled
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
    assert seen == [enabled and not masked]


def test_threads_leave_cudnn_as_it_was() -> None:
    """The setting is the process's: a second thread must not take the first one's for what was there before."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with without_cudnn():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    torch.backends.cuda.enable_cudnn_sdp(True)
    try:
        with without_cudnn():
            thread.start()
            assert inside.wait(10)
        assert not torch.backends.cuda.cudnn_sdp_enabled(), "the other thread is still in it"
        leave.set()
        thread.join()
        assert torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        leave.set()
        torch.backends.cuda.enable_cudnn_sdp(before)


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_padded_batches_of_every_projection_are_computed_without_cudnn(
    projection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []

    @contextmanager
    def spy() -> Iterator[None]:
        entered.append(projection)
        yield

    monkeypatch.setattr(dot_product, "without_cudnn", spy)
    settings = LinformerSettings(16, 2, 1, max_positions=12, projected_dim=4, sharing="none", projection=projection)
    attention = LinformerSelfAttention(settings)
    x = torch.randn(2, 12, 16)
    attention(x)
    assert not entered
    attention(x, padding_mask([12, 9], 12))
    assert entered == [projection]

"""E as a matrix over tokens is that of the literal implementation, for every projection and sharing."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from linformer_fairseq.analysis.projected_rows import projected_rows
from linformer_fairseq.core import LinformerSelfAttention, build_shared_projection
from linformer_fairseq.core.reference import _projection_of
from tests.core.cases import EVERY_CASE, HEADS, WIDTH, N, randomise, settings_of

LAYER = 1


def make(case: str) -> LinformerSelfAttention:
    settings = settings_of(case)
    shared = build_shared_projection(settings)
    attention = LinformerSelfAttention(settings, LAYER, shared).eval()
    randomise(attention)
    if shared is not None:
        randomise(shared)
    return attention


def unit(length: int, token: int) -> Tensor:
    x = torch.zeros(length, WIDTH)
    x[token] = 1
    return x


@pytest.mark.parametrize("length", [pytest.param(N, marks=pytest.mark.slow), 13, 3])
@pytest.mark.parametrize("case", [case for case in EVERY_CASE if "max_pool" not in case])
def test_what_one_token_adds_to_the_rows(case: str, length: int) -> None:
    attention = make(case)
    d = attention.settings.head_dim
    found = projected_rows(attention, torch.randn(2, length, WIDTH))
    assert len(found) == HEADS
    for head, (weights, window) in enumerate(found):
        project = _projection_of(attention, "k", head)
        # X W has the sum over the features of a token; so each feature of the row is the weight, or its mean
        w = torch.full((d, WIDTH), 1 / WIDTH)
        expected = torch.stack([project(unit(length, token), w).mean(1) for token in range(length)], dim=1)
        torch.testing.assert_close(weights, expected)
        if window is not None and attention.settings.kernel_strides == 1:
            outside = torch.arange(length) // window != torch.arange(len(weights)).unsqueeze(1)
            assert (weights[outside] == 0).all() and (weights != 0).sum() == length
        else:
            assert window or attention.settings.projection == "linear"


@pytest.mark.parametrize("case", [case for case in EVERY_CASE if "max_pool" in case])
def test_the_largest_of_a_window(case: str) -> None:
    attention = make(case)
    x = torch.randn(2, 13, WIDTH, generator=torch.Generator().manual_seed(1))
    for weights, window in projected_rows(attention, x):
        assert window is not None
        expected = torch.zeros_like(weights)
        for row in range(len(weights)):
            start = row * window
            for winner in x[0, start : start + window].argmax(0).tolist():
                expected[row, start + winner] += 1 / WIDTH
        torch.testing.assert_close(weights, expected)


def test_equal_tokens_share() -> None:
    weights, window = projected_rows(make("key_value-max_pool"), torch.ones(1, 6, WIDTH))[0]
    assert window == 3
    torch.testing.assert_close(weights, torch.eye(2).repeat_interleave(3, dim=1) / 3)

"""Curves of singular values, and what is said of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from linformer_fairseq.analysis.singular_values import (
    cumulative,
    logit_variance,
    needed,
    of_random_logits,
)


def test_shares_of_known_singular_values() -> None:
    rotation, _ = torch.linalg.qr(torch.randn(5, 5, generator=torch.Generator().manual_seed(1)))
    matrix = rotation[:, :4] @ torch.diag(torch.tensor([1.0, 4.0, 2.0, 3.0]))
    found = cumulative(torch.stack([matrix, 7 * matrix]))
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, [[0.4, 0.7, 0.9, 1.0]] * 2, atol=1e-6)


def test_uniform_p_has_rank_one() -> None:
    np.testing.assert_allclose(cumulative(torch.full((6, 6), 1 / 6)), np.ones(6), atol=1e-6)


def test_how_many_are_needed() -> None:
    curves = np.array([[0.4, 0.7, 0.9, 1.0], [1.0, 1.0, 1.0, 1 - 1e-12]])
    assert needed(curves, 0.4).tolist() == [1, 1]
    assert needed(curves, 0.41).tolist() == [2, 1]
    assert needed(curves, 0.9).tolist() == [3, 1]
    assert needed(curves, 1.0).tolist() == [4, 1]


def test_softmax_shows_the_variance_of_its_logits() -> None:
    logits = 2 * torch.randn(3, 7, 11, generator=torch.Generator().manual_seed(1)) + 5
    expected = logits.double().var(-1, unbiased=False).mean(-1)
    np.testing.assert_allclose(logit_variance(logits.softmax(-1)), expected, rtol=1e-4)
    masked = torch.cat([logits, torch.full((3, 7, 2), -torch.inf)], dim=-1)
    np.testing.assert_allclose(logit_variance(masked.softmax(-1)), expected, rtol=1e-4)


def test_random_logits_of_size_zero_are_uniform_and_large_ones_are_not() -> None:
    found = of_random_logits(torch.tensor([[0.0, 1.0, 4.0]]), (20, 20), draws=3, seed=1)
    assert found.shape == (1, 3, 20)
    at_five = found[0, :, 4]
    assert at_five[0] == pytest.approx(1, abs=1e-5) and at_five[0] > at_five[1] > at_five[2] > 0.25
    assert torch.equal(found, of_random_logits(torch.tensor([[0.0, 1.0, 4.0]]), (20, 20), draws=3, seed=1))

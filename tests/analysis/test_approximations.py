"""Performer's and Nystrom attention as functions of queries, keys and values, and compared at equal cost."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from linformer_fairseq.analysis import nystrom, performer
from linformer_fairseq.analysis.approximations import DRAWS, METHODS, errors_at_equal_cost, rows_for
from linformer_fairseq.analysis.theorem2 import METHODS as THEOREM2
from linformer_fairseq.analysis.theorem2 import Sample, attention, errors, relative_error, window_means


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def drawn(length: int = 48, depth: int = 8, size: float = 0.7) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values (2, 3, length, depth)."""
    source = generator()
    query, key, value = (torch.randn(2, 3, length, depth, generator=source) for _ in range(3))
    return size * query, size * key, value


def estimated(query: Tensor, key: Tensor, value: Tensor, count: int, seed: int = 1) -> Tensor:
    features = performer.draw_features(count, query.size(-1), generator(seed))
    return performer.attend(features, query, performer.feature_rows(features, key, value))


def test_features_are_orthogonal_in_blocks_and_have_the_lengths_of_normal_vectors() -> None:
    features = performer.draw_features(20, 8, generator())
    assert features.shape == (20, 8)
    for block in features.split(8):
        product = block @ block.T
        torch.testing.assert_close(product, product.diagonal().diag(), atol=1e-4, rtol=0)
    many = performer.draw_features(8000, 8, generator())
    assert float(many.square().sum(-1).mean()) == pytest.approx(8, rel=0.05)
    torch.testing.assert_close(many.T @ many / 8000, torch.eye(8), atol=0.06, rtol=0)
    by_place = many.view(1000, 8, 8).mean(0)
    assert float(by_place.abs().amax()) < 0.3, "a direction is as likely as its opposite"


def test_features_as_in_the_paper() -> None:
    """The ratio of sums over phi(q) phi(k), in float64."""
    query, key, value = (part.double() for part in drawn())
    features = performer.draw_features(16, 8, generator()).double()

    def phi(x: Tensor) -> Tensor:
        x = x / 8**0.25
        return (x @ features.T - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(16)

    products = phi(query) @ phi(key).transpose(-2, -1)
    expected = products @ value / products.sum(-1, keepdim=True)
    found = performer.attend(features, query, performer.feature_rows(features, key, value))
    torch.testing.assert_close(found, expected)


def test_more_features_are_nearer_to_attention() -> None:
    query, key, value = drawn()
    exact = attention(query, key, value)
    errors = [
        sum(relative_error(estimated(query, key, value, count, seed), exact) for seed in range(5)) / 5
        for count in (8, 64, 512, 4096)
    ]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.2 < 0.6 < errors[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_large_queries_and_keys_do_not_overflow(dtype: torch.dtype) -> None:
    query, key, value = (part.to(dtype).requires_grad_() for part in drawn(size=40.0))
    out = estimated(query, key, value, 16)
    out.float().square().sum().backward()
    assert torch.isfinite(out).all() and out.abs().amax() <= value.abs().amax() * 1.01
    assert all(part.grad is not None and torch.isfinite(part.grad).all() for part in (query, key, value))


def test_rows_of_large_keys_have_small_numbers() -> None:
    """Half precision would round the logarithms of sums over large keys, of which only differences count."""
    _, key, value = drawn(size=40.0)
    rows = performer.feature_rows(performer.draw_features(64, 8, generator()), key, value)
    torch.testing.assert_close(rows.log_norms.amax(-1), torch.zeros(2, 3))


def landmarks(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    means = window_means(count, query.size(-2)).to(query.dtype)
    values = nystrom.landmark_values(means @ query, means @ key, key, value)
    return attention(query, means @ key, values)


def test_more_landmarks_are_nearer_to_attention() -> None:
    query, key, value = drawn(size=1.0)
    exact = attention(query, key, value)
    errors = [relative_error(landmarks(query, key, value, count), exact) for count in (4, 12, 24, 48)]
    assert errors == sorted(errors, reverse=True) and errors[-1] < 0.05


def test_as_many_landmarks_as_positions_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nystrom.pseudo_inverse, "__defaults__", (25,))
    query, key, value = (part.double() for part in drawn(length=24, size=2.0))
    torch.testing.assert_close(landmarks(query, key, value, 24), attention(query, key, value))


def test_the_iteration_converges_to_the_pseudo_inverse() -> None:
    matrix = torch.randn(3, 12, 12, generator=generator(), dtype=torch.float64).mul(2).softmax(-1)
    matrix = torch.nn.functional.pad(matrix, (0, 2, 0, 2))  # landmarks that do not exist
    expected = torch.linalg.pinv(matrix)
    error = [float((nystrom.pseudo_inverse(matrix, steps) - expected).norm()) for steps in (2, 6, 30)]
    assert error[0] > error[1] > error[2] and error[2] < 1e-8
    assert not nystrom.pseudo_inverse(matrix)[:, 12:].any()


@pytest.mark.parametrize("k", [1, 5, 64, 256])
def test_no_method_costs_more_than_k_rows(k: int) -> None:
    n, depth = 512, 64
    rows = rows_for(k, n, depth)
    budget = 4 * n * k * depth
    assert rows["window_means"] == k and 2 * n * rows["mean_pooling"] * depth == budget
    assert performer.multiplications(n, rows["performer"], depth) == budget
    m = rows["nystrom"]
    assert nystrom.multiplications(n, m + 1, depth, 1) > budget and (m == 1 or m < k)
    assert m == 1 or nystrom.multiplications(n, m, depth, 1) <= budget


def test_at_half_of_the_positions_mean_pooling_is_exact_and_costs_as_much() -> None:
    found = errors_at_equal_cost(Sample(*drawn()), 24, generator())
    assert tuple(found["errors"]) == tuple(found["rows"]) == METHODS
    assert found["errors"]["mean_pooling"] < 1e-5 < 0.1 < found["errors"]["window_means"]
    assert len(set(found["draws"])) == DRAWS and found["errors"]["performer"] == sum(found["draws"]) / DRAWS


def test_window_means_are_those_of_theorem_2() -> None:
    sample = Sample(*drawn())
    assert "window_means" in THEOREM2
    expected = errors(sample, 8, generator())["window_means"]
    assert errors_at_equal_cost(sample, 8, generator())["errors"]["window_means"] == pytest.approx(expected)


def test_errors_by_hand() -> None:
    """Each method as above, on the second half of the samples."""
    query, key, value = drawn(size=1.5)
    found = errors_at_equal_cost(Sample(query, key, value), 12, generator())
    query, key, value = query[1:], key[1:], value[1:]
    exact = attention(query, key, value)
    assert found["errors"]["nystrom"] == pytest.approx(
        relative_error(landmarks(query, key, value, found["rows"]["nystrom"]), exact)
    )
    assert found["draws"][0] == pytest.approx(relative_error(estimated(query, key, value, 12), exact))

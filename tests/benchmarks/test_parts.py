"""The search, the formulas, the rounds and the memory of a call."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.efficiency import memory, operations, paper, rate
from benchmarks.efficiency.memory import largest, no_more_than_there_is, peak_of
from benchmarks.efficiency.models.build import build
from benchmarks.efficiency.models.registry import MODELS
from benchmarks.efficiency.plots import spread
from benchmarks.efficiency.rate import calls as rate_calls  # as it is before conftest.py replaces it
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.timing import in_rounds, quartiles, times_faster
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.memory import is_out_of_memory

TINY = Sizes(layers=3, width=16, ffn=40, heads=2, vocabulary=50)
CPU = torch.device("cpu")


@pytest.mark.parametrize("most", [1, 2, 3, 7, 8, 100])
def test_the_search_finds_the_largest_that_fits(most):
    for limit in range(most + 3):
        asked = []

        def fits(number, limit=limit, asked=asked):
            asked.append(number)
            return number <= limit

        assert largest(fits, most) == min(limit, most)
        assert len(asked) == len(set(asked))
        assert all(1 <= number <= most for number in asked)


@pytest.mark.parametrize(
    ("name", "k"),
    [
        *(("linformer_core", 4), ("linformer_core_mean_pool", 4), ("performer", 4), ("nystrom", 4), ("nystrom", 5)),
        *(("recurrent", None), ("roberta_materialised", None), ("roberta_sdpa_core", None)),
    ],
)
def test_operations_are_those_that_torch_counts(name, k):
    model, batch, n = build(name, TINY, 24, k, torch.float32, CPU), 2, 24
    tokens = torch.randint(4, 49, (batch, n), generator=torch.Generator().manual_seed(1))
    # A CPU's fused attention and oneDNN's LSTM are not counted; what they compute is the same as without them.
    plain = sdpa_kernel(SDPBackend.MATH), torch.backends.mkldnn.flags(enabled=False)
    with torch.no_grad(), plain[0], plain[1], FlopCounterMode(display=False) as counter:
        assert model(tokens).shape == (batch, n, TINY.width)
    assert batch * operations.forward(TINY, n, k, MODELS[name].projection) == counter.get_total_flops()


def test_storing_takes_n_by_n_numbers_of_every_head():
    stored, not_stored = (operations.least_bytes(TINY, 100, None, stores, 3, 2) for stores in (True, False))
    assert stored - not_stored == 3 * 2 * 2 * 2 * 100 * 100


def test_rounds_begin_with_another_one_each_time():
    order = []
    calls = {name: lambda name=name: order.append(name) or float(len(order)) for name in "abc"}
    taken, failed = in_rounds(calls, 3)
    assert "".join(order) == "abcbcacab"
    assert taken == {"a": [1.0, 6.0, 8.0], "b": [2.0, 4.0, 9.0], "c": [3.0, 5.0, 7.0]} and failed == {}


def test_ratios_are_medians_of_the_rounds():
    assert times_faster([2.0, 8.0, 3.0], [1.0, 2.0, 3.0])[1] == 2.0
    assert times_faster([4.0], [1.0], per=(2.0, 1.0)) == (2.0, 2.0, 2.0)
    assert quartiles([1.0, 2.0, 3.0, 4.0, 5.0]) == (2.0, 3.0, 4.0)


def test_the_peak_is_what_a_call_takes_and_gives_back():
    def call():
        return float(torch.ones(64 << 18).sum())  # 64 MiB

    call()
    peak = peak_of(call, CPU)
    if peak is None:
        pytest.skip("this system does not let a process reset its high-water mark")
    assert 0.9 * (64 << 20) < peak < 1.5 * (64 << 20)


def test_an_allocation_that_fails_is_out_of_memory():
    with pytest.raises(RuntimeError) as error:
        torch.empty(1 << 60)
    assert is_out_of_memory(error.value)
    assert is_out_of_memory(torch.OutOfMemoryError("a GPU's, whatever it says"))
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))


def test_asking_for_more_than_there_is_fails_instead_of_being_killed(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 64 << 20)
    with no_more_than_there_is(CPU), pytest.raises(RuntimeError) as error:
        torch.empty(256 << 20, dtype=torch.uint8)
    assert is_out_of_memory(error.value)
    assert torch.empty(256 << 20, dtype=torch.uint8).numel() == 256 << 20, "afterwards all is there again"


def test_labels_are_kept_apart_and_near():
    assert spread([0.1, 0.5, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.45, 0.55, 0.9])
    assert spread([0.0, 0.0, 0.0, 0.9], 0.1) == pytest.approx([0.0, 0.1, 0.2, 0.9])


def test_the_papers_figures():
    assert paper.figure(paper.TIMES_FASTER, 512, 256) == 1.3
    assert paper.figure(paper.TIMES_FASTER, 512, 512) is None
    assert paper.figure(paper.TIMES_LESS_MEMORY, 65536, 2048) == 18
    for table in (paper.TIMES_FASTER, paper.TIMES_LESS_MEMORY):
        assert all(len(row) == sum(k < n for k in paper.DIMS) for n, row in table.items())


def test_the_share_of_the_limit_is_taken_round_by_round():
    taken = {"some model": [9.9] * 3, "slow": [3.0, 3.0, 30.0], "fast": [10.0, 5.0, 20.0]}
    limit = rate.Limit.of(taken, {}, ["slow", "fast", "failed"])
    assert limit.by_round == [10.0, 5.0, 20.0] and limit.median == 10.0
    # A machine that is half as fast in the second round and twice as fast in the third has the same shares.
    assert limit.share(16.0, [2.0, 4.0, 1.0]) == pytest.approx(0.8)
    with pytest.raises(UserError, match="no memory"):
        rate.Limit.of({}, {"slow": RuntimeError("no memory")}, ["slow"])


def test_rates_are_operations_per_second(monkeypatch):
    monkeypatch.setattr(rate, "seconds_of", lambda call, device: call() or 0.5)
    by_shape = {shape: call() for shape, call in rate_calls(TINY, torch.float32, CPU).items()}
    for shape, found in by_shape.items():
        rows, inner, columns = map(int, shape.split("x"))
        assert rows == rate.ROWS and found == 2 * rows * inner * columns / 0.5
    assert len(by_shape) == 3

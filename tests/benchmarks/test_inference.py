"""What an inference run records, of what it measures and of what it does not."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks.efficiency import group, memory, presets
from benchmarks.efficiency.group import KEYS, Group
from benchmarks.efficiency.machine import device_of
from benchmarks.efficiency.models import registry
from benchmarks.efficiency.models.build import build
from tests.benchmarks.conftest import INFERENCE

PLAIN = ["--models", "linformer_core", "roberta_materialised", "roberta_sdpa_core"]


def cells(result, **wanted):
    return [cell for cell in result["cells"] if all(cell[key] == value for key, value in wanted.items())]


def test_every_cell_says_what_was_measured(inference):
    result = inference(*PLAIN, "--lengths", "32", "16", "--projected-dims", "4", "8", "--threads", "1")
    assert {"kind", "settings", "provenance", "cells"} <= set(result)
    assert result["provenance"]["threads"] == 1 and result["provenance"]["dtype"] == "float32"
    assert {"hardware", "gpu", "versions", "commit", "date", "command"} <= set(result["provenance"])
    assert [(cell["n"], cell["model"], cell["k"]) for cell in result["cells"]] == [
        (n, model, k)
        for n in (16, 32)
        for model, k in (
            ("linformer_core", 4),
            ("linformer_core", 8),
            ("roberta_materialised", None),
            ("roberta_sdpa_core", None),
        )
    ]
    for cell in result["cells"]:
        assert tuple(cell) == KEYS
        assert cell["status"] == "ok" and cell["reason"] is None
        assert cell["tokens"] == 64 == cell["batch"] * cell["n"]
        assert cell["seconds"] > 0 and cell["all_seconds"] == [cell["seconds"]]
        assert cell["tokens_per_second"] == pytest.approx(64 / cell["seconds"])
        assert cell["length"] == cell["n"] and cell["padded"] is False
        assert cell["seconds_q1"] is None and cell["seconds_q3"] is None, "no quartiles from one round"
        assert cell["limit_operations_per_second"] == 1e10 and cell["limit_by_round"] == [1e10]
        assert cell["share_of_limit"] == pytest.approx(cell["operations"] / cell["seconds"] / 1e10)


def test_each_timed_pass_follows_an_untimed_one_and_slow_rounds_are_counted(inference, monkeypatch):
    monkeypatch.setattr(group, "seconds_of", lambda call, device: call() is None or next(times))
    passes = []
    forward = Group._pass
    monkeypatch.setattr(Group, "_pass", lambda self, one: passes.append("pass") or forward(self, one))
    times = iter([9.0, 1.0, 1.0, 1.6, 1.0, 1.4])  # the warm-up's, and those of five rounds
    (cell,) = inference("--models", "roberta_sdpa_core", "--lengths", "16", "--rounds", "5")["cells"]
    assert len(passes) == 1 + 1 + 5 * 2, "warm-up, peak memory, and two in each round"
    assert cell["all_seconds"] == [1.0, 1.0, 1.6, 1.0, 1.4]
    assert cell["outliers"] == 1 and cell["seconds"] == 1.0
    assert (cell["seconds_q1"], cell["seconds_q3"]) == (1.0, 1.4)


def test_short_inputs_are_padded_and_the_models_are_built_for_more(inference, monkeypatch):
    seen = []
    forward = Group._pass
    monkeypatch.setattr(Group, "_pass", lambda self, one: seen.append(one.tokens) or forward(self, one))
    words = ["--models", "linformer_core", "roberta_sdpa_core", "roberta_sdpa_core_blocks", "--lengths", "12", "16"]
    words += ["--positions", "32", "--projected-dims", "24", "--batches", "7", "--padded", "both"]
    result = inference(*words)
    assert {cell["status"] for cell in result["cells"]} == {"ok"}
    inputs = list(dict.fromkeys((c["n"], c["length"], c["batch"], c["padded"]) for c in result["cells"]))
    assert inputs == [(32, t, b, p) for t, bs in ((12, (5, 7)), (16, (4, 7))) for b in bs for p in (False, True)]
    for cell in result["cells"]:
        assert (cell["tokens"] < cell["batch"] * cell["length"]) is cell["padded"]
    ids = next(ids for ids in seen if ids.shape == (7, 16) and ids.eq(1).any())
    lengths = ids.ne(1).sum(dim=1)
    assert lengths[0] == lengths.max() == 16 and lengths.min() >= 8
    assert torch.equal(ids.eq(1), torch.arange(16) >= lengths[:, None]), "the padding is on the right"
    before = result["cells"]
    assert inference(*words, "--resume")["cells"] == before


def test_long_inputs_have_fewer_rounds_where_a_preset_says_so(inference, monkeypatch):
    monkeypatch.setattr("benchmarks.efficiency.presets.LONG", 16)
    words = ["--models", "roberta_sdpa_core", "--lengths", "16", "32"]
    result = inference(*words, "--rounds", "2", "--long-rounds", "1")
    assert [len(cell["all_seconds"]) for cell in result["cells"]] == [2, 1]


def test_what_is_predicted_to_be_too_slow_is_not_tried(inference, monkeypatch):
    monkeypatch.setattr(group, "build", lambda *_: pytest.fail("built"))
    result = inference(*PLAIN, "--lengths", "16", "--projected-dims", "4", "--max-seconds", "1e-9")
    assert {cell["status"] for cell in result["cells"]} == {"too_slow"}
    assert "by the rate of matrix products; allowed 1e-09 s" in result["cells"][0]["reason"]


def test_a_smaller_length_predicts_the_next(inference, monkeypatch):
    monkeypatch.setattr(group, "seconds_of", lambda call, device: call() is None or 1.0)
    result = inference("--models", "roberta_sdpa_core", "--lengths", "64", "1024", "--max-seconds", "5")
    first, second = result["cells"]
    assert first["status"] == "ok" and second["status"] == "too_slow"
    assert "by what T = 64 took" in second["reason"]


def test_a_pass_that_turns_out_too_slow_is_recorded(inference, monkeypatch):
    monkeypatch.setattr(group, "seconds_of", lambda call, device: 7.0)
    (cell,) = inference("--models", "roberta_sdpa_core", "--lengths", "16", "--max-seconds", "5")["cells"]
    assert cell["status"] == "too_slow" and "took 7 s" in cell["reason"]


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError("CUDA out of memory."), MemoryError()])
def test_out_of_memory_is_recorded_and_the_others_are_measured(inference, monkeypatch, error):
    def failing(name, *args):
        if name == "roberta_materialised":
            raise error
        return build(name, *args)

    monkeypatch.setattr(group, "build", failing)
    result = inference(*PLAIN, "--lengths", "16", "--projected-dims", "4")
    statuses = {cell["model"]: cell["status"] for cell in result["cells"]}
    assert statuses == {"roberta_materialised": "out_of_memory", "linformer_core": "ok", "roberta_sdpa_core": "ok"}


def test_a_pass_that_takes_more_memory_than_there_is_does_not_end_the_program(inference, monkeypatch):
    """Linux would kill it, since memory is promised before it is used."""

    class Large(torch.nn.Module):
        def forward(self, tokens):
            return torch.empty(2**31, dtype=torch.uint8)

    monkeypatch.setattr(group, "build", lambda *_: Large())
    monkeypatch.setattr(memory, "available", lambda: 2**28)
    (cell,) = inference("--lengths", "16", "--models", "roberta_sdpa_core")["cells"]
    assert cell["status"] == "out_of_memory"


def test_nor_does_a_pass_that_takes_more_in_the_rounds_where_the_other_models_are_in_memory(inference, monkeypatch):
    class Large(torch.nn.Module):
        def forward(self, tokens):
            return torch.empty(3 * 2**29, dtype=torch.uint8)

    class Heavy(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = torch.empty(2**30, dtype=torch.uint8)

        def forward(self, tokens):
            return tokens

    monkeypatch.setattr(group, "build", lambda name, *_: Large() if name == "roberta_sdpa_core" else Heavy())
    monkeypatch.setattr(memory, "available", lambda: 2**31)
    cells = inference("--lengths", "16", "--models", "roberta_sdpa_core", "roberta_materialised")["cells"]
    found = {cell["model"]: (cell["status"], cell["reason"]) for cell in cells}
    assert found["roberta_materialised"] == ("ok", None)
    status, reason = found["roberta_sdpa_core"]
    assert status == "out_of_memory" and reason.startswith("in a round: ")


def test_what_cannot_fit_is_not_tried(inference):
    words = ("--lengths", "64", "--models", "roberta_materialised", "--memory-limit", "1e-6")
    (cell,) = inference(*words)["cells"]
    assert cell["status"] == "out_of_memory" and "by formula" in cell["reason"]


def test_one_that_fails_in_a_round_does_not_take_the_others_along(inference, monkeypatch):
    timed = Group._timed

    def fails(self, one):
        if one.tokens.size(1) == 16 and not hasattr(one.model, "shared"):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")
        return timed(self, one)

    monkeypatch.setattr(Group, "_timed", fails)
    result = inference(*PLAIN, "--lengths", "16", "--projected-dims", "4")
    assert {cell["model"]: cell["status"] for cell in result["cells"]} == {
        "linformer_core": "ok",
        "roberta_materialised": "out_of_memory",
        "roberta_sdpa_core": "out_of_memory",
    }


def test_the_largest_batch_is_what_the_measured_peak_allows(inference, monkeypatch):
    peaks = []

    def peak_of(call, device):
        peaks.append(call().size(0))
        return peaks[-1] * 2**20  # a MiB for each sequence

    monkeypatch.setattr(memory, "peak_of", peak_of)
    words = ("--largest-batch", "--memory-limit", str(11.5 / 1024), "--models", "roberta_sdpa_core", "--lengths", "16")
    (cell,) = inference(*words)["cells"]
    # 11.5 MiB, of which the weights are 0.05
    assert cell["batch"] == 11 and cell["tokens"] == 11 * 16
    assert cell["batch_limited_by"].startswith("memory: ")
    assert sorted(set(peaks)) == [1, 2, 4, 8, 10, 11, 12, 16]


def test_a_model_whose_package_is_missing_is_left_out_unless_asked_for(inference, refused, monkeypatch):
    real = registry.importlib.util.find_spec
    hidden = set(registry.DISTRIBUTIONS)
    monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name, *a: None if name in hidden else real(name))
    monkeypatch.setitem(presets.INFERENCE_DEFAULTS, "models", ["roberta_hf", "roberta_sdpa_core"])
    left, measured = inference("--lengths", "16")["cells"]
    assert (left["model"], left["status"], left["reason"]) == (
        "roberta_hf",
        "not_installed",
        "transformers is not installed",
    )
    assert measured["status"] == "ok"
    assert "model roberta_hf: transformers is not installed" in refused(*INFERENCE, "--models", "roberta_hf")


def test_a_run_goes_on_where_it_stopped(inference, out, monkeypatch, refused):
    words = ["--models", "linformer_core", "roberta_sdpa_core", "--lengths", "16", "32", "--projected-dims", "4"]
    whole = inference(*words)
    assert "already exists; --resume" in refused(*INFERENCE, *words, "--out", str(out))
    # Stopped in the second length, after its first cell.
    out.write_text(json.dumps(whole | {"cells": whole["cells"][:3]}))
    measured = []
    monkeypatch.setattr(group, "build", lambda name, size, n, *more: measured.append(n) or build(name, size, n, *more))
    resumed = inference(*words, "--resume")
    assert measured == [32, 32]
    assert resumed["cells"][:2] == whole["cells"][:2]
    assert [(c["n"], c["model"]) for c in resumed["cells"]] == [(c["n"], c["model"]) for c in whole["cells"]]
    assert len(resumed["resumed"]) == 1
    assert inference(*words, "--resume") == resumed, "nothing was measured"
    other = [*words, "--tokens", "32", "--resume", "--out", str(out)]
    assert "was measured with tokens 64, not 32" in refused(*INFERENCE, *other)


def test_a_measurement_can_get_more_lengths(inference):
    words = ["--models", "roberta_sdpa_core", "--tokens", "32"]
    first = inference(*words, "--lengths", "32")
    more = inference(*words, "--lengths", "8", "32", "--resume")
    assert (more["settings"]["lengths"], more["cells"][0]) == ([8, 32], first["cells"][0])
    assert [cell["length"] for cell in more["cells"]] == [32, 8]
    fewer = inference(*words, "--lengths", "16", "--resume")
    assert fewer["settings"]["lengths"] == [8, 16, 32]


@pytest.mark.parametrize("preset", [(), ("--preset", "table1")])
def test_where_no_k_is_below_n_the_others_are_measured(inference, capsys, preset):
    words = ["--models", "linformer_core", "roberta_sdpa_core", "--lengths", "8", "16", "--projected-dims", "8"]
    found = inference(*preset, *words, "--tokens", "16")
    assert [(cell["n"], cell["model"], cell["k"]) for cell in found["cells"]] == [
        (8, "roberta_sdpa_core", None),
        (16, "linformer_core", 8),
        (16, "roberta_sdpa_core", None),
    ]
    assert "n = 8: skipping k = 8" in capsys.readouterr().err


def test_a_length_for_which_nothing_is_left_is_passed_over(inference, capsys):
    (cell,) = inference("--models", "linformer_core", "--lengths", "8", "16", "--projected-dims", "8")["cells"]
    assert (cell["n"], cell["k"]) == (16, 8)
    said = capsys.readouterr().err
    assert "n = 8: skipping k = 8" in said and "already measured" not in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--models", "roberta"], "there is no model 'roberta'"),
        (["--models", "linfomer"], "did you mean linformer?"),
        (
            ["--models", "linformer_core", "--lengths", "16", "--projected-dims", "16"],
            "k = 16: none is below n = 16",
        ),
        (["--lengths", "16", "16"], "--lengths names something twice"),
        (["--lengths", "16", "--positions", "8"], "--positions is 8, but --lengths has 16"),
        (["--largest-batch", "--batches", "2"], "leave --batches out"),
        (["--heads", "3"], "is no multiple of --heads 3"),
        (["--device", "tpu"], "expected cpu or cuda"),
        (["--device", "cuda:1"], "CUDA_VISIBLE_DEVICES"),
        (["--preset", "long"], "needs --device cuda"),
        (["--memory-limit", "0", "--models", "roberta_sdpa_core", "--lengths", "16"], "--memory-limit is 0"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_said_in_one_line(refused, words, said, out):
    assert said in refused(*INFERENCE, "--out", str(out), *words)


def test_a_folder_that_cannot_be_written_is_said_before_anything_is_measured(refused, tmp_path):
    (tmp_path / "file").write_text("")
    words = ["--models", "roberta_sdpa_core", "--lengths", "16", "--out", str(tmp_path / "file" / "a.json")]
    assert f"{tmp_path / 'file'}" in refused(*INFERENCE, *words)


@pytest.mark.skipif(torch.cuda.is_available(), reason="wants a machine without CUDA")
def test_cuda_that_is_not_there_is_said(refused):
    assert "finds no CUDA device here" in refused(
        *INFERENCE, "--device", "cuda", "--lengths", "64", "--projected-dims", "8"
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="wants a CUDA device")
def test_cuda_is_measured_with_the_largest_batch(inference):
    words = ["--largest-batch", "--max-seconds", "0.1", "--lengths", "64", "--projected-dims", "8"]
    result = inference(*PLAIN, *words, "--device", "cuda", "--dtype", "float16")
    assert {cell["status"] for cell in result["cells"]} == {"ok"}
    assert all(cell["peak_bytes"] > 0 for cell in result["cells"])
    assert result["provenance"]["gpu"] and device_of("cuda").type == "cuda"

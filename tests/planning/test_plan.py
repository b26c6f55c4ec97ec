"""The plan of a whole run, and its report."""

from __future__ import annotations

import math
import re
import shutil
from types import SimpleNamespace

import pytest
import torch
from omegaconf import open_dict

from linformer_fairseq import launch
from linformer_fairseq.planning import plan, report
from linformer_fairseq.planning.data import ASSUMED_VOCABULARY
from linformer_fairseq.planning.memory import GIB
from tests.binarised import write_items
from tests.messages import says
from tests.planning.conftest import N

LINFORMER, ROBERTA = "linformer_roberta", "roberta"


def write_split(prefix, lengths):
    """Items of these lengths."""
    write_items(prefix, [[2] * length for length in lengths])


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def run(small, no_gpu):
    """``run(**{"group.option": value})``: plan and report of a small Linformer with these options."""

    def make(name=LINFORMER, num_classes=0, **options):
        config = small(name, num_classes, **({"projected_dim": 8} if name == LINFORMER else {}))
        with open_dict(config):
            for key, value in options.items():
                group, _, option = key.rpartition(".")
                node = config
                for part in group.split("."):
                    node = node[part]
                node[option] = value
        found = plan(config)
        return found, "\n".join(report(found))

    return make


def test_an_update_is_batches_times_devices_times_frequency(run):
    found, text = run(**{"dataset.batch_size": 4, "optimization.update_freq": [3], "optimization.max_update": 100})
    assert (found.sequences_per_update, found.tokens_per_update, found.total_tokens) == (12, 12 * N, 1200 * N)
    assert found.flops_per_update == 12 * found.flops.training
    assert f"12 sequences of {N} = {12 * N} tokens" in text
    more, _ = run(
        **{"dataset.batch_size": 4, "optimization.update_freq": [3], "distributed_training.distributed_world_size": 5}
    )
    assert more.sequences_per_update == 60


def test_a_batch_in_tokens_counts_whole_sequences(run):
    options = {"dataset.batch_size": None, "dataset.max_tokens": 4 * N + 1, "optimization.update_freq": [1]}
    assert run(**options)[0].sequences_per_update == 4
    with pytest.raises(ValueError, match="dataset.batch_size.*dataset.max_tokens"):
        run(**{**options, "dataset.max_tokens": None})


def test_single_lines_are_counted_as_they_are(run, tmp_path):
    write_split(tmp_path / "train", [N // 4 - 1] * 20 + [N + 5])  # the last one does not fit
    options = {"task.data": str(tmp_path), "task.sample_break_mode": "eos", "dataset.batch_size": 4}
    found, text = run(**options, **{"optimization.max_update": 100, "optimization.max_epoch": 3})
    assert (found.updates, found.tokens_per_update, found.data.sequences) == (15, N, 20)
    assert "20 examples" in text and found.epochs == 3


@pytest.mark.parametrize(("mode", "tokens"), [("complete", [19, 10, 8]), ("complete_doc", [19, 10, 6])])
def test_blocks_of_whole_lines_are_counted_as_they_are(run, tmp_path, mode, tokens):
    write_split(tmp_path / "train", [9, 9, 9, N, 1, 5, 1])  # the fourth does not fit, with <s>
    options = {"task.data": str(tmp_path), "task.sample_break_mode": mode, "dataset.batch_size": 1}
    found, _ = run(**options, **{"optimization.update_freq": [1], "optimization.max_epoch": 2})
    assert (found.data.tokens, found.data.sequences, found.updates) == (sum(tokens), len(tokens), 2 * len(tokens))


def test_a_task_whose_cost_is_not_known_is_named(run):
    with pytest.raises(ValueError, match="task._name=language_modeling: .* masked_lm, sentence_prediction"):
        run(**{"task._name": "language_modeling"})


def test_time_from_measured_speed_or_from_the_peak(run):
    options = {
        "dataset.batch_size": 10,
        "optimization.update_freq": [1],
        "optimization.max_update": 3600,
        "distributed_training.distributed_world_size": 2,
    }
    found, text = run(**options, **{"run.plan.tokens_per_second": 100})
    assert found.time.hours == pytest.approx(10 * N / 100)
    assert says(text, f"{10 * N / 100:.1f} hours", "2 devices", f"{20 * N / 100:.1f} device hours", "100 tokens/s")
    found, text = run(**options, **{"run.plan.mfu": 0.5, "run.plan.peak_tflops": 1e-6})
    assert found.time.hours == pytest.approx(10 * found.flops.training / 0.5e6)
    assert "at 50% (run.plan.mfu) of 1e-06 TFLOPS" in text
    found, text = run(**options, **{"common.cpu": True})
    assert found.time is None
    assert says(text, "not known", "2 devices", "run.plan.tokens_per_second=NUMBER")


def test_without_data_the_vocabulary_is_assumed_and_that_is_said(run):
    found, text = run()
    assert found.sizes.vocabulary == ASSUMED_VOCABULARY
    assert found.epochs is None
    assert says(text, "vocabulary 50,265", "assumed", "task.data")
    assert says(text, "not counted", "epochs")


def test_data_give_vocabulary_and_epochs(run, tmp_path):
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "dict.txt").write_text("a 3\nb 2\n<mask> 1\n")
    for shard, lengths in (("0", [500, 700]), ("1", [1100])):
        write_split(tmp_path / shard / "train", lengths)
    data = f"{tmp_path / '0'}:{tmp_path / '1'}"
    options = {"dataset.batch_size": 10, "optimization.update_freq": [1], "optimization.max_update": 50}
    found, text = run(**options, **{"task.data": data})
    assert found.sizes.vocabulary == 4 + 3
    # <s> at the beginning of each block is not in the data
    assert found.epochs == pytest.approx(500 * (N - 1) / 2300)
    assert "2,300 tokens: 5.00 epochs" in text
    assert not found.warnings
    found, _ = run(**{**options, "dataset.batch_size": 200}, **{"task.data": data})
    assert "fewer than an update of 4,800" in found.warnings[0]
    write_split(tmp_path / "1" / "train", [11_000])
    _, text = run(**{**options, "dataset.batch_size": 1, "optimization.max_update": 1}, **{"task.data": data})
    assert "12,200 tokens: less than 0.01 epochs" in text


def test_data_of_one_update_are_enough(run, tmp_path):
    (tmp_path / "dict.txt").write_text("a 3\nb 2\n<mask> 1\n")
    options = {"task.data": str(tmp_path), "dataset.batch_size": 10, "optimization.update_freq": [1]}
    # <s> at the beginning of each block is not in the data
    for tokens, warnings in ((10 * (N - 1), 0), (10 * (N - 1) - 1, 1)):
        write_split(tmp_path / "train", [tokens])
        found, _ = run(**options, **{"optimization.max_update": 1})
        assert len(found.warnings) == warnings and all(f"fewer than an update of {10 * N}" in w for w in found.warnings)


def test_a_run_ends_after_its_epochs_if_they_come_first(run, tmp_path):
    for shard in "01":
        (tmp_path / shard).mkdir()
        (tmp_path / shard / "dict.txt").write_text("a 3\nb 2\n<mask> 1\n")
        write_split(tmp_path / shard / "train", [100 * (N - 1)])
    options = {"dataset.batch_size": 10, "optimization.update_freq": [1], "task.data": str(tmp_path / "0")}
    for most, epochs, updates in ((50, 0, 50), (50, 2, 20), (15, 2, 15), (0, 2, 20)):
        found, text = run(**options, **{"optimization.max_update": most, "optimization.max_epoch": epochs})
        assert found.updates == updates
        assert f"{updates} updates" in text
    options["task.data"] = f"{tmp_path / '0'}:{tmp_path / '1'}"
    assert run(**options, **{"optimization.max_update": 50, "optimization.max_epoch": 2})[0].updates == 20
    options |= {"dataset.batch_size": 30, "task.data": str(tmp_path / "0")}  # 100 blocks: 3 updates and the rest
    found, _ = run(**options, **{"optimization.max_update": 50, "optimization.max_epoch": 2})
    assert (found.updates, found.epochs) == (8, 2)
    unknown = {"task.data": str(tmp_path / "none"), "optimization.max_epoch": 2}
    assert run(**unknown, **{"optimization.max_update": 50})[0].updates == 50
    with pytest.raises(ValueError, match="max_epoch=2"):
        run(**unknown, **{"optimization.max_update": 0})


@pytest.mark.parametrize("value", [-5.0, 0.0, math.inf, math.nan])
@pytest.mark.parametrize("name", ["tokens_per_second", "mfu", "peak_tflops", "device_gib"])
def test_a_speed_or_memory_that_is_not_positive_and_finite_is_refused(run, name, value):
    with pytest.raises(ValueError, match=f"run.plan.{name}={value}: expected a positive number"):
        run(**{"common.cpu": False, f"run.plan.{name}": value})


def test_a_speed_that_no_device_has_is_refused(run):
    with pytest.raises(ValueError, match="run.plan.tokens_per_second=1e-300: expected a positive number, from 1e-9"):
        run(**{"run.plan.tokens_per_second": 1e-300})


def test_no_device_is_faster_than_its_peak(run):
    with pytest.raises(ValueError, match="run.plan.mfu=30.0: expected a fraction"):
        run(**{"run.plan.mfu": 30})


def test_damaged_data_are_a_warning(run, tmp_path):
    (tmp_path / "dict.txt").write_text("a 3\n")
    write_split(tmp_path / "train", [500])
    (tmp_path / "train.idx").write_bytes(b"no index")
    found, _ = run(**{"task.data": str(tmp_path)})
    assert "the data cannot be counted" in found.warnings[0] and "train.idx" in found.warnings[0]
    (tmp_path / "train.idx").unlink()
    assert "train.idx: missing" in run(**{"task.data": str(tmp_path)})[0].warnings[0]


def test_a_task_has_examples_of_its_own_lengths(run, tmp_path):
    for part in ("input0", "input1"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "dict.txt").write_text("a 3\nb 2\n")
    write_split(tmp_path / "input0" / "train", [5, 9, 30, 4])
    write_split(tmp_path / "input1" / "train", [3, 2, 4, 6])
    options = {"dataset.batch_size": 2, "optimization.update_freq": [1], "optimization.max_update": 10}
    both = {"task.data": str(tmp_path), "task.init_token": 0, "task.separator_token": 2}
    found, text = run(num_classes=3, **options, **both)
    # <s> before the first text, </s> before the second, and no more than n
    lengths = [5 + 3 + 2, 9 + 2 + 2, N, 4 + 6 + 2]
    assert found.length == sum(lengths) / 4
    assert found.epochs == 20 / 4
    assert f"4 examples, {sum(lengths)} tokens: 5.00 epochs" in text
    assert "2 sequences of 14.8 on average" in text
    shutil.rmtree(tmp_path / "input1")
    assert run(num_classes=3, **options, **both)[0].length == (6 + 10 + N + 5) / 4
    found, text = run(num_classes=3, **options, **{"task.data": str(tmp_path / "none")})
    assert found.length == N and f"2 sequences of at most {N}" in text
    assert not found.warnings and "not counted, so the number of epochs is unknown" in text


def test_a_classification_counts_no_masked_positions(run):
    task, language = run(num_classes=3)[0], run()[0]
    assert task.flops.layers < language.flops.layers  # the last layer computes the first position only
    assert task.flops.outside < 0.01 * language.flops.outside
    assert task.parameters == language.parameters + 32 * 32 + 32 + 3 * 33


def test_what_may_not_fit_is_said_with_what_to_lower(run):
    found, text = run(**{"run.plan.device_gib": 1.0})
    assert not found.memory.fits
    assert "lower run.tokens_per_batch" in found.warnings[0]
    assert "may not fit" in text
    assert "lower dataset.batch_size" in run(num_classes=2, **{"run.plan.device_gib": 1.0})[0].warnings[0]
    found, text = run(**{"run.plan.device_gib": 16.0})
    assert found.memory.fits and not found.warnings
    assert "of 16.0 GiB of a device (run.plan.device_gib): fits" in text


def test_a_batch_in_tokens_is_never_larger_than_they_are(run, tmp_path):
    """Lines of N / 8 tokens: 8,000 of them in a batch of 1,000 N tokens, or 1,000 of N tokens, but never 8,000 of N."""
    (tmp_path / "dict.txt").write_text("a 3\n")  # the head is small
    write_split(tmp_path / "train", [N // 8 - 1] * 500 + [N - 1])
    lines = {"task.data": str(tmp_path), "task.sample_break_mode": "eos", "optimization.update_freq": [1]}
    lines |= {"optimization.max_update": 10, "run.plan.device_gib": 1.0}

    def memory(**options):
        return run(**lines, **{f"dataset.{name}": value for name, value in options.items()})[0].memory

    found, text = run(**lines, **{"dataset.batch_size": None, "dataset.max_tokens": 1000 * N})
    assert "lower dataset.max_tokens" in text
    batch = found.sequences_per_update
    assert 7500 < batch < 8000
    few, many = memory(batch_size=1000), memory(batch_size=batch)
    assert few.activations <= found.memory.activations < 0.6 * many.activations
    assert memory(batch_size=10, max_tokens=20 * N) == memory(batch_size=10)


def test_a_batch_is_as_long_as_its_longest_sequence(run, tmp_path):
    """Of data with shorter ones than n it is not n; the longest line has as many masked tokens as it is long."""
    (tmp_path / "dict.txt").write_text("a 3\n")
    large = {"dataset.batch_size": 1000, "optimization.max_update": 10}  # so that activations are most of the memory
    lines = {**large, "task.data": str(tmp_path), "task.sample_break_mode": "eos"}

    def activations(*lengths):
        write_split(tmp_path / "train", [length - 1 for length in lengths])
        found, _ = run(**lines)
        assert found.data.longest == max(lengths)
        return found.memory.activations

    assert activations(N // 4, N // 2) == activations(N // 2) < 0.7 * activations(N // 4, N)
    for part in ("input0", "label"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "dict.txt").write_text("a 3\n")
    write_split(tmp_path / "input0" / "train", [N // 4, N // 2])
    task, unknown = (run(num_classes=2, **large, **{"task.data": str(tmp_path / part)})[0] for part in ("", "none"))
    assert task.data.longest == N // 2 and task.memory.activations < 0.7 * unknown.memory.activations


def test_a_full_disk_is_said(run, monkeypatch, tmp_path):
    def usage(folder):
        assert folder == tmp_path
        return SimpleNamespace(free=10 * 2**20)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    found, text = run(**{"checkpoint.save_dir": str(tmp_path / "runs" / "run")})
    assert found.disk.folder == tmp_path
    assert "6 checkpoints need" in found.warnings[0] and "choose another run.runs" in found.warnings[0]
    assert f"10 MiB free in {tmp_path}" in text
    assert not run(**{"checkpoint.save_dir": str(tmp_path / "run"), "checkpoint.no_save": True})[0].warnings


def test_another_optimizer_is_warned_of(run):
    assert "optimizer._name is sgd" in run(**{"optimizer._name": "sgd"})[0].warnings[0]


def test_frozen_recomputed_and_pooled_are_in_the_report(run):
    frozen = run(**{"model.projection": "linear", "model.freeze_projection": True})[1]
    assert f" and {8 * N} frozen elements of E and F" in frozen
    for option in ("checkpoint_activations", "offload_activations"):
        found, again = run(**{f"model.{option}": True})
        assert f"{found.flops.recomputed / N / 1e3:,.1f} kFLOPs of them recomputed" in again
    assert "projection mean_pool" in run(**{"model.projection": "mean_pool"})[1]
    assert "attention n x n" in run(ROBERTA)[1]


def test_the_paper_run_in_numbers(no_gpu):
    """RoBERTa-base has 124,696,665 parameters as fairseq builds it; a product costs 2 forward and 4 backward."""
    found = plan(
        launch.compose("pretraining", ["model=roberta_base", "distributed_training.distributed_world_size=64"])
    )
    assert found.parameters == 124_696_665
    assert found.tokens_per_update == 2**20 and found.total_tokens == 250_000 * 2**20
    layers = 12 * (4 * 768**2 + 2 * 768 * 3072 + 2 * 512 * 768)
    head = 0.15 * (768**2 + 768 * 50_265)
    assert found.flops.training / 512 == pytest.approx(6 * (layers + head))
    assert found.memory.total < 16 * GIB
    text = "\n".join(report(found))
    assert says(text, "200.5 MFLOPs", "601.5 MFLOPs")
    assert says(text, "2,048 sequences of 512", "1,048,576 tokens", "630.7 TFLOPs")
    assert says(text, "250,000 updates", "262,144,000,000 tokens", "157.7 EFLOPs")


def test_windows_that_are_fewer_than_k_are_said(run, recwarn):
    k = N // 2 + 1  # windows of 2
    found, text = run(**{"model.projection": "max_pool", "model.projected_dim": k})
    (warning,) = (said for said in found.warnings if "max_pool" in said)
    assert [int(number) for number in re.findall(r"\d+", warning)] == [k, N, 2, -(-N // 2)] and warning in text
    assert not [said for said in recwarn if "max_pool" in str(said.message)]  # once, in the report
    assert not any("rows" in said for said in run(**{"model.projection": "max_pool"})[0].warnings)

"""The estimate of memory, held against what fairseq's optimizer and torch's autograd really keep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import utils
from fairseq.optim import build_optimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from omegaconf import open_dict

from linformer_fairseq.launch.options import with_defaults
from linformer_fairseq.patches import float32_weights
from linformer_fairseq.planning.disk import checkpoint_bytes, checkpoints_kept
from linformer_fairseq.planning.memory import GIB, memory_of
from linformer_fairseq.planning.sizes import sizes_of
from tests.planning.conftest import SYMBOLS, N

BATCH, MASKED = 4, 4
LINFORMER, ROBERTA = "linformer_roberta", "roberta"
SHARINGS = ("none", "headwise", "key_value", "layerwise")
CASES = [(ROBERTA, {}), *((LINFORMER, {"projected_dim": 8, "sharing": s}) for s in SHARINGS)]
CASES.append((LINFORMER, {"projected_dim": 8, "projection": "mean_pool", "sharing": "none"}))


def on_cpu(config, **common):
    """The run on a CPU, with fairseq's defaults."""
    with open_dict(config):
        config.common.update({"cpu": True, "fp16": False, "bf16": False, **common})
    return with_defaults(config)


def saved_bytes(model):
    """Bytes of all tensors that autograd keeps between a forward and its backward pass, parameters left out."""
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    storages, tensors = {}, []

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            storages[storage.data_ptr()] = storage.nbytes()
            tensors.append(tensor)  # no other tensor may be given its memory
        return tensor

    tokens = torch.randint(4, SYMBOLS, (BATCH, N), generator=torch.Generator().manual_seed(1))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.train()(tokens, features_only=True)
    return sum(storages.values())


@pytest.mark.parametrize(
    ("dtype", "attention_dropout"), [(torch.float32, 0.0), (torch.float32, 0.1), (torch.bfloat16, 0.0)], ids=str
)
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_activations_are_those_that_autograd_keeps(small, build, name, options, dtype, attention_dropout):
    config = on_cpu(
        # of a size at which the embeddings, and the few bytes of norms and masks, do not matter
        small(
            name,
            dropout=0.1,
            attention_dropout=attention_dropout,
            **{**options, "encoder_layers": 8, "encoder_embed_dim": 128, "encoder_ffn_embed_dim": 512},
        ),
        bf16=dtype is torch.bfloat16,
    )
    measured = saved_bytes(build(config).to(dtype))
    sizes = sizes_of(config, SYMBOLS)
    estimate = memory_of(config, sizes, 1e6, N, masked=0).activations / 1e6 * BATCH
    estimate *= sizes.layers / (sizes.layers + 1)  # without that of the backward pass
    assert measured == pytest.approx(estimate, rel=0.1)


def test_checkpointed_activations_are_the_inputs_of_the_layers(small, build):
    config = on_cpu(small(ROBERTA, checkpoint_activations=True, encoder_layers=12, dropout=0.0))
    sizes = sizes_of(config, SYMBOLS)
    inputs = sizes.layers * BATCH * N * sizes.width * 4
    assert saved_bytes(build(config)) == pytest.approx(inputs, rel=0.3)
    without = sizes_of(on_cpu(small(ROBERTA, encoder_layers=12, dropout=0.0)), SYMBOLS)
    some, all_ = (memory_of(config, s, 1e6, N, masked=0).activations for s in (sizes, without))
    assert some / 1e6 * BATCH == pytest.approx(inputs + 2 / 13 * all_ / 1e6 * BATCH)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("pre_norm", [False, True])
@pytest.mark.parametrize("sharing", ["none", "headwise", "layerwise"])
def test_a_linformer_that_recomputes_keeps_what_its_positions_attend_to(small, build, sharing, pre_norm, dropout):
    options = {"projected_dim": 8, "sharing": sharing, "encoder_layers": 12, "encoder_normalize_before": pre_norm}
    options["dropout"] = dropout
    config = on_cpu(small(LINFORMER, checkpoint_activations=True, **options))
    without = on_cpu(small(LINFORMER, **options))
    some, all_ = (
        memory_of(one, sizes_of(one, SYMBOLS), 1e6, N, masked=0).activations / 1e6 * BATCH for one in (config, without)
    )
    # torch's checkpoints hold keys and values themselves, out of the sight of hooks.
    unseen = 12 * BATCH * 4 * 32 * (2 * 8)
    assert saved_bytes(build(config)) + unseen == pytest.approx(some - 2 / 13 * all_, rel=0.1)


@pytest.mark.parametrize("efficient", [False, True])
def test_state_of_half_precision_is_that_of_fairseqs_optimizer(small, build, efficient):
    config = on_cpu(small(LINFORMER, projected_dim=8), bf16=True, memory_efficient_bf16=efficient)
    if efficient:  # fused_adamw has no such mode
        config.optimizer = {**config.optimizer, "_name": "adam"}
        config = with_defaults(config)
    model = build(config).bfloat16()
    wrapper = MemoryEfficientFP16Optimizer if efficient else FP16Optimizer
    optimizer = wrapper.build_optimizer(config, list(model.parameters()))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.backward(sum(parameter.sum() for parameter in model.parameters()))
    optimizer.step()

    def size(tensors):
        return sum(t.numel() * t.element_size() for t in tensors)

    adam = optimizer.optimizer
    state = size(t for s in adam.state.values() for t in s.values() if torch.is_tensor(t))
    if not efficient:
        state += size(optimizer.fp32_params) + size(p.grad for p in optimizer.fp32_params)
    memory = memory_of(config, sizes_of(config, SYMBOLS), 1, N, MASKED)
    assert memory.parameters == size(model.parameters())
    assert memory.gradients == size(p.grad for p in model.parameters())
    assert memory.optimizer == state


def test_full_precision_keeps_four_numbers_a_parameter(small):
    config = on_cpu(small(LINFORMER, projected_dim=8))
    sizes = sizes_of(config, SYMBOLS)
    memory = memory_of(config, sizes, 1, N, MASKED)
    assert memory.parameters + memory.gradients + memory.optimizer == 16 * sizes.parameters
    config.distributed_training.distributed_world_size = 2
    assert memory_of(config, sizes, 1, N, MASKED).gradients == 8 * sizes.parameters


def test_the_optimizers_step_needs_memory_too(small):
    config = on_cpu(small(LINFORMER, projected_dim=8))
    sizes = sizes_of(config, 1_000_000)  # so that the parameters are more than a sequence's activations
    assert memory_of(config, sizes, 1, N, masked=0).activations == 4 * sizes.parameters


def test_frozen_projections_have_no_gradient(small):
    config = on_cpu(small(LINFORMER, projected_dim=8, projection="linear", freeze_projection=True))
    sizes = sizes_of(config, SYMBOLS)
    memory = memory_of(config, sizes, 1, N, MASKED)
    assert memory.parameters == memory.gradients + 4 * 8 * N


@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("no_state", [False, True])
def test_a_checkpoint_is_as_large_as_what_fairseq_writes(small, build, tmp_path, bf16, no_state):
    config = on_cpu(small(LINFORMER, projected_dim=8, encoder_embed_dim=128, encoder_ffn_embed_dim=512), bf16=bf16)
    config.checkpoint.no_save_optimizer_state = no_state
    symbols = 3000  # the output layer, which is the embedding, is a large part of the model
    model = build(config, symbols).to(torch.bfloat16 if bf16 else torch.float32)
    parameters = list(model.parameters())
    build = FP16Optimizer.build_optimizer if bf16 else build_optimizer
    optimizer = build(config if bf16 else config.optimizer, parameters)
    optimizer.backward(sum(parameter.sum() for parameter in parameters))
    optimizer.step()
    state = {"model": model.state_dict(), **({} if no_state else {"last_optimizer_state": optimizer.state_dict()})}
    state = float32_weights._saving(lambda _: state)(SimpleNamespace(optimizer=optimizer, is_fsdp=False))
    torch.save(utils.move_to_cpu(state), tmp_path / "checkpoint.pt")
    written = (tmp_path / "checkpoint.pt").stat().st_size
    assert written == pytest.approx(checkpoint_bytes(config, sizes_of(config, symbols)), rel=0.05)


def test_the_device_is_known_from_the_machine_or_from_the_config(small, monkeypatch):
    config = with_defaults(small(ROBERTA))
    config.run.plan.device_gib = 16
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    sizes = sizes_of(config, SYMBOLS)
    assert memory_of(config, sizes, 1, N, MASKED).device == 16 * GIB
    gpu = type("", (), {"total_memory": 80 * GIB, "name": "A GPU"})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: gpu)
    memory = memory_of(config, sizes, 1, N, MASKED)
    assert (memory.device, memory.device_name) == (80 * GIB, "of A GPU")
    config = on_cpu(config)
    one = memory_of(config, sizes, 1, N, MASKED).device
    config.distributed_training.distributed_world_size = 2
    assert memory_of(config, sizes, 1, N, MASKED).device == one / 2
    with open_dict(config):  # as run_config=slurm has it: each of two machines has one of the processes
        config.run.slurm = {"nodes": 2}
    memory = memory_of(config, sizes, 1, N, MASKED)
    assert (memory.device, memory.device_name) == (one, "of this machine's memory")
    assert one < 10_000 * GIB


@pytest.mark.parametrize(
    ("options", "epochs", "kept"),
    [
        ({}, None, 1 + 1 + 1 + 2 + 1),  # last, best, the one being written, two of those between and a third until then
        ({"keep_interval_updates": -1}, None, 3 + 250),
        ({"keep_interval_updates": 300}, None, 3 + 250),
        ({"keep_interval_updates_pattern": 1500}, None, 6 + 250 // 3),
        ({"keep_interval_updates_pattern": 500}, None, 3 + 250),
        ({"keep_interval_updates": 0, "keep_interval_updates_pattern": 50_000}, None, 3 + 250),
        ({"save_interval_updates": 0, "no_last_checkpoints": True}, None, 2),
        ({"keep_best_checkpoints": 4}, None, 6 + 4 + 1),
        ({"no_epoch_checkpoints": False}, None, None),
        ({"no_epoch_checkpoints": False}, 9.5, 6 + 10),
        ({"no_epoch_checkpoints": False, "keep_last_epochs": 3}, None, 6 + 3),
        ({"no_save": True}, None, 0),
    ],
    ids=str,
)
def test_checkpoints_that_are_there_at_once(small, options, epochs, kept):
    config = with_defaults(small(ROBERTA))
    config.checkpoint.update({"save_interval_updates": 1000, "keep_interval_updates": 2, **options})
    assert checkpoints_kept(config, config.optimization.max_update, epochs) == kept


@pytest.mark.parametrize("fp32", [False, True])
def test_an_average_of_the_weights_is_stored_beside_them(small, fp32):
    plain, averaged = with_defaults(small(ROBERTA)), with_defaults(small(ROBERTA))
    averaged.ema.update({"store_ema": True, "ema_fp32": fp32})
    sizes = sizes_of(plain, SYMBOLS)
    weights = checkpoint_bytes(plain, sizes) - 8 * sizes.parameters
    assert checkpoint_bytes(averaged, sizes) - checkpoint_bytes(plain, sizes) == (2 if fp32 else 1) * weights
    more = [memory_of(one, sizes, 1, N, MASKED).parameters for one in (plain, averaged)]
    assert more[1] > more[0]


def test_checkpoints_of_a_run_that_ends_before_max_update(small):
    config = with_defaults(small(ROBERTA))
    config.checkpoint.update({"save_interval_updates": 1000, "keep_interval_updates": -1})
    assert checkpoints_kept(config, 2500, None) == 3 + 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [ROBERTA, LINFORMER])
def test_the_estimate_is_near_the_measured_peak_of_a_process(name):
    program = Path(__file__).with_name("measure_peak.py")
    done = subprocess.run([sys.executable, str(program), name], capture_output=True, text=True, check=True)
    peak, estimate = map(float, done.stdout.split()[-2:])
    assert 0.7 < estimate / peak < 1.4

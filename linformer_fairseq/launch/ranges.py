"""The numbers of a config: the range of each option, and what several must be together.

What fairseq gives a meaning is allowed: 0 where it switches something off, and -1 where it stands for no limit.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.models.ranges import AMOUNT, COUNT, DROPOUT, POSITIVE, PROBABILITY, RANGES_OF_MODEL, Range

_COUNT_OR_ALL = Range(0, unlimited=-1)
_THRESHOLD = Range(0.0, float("inf"))
# numpy takes 32 bits, and fairseq adds the number of the epoch
_SEED = Range(0, 4_000_000_000)

RANGES = {
    "checkpoint.keep_best_checkpoints": _COUNT_OR_ALL,
    "checkpoint.keep_interval_updates": _COUNT_OR_ALL,
    "checkpoint.keep_interval_updates_pattern": Range(1, unlimited=-1),
    "checkpoint.keep_last_epochs": _COUNT_OR_ALL,
    "checkpoint.patience": _COUNT_OR_ALL,
    "checkpoint.save_interval": POSITIVE,
    "checkpoint.save_interval_updates": COUNT,
    "common.amp_batch_retries": COUNT,
    "common.amp_init_scale": POSITIVE,
    "common.amp_scale_window": POSITIVE,
    "common.empty_cache_freq": COUNT,
    "common.fp16_init_scale": POSITIVE,
    "common.fp16_scale_tolerance": PROBABILITY,
    "common.fp16_scale_window": POSITIVE,
    "common.log_interval": POSITIVE,
    "common.min_loss_scale": AMOUNT,
    "common.seed": _SEED,
    "common.threshold_loss_scale": AMOUNT,
    "criterion.label_weight": PROBABILITY,
    "dataset.batch_size": POSITIVE,
    "dataset.batch_size_valid": POSITIVE,
    "dataset.curriculum": COUNT,
    "dataset.data_buffer_size": COUNT,
    "dataset.fixed_validation_seed": _SEED,
    "dataset.max_tokens": POSITIVE,
    "dataset.max_tokens_valid": POSITIVE,
    "dataset.max_valid_steps": COUNT,
    "dataset.num_workers": COUNT,
    "dataset.required_batch_size_multiple": POSITIVE,
    "dataset.required_seq_len_multiple": POSITIVE,
    "dataset.validate_after_updates": COUNT,
    "dataset.validate_interval": POSITIVE,
    "dataset.validate_interval_updates": COUNT,
    "distributed_training.distributed_world_size": POSITIVE,
    "ema.ema_decay": PROBABILITY,
    "lr_scheduler.end_learning_rate": AMOUNT,
    "lr_scheduler.power": AMOUNT,
    "lr_scheduler.warmup_updates": COUNT,
    **{f"model.{name}": allowed for name, allowed in RANGES_OF_MODEL.items()},
    "optimization.clip_norm": _THRESHOLD,
    "optimization.lr": Range(0.0, ends="(]"),
    "optimization.max_epoch": COUNT,
    "optimization.max_update": COUNT,
    "optimization.stop_time_hours": _THRESHOLD,
    "optimization.update_freq": POSITIVE,
    "optimizer.adam_eps": AMOUNT,
    "optimizer.weight_decay": AMOUNT,
    "run.join_timeout": POSITIVE,
    "run.sentences_per_update": POSITIVE,
    "run.slurm.cpus_per_task": POSITIVE,
    "run.slurm.gpus_per_node": COUNT,
    "run.slurm.max_num_timeout": COUNT,
    "run.slurm.nodes": POSITIVE,
    "run.slurm.signal_delay": COUNT,
    "run.slurm.tasks_per_node": POSITIVE,
    "run.slurm.time": POSITIVE,
    "run.tokens_per_batch": POSITIVE,
    "run.tokens_per_update": POSITIVE,
    "task.init_token": COUNT,
    "task.leave_unmasked_prob": PROBABILITY,
    "task.length_window": COUNT,
    "task.mask_multiple_length": POSITIVE,
    "task.mask_prob": Range(0.0, 1, "()"),
    "task.mask_stdev": AMOUNT,
    "task.max_positions": POSITIVE,
    "task.random_token_prob": PROBABILITY,
    "task.separator_token": COUNT,
    "task.tokens_per_sample": Range(2),  # <s>, and a token
}
"""Of the options of which fairseq, torch or numpy take only some values; a plugin's options may have any."""


def check_numbers(config: DictConfig) -> None:
    """Raise for numbers with which a run would be useless, or fail in fairseq or torch.

    Args:
        config: resolved, from `options.with_defaults`.

    Raises:
        UserError: with the option, its value and what was expected.
    """
    for key, allowed in RANGES.items():
        given = OmegaConf.select(config, key)
        values = list(given) if isinstance(given, ListConfig) else [given]
        if given is not None and not (values and all(map(allowed.has, values))):
            raise UserError(f"{key}={given}: expected {allowed}")
    _check_task(config.task)
    _check_betas(config.optimizer)
    _check_batch(config)
    _check_precision(config)
    _check_processes(config)
    _check_installed(config)


def _check_task(task: DictConfig) -> None:
    if task.get("mask_whole_words"):
        raise UserError("task.mask_whole_words=true: fails in fairseq itself; leave it out")
    kept, replaced = task.get("leave_unmasked_prob") or 0, task.get("random_token_prob") or 0
    if kept + replaced > 1:
        raise UserError(
            f"task.leave_unmasked_prob={kept} and task.random_token_prob={replaced}: expected at most 1 together"
        )


def _check_betas(optimizer: DictConfig) -> None:
    if "adam_betas" not in optimizer:  # another optimizer
        return
    given: Any = optimizer.adam_betas
    try:
        betas = ast.literal_eval(given) if isinstance(given, str) else given
    except (ValueError, SyntaxError):
        betas = None
    if not isinstance(betas, Sequence) or len(betas) != 2 or not all(map(DROPOUT.has, betas)):
        raise UserError(
            f"optimizer.adam_betas={given}: expected two numbers of at least 0 and below 1, such as [0.9,0.98]"
        )


def _check_precision(config: DictConfig) -> None:
    common = config.common
    if len(several := [kind for kind in ("fp16", "bf16", "amp") if common[kind]]) > 1:
        raise UserError(
            f"common.{several[1]}=true: {several[0]} is set, too (by run.precision={config.run.precision}); set "
            + ("run.precision=bf16" if several[1] == "bf16" else "run.precision=fp32 for amp")
        )
    if common.cpu and common.fp16 and not common.fp16_no_flatten_grads:
        raise UserError("run.precision=fp16 is for GPUs; on a CPU, use fp32 or bf16")
    if common.cpu and common.amp:
        raise UserError("common.amp=true is for GPUs: on a CPU, fairseq ignores it; use run.precision=bf16")
    for kind in ("fp16", "bf16"):
        option = f"memory_efficient_{kind}"
        if common[option] and not common[kind]:
            raise UserError(f"common.{option}=true: fairseq ignores it without run.precision={kind}; set that, too")
        if common[option] and config.optimizer._name == "fused_adamw":
            raise UserError(
                f"common.{option}=true: fused_adamw needs float32 parameters; set optimizer._name=adam, too"
            )


def _check_processes(config: DictConfig) -> None:
    """Raise for what several processes cannot do, or for another number of them than a SLURM job will start."""
    distributed = config.distributed_training
    nodes, tasks = (OmegaConf.select(config, f"run.slurm.{name}") for name in ("nodes", "tasks_per_node"))
    if nodes and tasks and distributed.distributed_world_size != nodes * tasks:
        raise UserError(
            f"distributed_training.distributed_world_size={distributed.distributed_world_size}, but the SLURM job has "
            f"{nodes * tasks} processes (run.slurm.nodes={nodes} x run.slurm.tasks_per_node={tasks}); leave it out, "
            "and change these"
        )
    several, of_torch = distributed.distributed_world_size > 1, distributed.ddp_backend in ("c10d", "pytorch_ddp")
    if config.common.cpu and several:
        if distributed.distributed_backend == "nccl":
            raise UserError("distributed_training.distributed_backend=nccl is for GPUs; on CPUs, use gloo")
        if of_torch:
            raise UserError(f"distributed_training.ddp_backend={distributed.ddp_backend} is for GPUs; use legacy_ddp")
    drops = config.model.get("encoder_layerdrop")
    if drops and several and of_torch and not distributed.find_unused_parameters:
        raise UserError(
            f"model.encoder_layerdrop={drops}: layers that are left out have no gradient, which torch's DDP has to "
            "look for; set distributed_training.find_unused_parameters=true, too"
        )


def _check_installed(config: DictConfig) -> None:
    """Raise for options that need a package which is not there: fairseq looks for it in the middle of the start."""
    distributed = config.distributed_training
    for option, needed, package in (
        ("checkpoint.write_checkpoints_asynchronously", config.checkpoint.write_checkpoints_asynchronously, "iopath"),
        ("common.tpu", config.common.tpu, "torch_xla"),
        ("distributed_training.ddp_backend", distributed.ddp_backend == "fully_sharded", "fairscale"),
        ("distributed_training.zero_sharding", distributed.zero_sharding != "none", "fairscale"),
        ("optimizer._name", config.optimizer._name == "cpu_adam", "deepspeed"),
    ):
        if needed and find_spec(package) is None:
            value = str(OmegaConf.select(config, option)).lower()
            raise UserError(f"{option}={value}: needs {package}; install it, or leave this out")


def _check_batch(config: DictConfig) -> None:
    """Raise if nothing gives the size of a batch, updates have several sizes, or max_tokens makes batches of blocks
    smaller than update_freq is computed from, or than a block."""
    if len(set(frequencies := config.optimization.update_freq)) > 1:  # fairseq takes the next one in each epoch
        raise UserError(
            f"optimization.update_freq={list(frequencies)}: updates would have several sizes, but a run's plan, row of "
            "results and curve have one; expected one number (fairseq-train takes several)"
        )
    sequences, tokens = config.dataset.batch_size, config.dataset.max_tokens
    if sequences is None and tokens is None:
        raise UserError("dataset.batch_size=null and dataset.max_tokens=null: expected a number for one of them")
    blocks = config.run.stage == "pretraining" and config.task.get("sample_break_mode") in (None, "none")
    if not blocks or tokens is None:
        return
    length = config.task.tokens_per_sample
    if sequences is not None and tokens < sequences * length:
        raise UserError(
            f"dataset.max_tokens={tokens}, but a batch has {sequences} blocks of {length} tokens (dataset.batch_size), "
            "so updates would be smaller than run.tokens_per_update; lower run.tokens_per_batch instead"
        )
    for option in ("max_tokens", "max_tokens_valid"):
        if (given := config.dataset[option]) is not None and given < length:
            raise UserError(f"dataset.{option}={given}, but a block has {length} tokens (task.tokens_per_sample)")

"""The numbers of a config: the range of each option, and what several must be together.

What fairseq gives a meaning is allowed: 0 where it switches something off, and -1 where it stands for no limit.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from omegaconf import DictConfig, ListConfig, OmegaConf

from linformer_fairseq.files.errors import UserError

_LARGEST = sys.float_info.max


class Range(NamedTuple):
    """The values of an option, or of each one in its list: whole numbers if ``least`` is one."""

    least: int | float
    most: int | float = _LARGEST
    ends: str = "[]"
    """A round bracket in place of a square one: that end is not a value itself."""
    unlimited: int | None = None
    """One more value, which stands for no limit."""

    def has(self, value: Any) -> bool:
        """Whether it is one of the values."""
        if not isinstance(value, int if self._whole else int | float) or isinstance(value, bool):
            return False
        above = value > self.least if self.ends[0] == "(" else value >= self.least
        below = value < self.most if self.ends[1] == ")" else value <= self.most
        return (above and below) or value == self.unlimited

    def __str__(self) -> str:
        low = f"above {self.least:g}" if self.ends[0] == "(" else f"of at least {self.least:g}"
        high = f" and {'below' if self.ends[1] == ')' else 'at most'} {self.most:,}" if self.most < _LARGEST else ""
        other = f", or {self.unlimited}" if self.unlimited is not None else ""
        return f"a {'whole ' if self._whole else ''}number {low}{high}{other}"

    @property
    def _whole(self) -> bool:
        return isinstance(self.least, int)


_COUNT, _POSITIVE, _AMOUNT = Range(0), Range(1), Range(0.0)
_COUNT_OR_ALL = Range(0, unlimited=-1)
_PROBABILITY = Range(0.0, 1)
_DROPOUT = Range(0.0, 1, "[)")  # at 1, nothing would be left
_THRESHOLD = Range(0.0, float("inf"))
# numpy takes 32 bits, and fairseq adds the number of the epoch
_SEED = Range(0, 4_000_000_000)

RANGES = {
    "checkpoint.keep_best_checkpoints": _COUNT_OR_ALL,
    "checkpoint.keep_interval_updates": _COUNT_OR_ALL,
    "checkpoint.keep_interval_updates_pattern": Range(1, unlimited=-1),
    "checkpoint.keep_last_epochs": _COUNT_OR_ALL,
    "checkpoint.patience": _COUNT_OR_ALL,
    "checkpoint.save_interval": _POSITIVE,
    "checkpoint.save_interval_updates": _COUNT,
    "common.amp_batch_retries": _COUNT,
    "common.amp_init_scale": _POSITIVE,
    "common.amp_scale_window": _POSITIVE,
    "common.empty_cache_freq": _COUNT,
    "common.fp16_init_scale": _POSITIVE,
    "common.fp16_scale_tolerance": _PROBABILITY,
    "common.fp16_scale_window": _POSITIVE,
    "common.log_interval": _POSITIVE,
    "common.min_loss_scale": _AMOUNT,
    "common.seed": _SEED,
    "common.threshold_loss_scale": _AMOUNT,
    "dataset.batch_size": _POSITIVE,
    "dataset.batch_size_valid": _POSITIVE,
    "dataset.curriculum": _COUNT,
    "dataset.data_buffer_size": _COUNT,
    "dataset.fixed_validation_seed": _SEED,
    "dataset.max_tokens": _POSITIVE,
    "dataset.max_tokens_valid": _POSITIVE,
    "dataset.max_valid_steps": _COUNT,
    "dataset.num_workers": _COUNT,
    "dataset.required_batch_size_multiple": _POSITIVE,
    "dataset.required_seq_len_multiple": _POSITIVE,
    "dataset.validate_after_updates": _COUNT,
    "dataset.validate_interval": _POSITIVE,
    "dataset.validate_interval_updates": _COUNT,
    "distributed_training.distributed_world_size": _POSITIVE,
    "ema.ema_decay": _PROBABILITY,
    "lr_scheduler.end_learning_rate": _AMOUNT,
    "lr_scheduler.power": _AMOUNT,
    "lr_scheduler.warmup_updates": _COUNT,
    "model.activation_dropout": _DROPOUT,
    "model.attention_dropout": _DROPOUT,
    "model.dropout": _DROPOUT,
    "model.encoder_attention_heads": _POSITIVE,
    "model.encoder_embed_dim": _POSITIVE,
    "model.encoder_ffn_embed_dim": _POSITIVE,
    "model.encoder_layerdrop": _DROPOUT,
    "model.encoder_layers": _POSITIVE,
    "model.max_positions": _POSITIVE,
    "model.min_params_to_wrap": _COUNT,
    "model.pooler_dropout": _DROPOUT,
    "model.quant_noise_pq": _PROBABILITY,
    "model.quant_noise_pq_block_size": _POSITIVE,
    "model.quant_noise_scalar": _PROBABILITY,
    "optimization.clip_norm": _THRESHOLD,
    "optimization.lr": Range(0.0, ends="(]"),
    "optimization.max_epoch": _COUNT,
    "optimization.max_update": _COUNT,
    "optimization.stop_time_hours": _THRESHOLD,
    "optimization.update_freq": _POSITIVE,
    "optimizer.adam_eps": _AMOUNT,
    "optimizer.weight_decay": _AMOUNT,
    "run.join_timeout": _POSITIVE,
    "run.sentences_per_update": _POSITIVE,
    "run.slurm.cpus_per_task": _POSITIVE,
    "run.slurm.gpus_per_node": _COUNT,
    "run.slurm.max_num_timeout": _COUNT,
    "run.slurm.nodes": _POSITIVE,
    "run.slurm.signal_delay": _COUNT,
    "run.slurm.tasks_per_node": _POSITIVE,
    "run.slurm.time": _POSITIVE,
    "run.tokens_per_batch": _POSITIVE,
    "run.tokens_per_update": _POSITIVE,
    "task.init_token": _COUNT,
    "task.leave_unmasked_prob": _PROBABILITY,
    "task.length_window": _COUNT,
    "task.mask_multiple_length": _POSITIVE,
    "task.mask_prob": Range(0.0, 1, "()"),
    "task.mask_stdev": _AMOUNT,
    "task.max_positions": _POSITIVE,
    "task.random_token_prob": _PROBABILITY,
    "task.separator_token": _COUNT,
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


def _check_task(task: DictConfig) -> None:
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
    if not isinstance(betas, Sequence) or len(betas) != 2 or not all(map(_DROPOUT.has, betas)):
        raise UserError(
            f"optimizer.adam_betas={given}: expected two numbers of at least 0 and below 1, such as [0.9,0.98]"
        )


def _check_precision(config: DictConfig) -> None:
    common = config.common
    if common.cpu and common.fp16 and not common.fp16_no_flatten_grads:
        raise UserError("run.precision=fp16 is for GPUs; on a CPU, use fp32 or bf16")
    for kind in ("fp16", "bf16"):
        option = f"memory_efficient_{kind}"
        if common[option] and not common[kind]:
            raise UserError(f"common.{option}=true: fairseq ignores it without run.precision={kind}; set that, too")
        if common[option] and config.optimizer._name == "fused_adamw":
            raise UserError(
                f"common.{option}=true: fused_adamw needs float32 parameters; set optimizer._name=adam, too"
            )


def _check_batch(config: DictConfig) -> None:
    """Raise if max_tokens makes batches of blocks smaller than update_freq is computed from."""
    sequences, tokens = config.dataset.batch_size, config.dataset.max_tokens
    blocks = config.run.stage == "pretraining" and config.task.get("sample_break_mode") in (None, "none")
    if not blocks or sequences is None or tokens is None:
        return
    length = config.task.tokens_per_sample
    if tokens < sequences * length:
        raise UserError(
            f"dataset.max_tokens={tokens}, but a batch has {sequences} blocks of {length} tokens (dataset.batch_size), "
            "so updates would be smaller than run.tokens_per_update; lower run.tokens_per_batch instead"
        )

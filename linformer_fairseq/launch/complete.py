"""Completes a composed config: makes paths absolute, checks data and checkpoint, reads a finetuning's model."""

from __future__ import annotations

import warnings
from pathlib import Path

from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

import linformer_fairseq
from linformer_fairseq.checkpoints.dictionaries import check_same
from linformer_fairseq.checkpoints.released_folder import find_weights
from linformer_fairseq.files.dictionary import find_dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch.compose import plain, resolved
from linformer_fairseq.launch.data import TASKS, check_pretraining_data, check_task_data, check_task_examples, prepared
from linformer_fairseq.launch.options import import_user_dir, resolved_model, with_defaults
from linformer_fairseq.launch.pretrained import read_pretrained
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.models.options import attention_settings

_PATHS = (
    "checkpoint.finetune_from_model",
    "checkpoint.save_dir",
    "common.log_file",
    "common.tensorboard_logdir",
    "common.user_dir",
    "pretrained",
    "run.runs",
)
# fairseq interprets a colon as a separator of folders.
_FORBIDDEN = ":"
_LEAST = {
    "common.log_interval": 1,
    "common.seed": 0,
    "checkpoint.save_interval_updates": 0,
    "dataset.batch_size": 1,
    "dataset.num_workers": 0,
    "distributed_training.distributed_world_size": 1,
    "lr_scheduler.warmup_updates": 0,
    "optimization.max_epoch": 0,
    "optimization.max_update": 0,
    "run.join_timeout": 1,
    "task.length_window": 0,
}


def complete(config: DictConfig) -> DictConfig:
    """Return the config for fairseq and for a dry run.

    Args:
        config: as composed; relative paths in it are relative to the working directory.

    Raises:
        UserError: something is missing or contradictory; nothing was written or submitted.
    """
    config = resolved(config)
    name = Path(str(config.run.name))
    if name == Path() or name.is_absolute() or ".." in name.parts:
        raise UserError(f"run.name={config.run.name}: expected the name of a folder in {config.run.runs}")
    if config.pretrained:
        config.pretrained = find_weights(config.pretrained)
    for key in _PATHS:
        _make_absolute(config, key)
    if not all(str(config.task.data).split(":")):  # it would be the working directory
        raise UserError(f"task.data={config.task.data}: expected a folder")
    import_user_dir(config)
    with open_dict(config):
        # Set here, so that users need not know the package's path. A plugin of their own replaces it: this process has
        # registered the package.
        if config.common.user_dir is None:
            config.common.user_dir = str(Path(linformer_fairseq.__file__).parent)
        config.task.data = ":".join(str(Path(part).absolute()) for part in str(config.task.data).split(":"))
    if config.run.stage == "pretraining":
        folders = [Path(part) for part in config.task.data.split(":")]
        check_pretraining_data(folders)
        if config.pretrained:
            _continue_pretraining(config, folders[0])
    else:
        _complete_finetuning(config)
    start = config.checkpoint.finetune_from_model
    if start is not None and not Path(start).is_file():
        raise UserError(f"checkpoint.finetune_from_model={start}: no such file; expected a checkpoint")
    dict_txt = find_dictionary(Path(config.task.data.split(":")[0]))
    if start is not None and dict_txt is not None and not config.pretrained:
        check_same(Path(start), dict_txt)
    _check_options(config)
    _check_batch(config)
    _check_numbers(config)
    return config


def _check_options(config: DictConfig) -> None:
    """Raise for an option that would be refused when the model, the task or the optimizer is built."""
    try:
        name, options = resolved_model(with_defaults(config))
        if name == MODEL:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # building the model repeats them
                attention_settings(options)
    except OmegaConfBaseException as error:
        raise UserError(plain(error)) from None
    except ValueError as error:
        raise UserError(str(error)) from None


def _make_absolute(config: DictConfig, key: str) -> None:
    group, _, name = key.rpartition(".")
    node = config[group] if group else config
    value = node.get(name)
    if value is None:
        return
    path = Path(value).absolute()
    if key == "checkpoint.save_dir" and _FORBIDDEN in str(path):
        raise UserError(f"checkpoint.save_dir={value}: fairseq cannot use a path with a colon; choose another folder")
    node[name] = str(path)


def _check_task(config: DictConfig, folder: Path, theirs: str | None) -> None:
    if theirs is not None and config.run.task in TASKS and theirs != config.run.task:
        raise UserError(f"task={config.run.task}, but {folder} was prepared as {theirs}; change task or task.data")


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


def _check_numbers(config: DictConfig) -> None:
    """Raise for values with which a run would be useless, or fail in torch."""
    for key, least in _LEAST.items():
        value = OmegaConf.select(config, key)
        if value is not None and value < least:
            raise UserError(f"{key}={value}: expected at least {least}")
    if not config.optimization.max_update and not config.optimization.max_epoch:
        raise UserError("optimization.max_update=0, and no max_epoch: the run would never end; set one of them")
    rates = list(config.optimization.lr)
    if wrong := [rate for rate in rates if not rate > 0]:
        raise UserError(f"optimization.lr: {wrong[0]}: expected a number above 0")
    if config.lr is not None and rates != [config.lr]:
        # lr is in the name of a finetuning's folder, and in its grid
        right = "lr=VALUE" if config.run.stage == "finetuning" else "optimization.lr=[VALUE]"
        raise UserError(f"lr={config.lr:g}, but optimization.lr={rates}: set the learning rate with {right} alone")
    scheduler = config.lr_scheduler
    last = scheduler.get("total_num_update")
    if scheduler._name == "polynomial_decay" and not float(last or 0) > 0:
        raise UserError(
            f"lr_scheduler.total_num_update={last}: expected the update at which the learning rate is 0; it is "
            "optimization.max_update unless it is set"
        )
    if last and scheduler.warmup_updates >= float(last):
        raise UserError(
            f"lr_scheduler.warmup_updates={scheduler.warmup_updates}, but the run ends after {float(last):,.0f} "
            "updates, before its learning rate is reached; use a smaller number"
        )
    if config.common.cpu and config.common.fp16 and not config.common.fp16_no_flatten_grads:
        raise UserError("run.precision=fp16 is for GPUs; on a CPU, use fp32 or bf16")


def _continue_pretraining(config: DictConfig, data: Path) -> None:
    """Begin with the model of a checkpoint, as a finetuning does, in place of one that has learned nothing."""
    checkpoint = Path(config.pretrained)
    pretrained = read_pretrained(checkpoint)
    pretrained.check_dictionary(data / "dict.txt")
    if config.task.tokens_per_sample > pretrained.max_positions:
        raise UserError(
            f"task.tokens_per_sample={config.task.tokens_per_sample}, but {checkpoint} has n = "
            f"{pretrained.max_positions}; give at most that"
        )
    with open_dict(config):
        config.model = pretrained.model_options(config.model)
        config.checkpoint.finetune_from_model = str(checkpoint)


def _complete_finetuning(config: DictConfig) -> None:
    folder = Path(config.task.data)
    checkpoint = Path(config.pretrained)
    labels = check_task_data(folder)
    pretrained = read_pretrained(checkpoint)
    pretrained.check_dictionary(folder / "input0" / "dict.txt")
    check_task_examples(folder)
    manifest = prepared(folder)
    _check_task(config, folder, manifest.get("task"))
    given = config.task.max_positions
    if given is not None and given != pretrained.max_positions:
        raise UserError(
            f"task.max_positions={given}, but {checkpoint} has n = {pretrained.max_positions}; leave it out"
        )
    longest = manifest.get("options", {}).get("max_positions")
    if longest is not None and longest > pretrained.max_positions:
        raise UserError(
            f"{folder} was prepared with --max-positions {longest}, but {checkpoint} has n = "
            f"{pretrained.max_positions}; prepare it again with --max-positions {pretrained.max_positions}"
        )
    wanted = config.task.get("num_classes")
    if wanted is not None and wanted != labels:
        raise UserError(
            f"task.num_classes={wanted}, but {folder / 'label' / 'dict.txt'} has {labels} classes; leave it out"
        )
    with open_dict(config):
        config.model = pretrained.model_options(config.model)
        config.task.max_positions = pretrained.max_positions
        config.task.num_classes = labels
        config.checkpoint.finetune_from_model = str(checkpoint)

"""Completes a composed config: makes paths absolute, checks data and checkpoint, reads a finetuning's model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairseq.data.data_utils import raise_if_valid_subsets_unintentionally_ignored
from fairseq.utils import get_available_activation_fns
from omegaconf import DictConfig, OmegaConf, open_dict

import linformer_fairseq
from linformer_fairseq.checkpoints.released_folder import find_weights
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch.compose import resolved
from linformer_fairseq.launch.data import (
    Splits,
    check_lengths,
    check_pretraining_data,
    check_sentences,
    check_soft_labels,
    check_task_data,
    check_task_examples,
    check_task_name,
)
from linformer_fairseq.launch.metrics import check_metric, check_reports
from linformer_fairseq.launch.options import check_types, import_user_dir, resolved_model, switches, with_defaults
from linformer_fairseq.launch.pretrained import Pretrained, all_options, read_pretrained
from linformer_fairseq.launch.ranges import check_numbers
from linformer_fairseq.launch.schedule import check_schedule
from linformer_fairseq.launch.start import begin_with, check_start
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.models.options import attention_settings
from linformer_fairseq.tasks import SOFT_SENTENCE_PREDICTION

_PATHS = (
    "checkpoint.finetune_from_model",
    "checkpoint.save_dir",
    "common.log_file",
    "common.tensorboard_logdir",
    "common.user_dir",
    "pretrained",
    "run.runs",
)
_OF_THE_OTHER_STAGE = {
    "pretraining": (("sentences_per_update",), "for finetuning; in pretraining, set run.tokens_per_update"),
    "finetuning": (
        ("tokens_per_update", "tokens_per_batch"),
        "for pretraining; in finetuning, set run.sentences_per_update or dataset.batch_size",
    ),
}
"""Options under ``run`` from which a stage computes nothing, and what is said of them."""


def complete(config: DictConfig, to_come: Pretrained | None = None) -> DictConfig:
    """Return the config for fairseq and for a dry run.

    Args:
        config: as composed; relative paths in it are relative to the working directory.
        to_come: of a finetuning, what the checkpoint ``pretrained`` will contain, which another run is to write first.
            Its dictionary is left to the caller.

    Raises:
        UserError: something is missing or contradictory; nothing was written or submitted.
    """
    check_types(config)
    if config.run.stage == "pretraining" and OmegaConf.select(config, "task.tokens_per_sample") is None:
        raise UserError(
            "task.tokens_per_sample: not given; expected n, the tokens of a block, at most those of the model"
        )
    config = resolved(config)
    name = Path(str(config.run.name))
    if name == Path() or name.is_absolute() or ".." in name.parts:
        raise UserError(f"run.name={config.run.name}: expected the name of a folder in {config.run.runs}")
    if any(part.startswith(".") for part in name.parts):
        raise UserError(
            f"run.name={name}: expected no dot at the beginning, because `linformer results` reads no hidden folders; "
            "rename the folder, too, if the run has one"
        )
    if not str(name).isprintable():  # it stands in tables
        raise UserError(f"run.name={str(name)!r}: expected a name without line breaks and other control characters")
    _check_stage(config.run)
    if config.pretrained and to_come is None:
        config.pretrained = find_weights(config.pretrained)
    for key in _PATHS:
        _make_absolute(config, key)
    _check_logs(config)
    data = config.task.data
    if data is None or not all(data.split(":")):  # an empty one would be the working directory
        raise UserError(f"task.data={'null' if data is None else data}: expected a folder")
    import_user_dir(config)
    with open_dict(config):
        # Set here, so that users need not know the package's path. A plugin of their own replaces it: this process has
        # registered the package.
        if config.common.user_dir is None:
            config.common.user_dir = str(Path(linformer_fairseq.__file__).parent)
        config.task.data = ":".join(str(Path(part).absolute()) for part in data.split(":"))
    if config.run.stage == "pretraining":
        folders = [Path(part) for part in config.task.data.split(":")]
        check_pretraining_data(folders, Splits.of(config.dataset))
        if config.pretrained:
            _continue_pretraining(config, folders[0])
    else:
        _complete_finetuning(config, to_come)
    check_start(config, to_come.path if to_come else None)
    full = with_defaults(config)
    check_numbers(full)
    check_schedule(full)
    check_metric(full)
    _check_model(full)
    try:
        raise_if_valid_subsets_unintentionally_ignored(full)
    except ValueError as error:
        raise UserError(
            f"task.data: {str(error).partition(' Set ')[0]} Name them in dataset.valid_subset, or set "
            "dataset.combine_valid_subsets=true or dataset.ignore_unused_valid_subsets=true"
        ) from None
    if config.run.stage == "pretraining":
        check_sentences(Path(config.task.data.split(":")[0]), full)
    return config


def _check_stage(run: DictConfig) -> None:
    """Raise for an option that has no effect in this stage."""
    names, instead = _OF_THE_OTHER_STAGE[run.stage]
    for name in names:
        if run[name] is not None:
            raise UserError(f"run.{name}={run[name]}: is {instead}")


def _check_model(config: DictConfig) -> None:
    """Raise for an option that would be refused when the model is built, or makes it useless."""
    try:
        name, options = resolved_model(config)
        if name is None:
            raise UserError("model._name=null: expected the name of an architecture; leave it out for the config's own")
        if name == "roberta":
            _check_roberta(all_options(name, vars(options)), config)
        if name != MODEL:
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # building the model repeats them
            settings = attention_settings(options)
    except ValueError as error:
        raise UserError(str(error)) from None
    n, largest = settings.max_positions, settings.largest_dim
    if largest > n and config.run.stage == "pretraining" and not config.pretrained:  # a checkpoint may have such a k
        raise UserError(f"model.projected_dim={settings.projected_dim}: k is larger than n = {n}; expected at most n")


def _check_roberta(options: Mapping[str, Any], config: DictConfig) -> None:
    """The same for fairseq's model, which checks less itself."""
    width, heads = options["encoder_embed_dim"], options["encoder_attention_heads"]
    if width % heads:
        raise UserError(f"model.encoder_attention_heads={heads}: expected a divisor of the width {width}")
    if noise := options.get("quant_noise_scalar"):
        raise UserError(f"model.quant_noise_scalar={noise}: fairseq cannot apply it to the embeddings; leave it out")
    if kept := options.get("encoder_layers_to_keep"):
        raise UserError(
            f"model.encoder_layers_to_keep={kept}: fairseq's RoBERTa cannot load the checkpoints that it saves with "
            "this option; leave it out, and give the number of layers as model.encoder_layers"
        )
    for name in ("activation_fn", "pooler_activation_fn"):
        if (given := options[name]) not in (known := get_available_activation_fns()):
            raise UserError(f"model.{name}={given}: expected one of {', '.join(known)}")
    for name in sorted(switches("roberta") & options.keys()):
        if not isinstance(given := options[name], bool):
            raise UserError(f"model.{name}={given}: expected true or false")
    n, length = options.get("max_positions"), config.task.get("tokens_per_sample")
    if config.run.stage == "pretraining" and n and length and n < length:
        raise UserError(f"model.max_positions={n}: expected at least task.tokens_per_sample={length}")


def _make_absolute(config: DictConfig, key: str) -> None:
    group, _, name = key.rpartition(".")
    node = config[group] if group else config
    value = node.get(name)
    if value is None:
        return
    if not value:  # it would be the working directory
        raise UserError(f"{key}=: expected a path")
    path = Path(value).absolute()
    if key == "checkpoint.save_dir" and ":" in str(path):  # which separates folders for fairseq
        raise UserError(f"checkpoint.save_dir={value}: fairseq cannot use a path with a colon; choose another folder")
    node[name] = str(path)


def _check_logs(config: DictConfig) -> None:
    """Raise unless the logs outside the run folder can be written; what is in it, a run checks when it starts."""
    run, common = Path(config.checkpoint.save_dir), config.common
    log, events = common.log_file, common.tensorboard_logdir
    if log is not None and Path(log).parent != run and not Path(log).parent.is_dir():
        raise UserError(f"common.log_file={log}: there is no folder {Path(log).parent}")
    if events is not None and not Path(events).is_relative_to(run):
        there = next(path for path in (Path(events), *Path(events).parents) if path.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise UserError(f"common.tensorboard_logdir={events}: {there} is not a folder that can be written to")


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
        config.model = pretrained.model_options(config.model or {}, "leave it out, or give model=null")
        begin_with(config, checkpoint)


def _complete_finetuning(config: DictConfig, to_come: Pretrained | None) -> None:
    folder = Path(config.task.data)
    checkpoint = Path(config.pretrained)
    splits = Splits.of(config.dataset)
    labels = check_task_data(folder, splits)
    pretrained = to_come or read_pretrained(checkpoint)
    if to_come is None:
        pretrained.check_dictionary(folder / "input0" / "dict.txt")
    check_task_examples(folder, splits)
    check_task_name(config.run.task, folder)
    given = config.task.max_positions
    if given is not None and given != pretrained.max_positions:
        raise UserError(
            f"task.max_positions={given}, but {checkpoint} has n = {pretrained.max_positions}; leave it out"
        )
    if config.task.get("regression_target") or config.criterion.get("regression_target"):
        raise UserError("regression_target=true: for numbers in place of classes use fairseq-train (docs/training.md)")
    check_lengths(folder, config, pretrained.max_positions)
    for name in ("init_token", "separator_token"):
        if (token := config.task.get(name)) is not None and token >= pretrained.symbols:
            raise UserError(f"task.{name}={token}, but {checkpoint} has {pretrained.symbols:,} symbols; leave it out")
    wanted = config.task.get("num_classes")
    if wanted is not None and wanted != len(labels):
        raise UserError(
            f"task.num_classes={wanted}, but {folder / 'label' / 'dict.txt'} has {len(labels)} classes; leave it out"
        )
    check_reports(config.criterion, labels)
    if config.criterion._name == SOFT_SENTENCE_PREDICTION:
        check_soft_labels(folder, splits)
    with open_dict(config):
        config.model = pretrained.model_options(config.model)
        config.task.max_positions = pretrained.max_positions
        config.task.num_classes = len(labels)
        begin_with(config, checkpoint)

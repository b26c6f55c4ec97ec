"""Checks that a run folder contains no other run, which would be resumed or taken for this one."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.checkpoints.folder import last_checkpoint
from linformer_fairseq.checkpoints.reading import CheckpointError
from linformer_fairseq.core import projection_defaults
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch.pretrained import all_options, read_pretrained
from linformer_fairseq.launch.run_folder import updates_done
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.models.config import DEFAULTS, Role, with_role
from linformer_fairseq.training.resuming import from_own

_START = "finetune_from_model"
# in addition to the options of its model
_FACTS = ("stage", "task", "data", "pretrained", _START, "seed", "lr", "label_weight", "soft_labels")


def check_same_run(path: Path, record: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Raise if a folder has another run, which would be resumed with these settings or taken for this one.

    Args:
        path: the folder.
        record: content of its run.json; empty without one.
        facts: properties of the run that starts, as in run.json.

    Raises:
        UserError: they differ; the message has the option and both values.
    """
    if not record:
        return
    known = {"_name", *DEFAULTS}
    of_plugins = {key for one in (facts, record) for key in one.get("model", {}) if key not in known}
    options = sorted(with_role(Role.MODEL, Role.TRAINING) | of_plugins)
    record = {_START: facts.get(_START), **record}  # run.json of earlier versions lacks it
    if record.get("data_bytes") == facts["data_bytes"]:  # the same data in another place
        record = {**record, "data": facts["data"]}
    else:
        _check_sizes(path, record, facts)
    for (key, ours), (_, theirs) in zip(_identity(facts, options), _identity(record, options), strict=True):
        if ours != theirs:
            fixed = key in {f"model.{option}" for option in with_role(Role.MODEL)}  # its checkpoints are of no use then
            or_else = "" if fixed else _or_continue(record, facts, "the new value")
            raise UserError(
                f"{path} holds a run with {key} {theirs!r}, but this one has {ours!r}; choose another run.name{or_else}"
            )
    if record.get("dictionaries", facts["dictionaries"]) != facts["dictionaries"]:
        raise UserError(
            f"{path} holds a run on data with other dictionaries than those which are in {facts['data']} by now; "
            "choose another run.name, or prepare the data with the same tokenizer again"
        )
    prepared = record.get("inputs")
    if prepared is not None and prepared != facts.get("inputs"):
        raise UserError(
            f"{path} holds a run on data that were prepared with {prepared}, but those in {facts['data']} are with "
            f"{facts.get('inputs')} by now; choose another run.name, or prepare the data as before"
        )


def check_same_start(path: Path, record: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Raise if a finished run started from other weights than its pretrained checkpoint has by now.

    It would be taken for a result of these. One that has not finished goes on: it has its own checkpoint.

    Args:
        path: the folder.
        record: content of its run.json.
        facts: properties of the run that starts, as in run.json.

    Raises:
        UserError: it did.
    """
    before, now = (one.get("pretrained_weights") for one in (record, facts))
    if before and now and before != now:
        raise UserError(
            f"{path} holds a finished run that started from {facts['pretrained']} when it had other weights (its "
            "pretraining went on, or was made again); choose another run.name, or remove the folder to start from these"
        )


def check_same_model(path: Path, config: DictConfig) -> None:
    """Raise if a run would resume from the checkpoint of another model, in a folder without run.json.

    Args:
        path: the folder.
        config: of the run that starts, with all options.

    Raises:
        UserError: the models differ; the message has the option and both values.
    """
    last = last_checkpoint(path, config.checkpoint.checkpoint_suffix)
    name, task = str(config.model._name), config.task
    resumes = from_own(config.checkpoint) and last.is_file()
    if not resumes or not name.startswith((MODEL, "roberta")):  # of others, the options are not known
        return
    try:
        stored = read_pretrained(last)
    except CheckpointError:
        return  # resuming says what is wrong with it, or takes another one
    given: Any = OmegaConf.to_container(config.model, enum_to_str=True)
    ours = all_options(name, given)
    ours["max_positions"] = ours.get("max_positions") or task.get("tokens_per_sample") or task.get("max_positions")
    # the checkpoint has the layers that are left
    left = ("encoder_layers_to_keep", "encoder_layers") if ours.get("encoder_layers_to_keep") else ()
    if different := stored.difference(name, ours, ignored=left):
        key, theirs, here = different
        raise UserError(f"{last} has model.{key} {theirs!r}, but this run has {here!r}; choose another run.name")


def _check_sizes(path: Path, record: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Raise if files of the same data have other sizes by now; other splits may have been added."""
    if record.get("data") != facts["data"] or "data_bytes" not in record:
        return
    for before, now in zip(record["data_bytes"], facts["data_bytes"], strict=True):
        if changed := next((name for name in before.keys() & now.keys() if before[name] != now[name]), None):
            raise UserError(
                f"{path} holds a run on data of {facts['data']} with {before[changed]:,} bytes in {changed}, which has "
                f"{now[changed]:,} by now; choose another run.name{_or_continue(record, facts, 'these')}"
            )


def _or_continue(record: Mapping[str, Any], facts: Mapping[str, Any], what: str) -> str:
    """What else may be done about a difference; of a run without updates left, it would only be recorded."""
    left = updates_done(record) < (facts["max_update"] or math.inf)
    return f", or move its run.json away to continue with {what}" if left else ""


def data_bytes(folders: str) -> list[dict[str, int]]:
    """The bytes of each file of binarized data, by its name in each of the folders (with colons between them).

    With the dictionaries, they tell data from others wherever the data lie.
    """
    return [
        {
            str(file.relative_to(folder)): file.stat().st_size
            for file in sorted(Path(folder).rglob("*"))
            if file.suffix in (".bin", ".idx")
        }
        for folder in folders.split(":")
    ]


def _identity(facts: Mapping[str, Any], options: Collection[str]) -> Iterator[tuple[str, Any]]:
    for key in _FACTS:
        yield key, facts.get(key)
    given = {key: value for key, value in facts.get("model", {}).items() if value is not None}
    # A run.json that is older than an option lacks it. Before the options whose defaults depend on the projection, all
    # projections had those of linear.
    before = projection_defaults("linear", bool(given.get("freeze_projection")))
    model = {**DEFAULTS, "attention_start": "random", **before, **given}
    for key in options:
        yield f"model.{key}", model.get(key)

"""The options of a run: those of fairseq's config, ours, and those of the components that it names."""

from __future__ import annotations

import copy
from argparse import ArgumentParser, Namespace
from collections import ChainMap
from collections.abc import Collection, Iterator
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fairseq import utils
from fairseq.dataclass.initialize import add_defaults
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf

import linformer_fairseq.tasks  # noqa: F401 (registers ours; the models are, by their config)
from linformer_fairseq.files.errors import UserError, nearest
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.models.config import LinformerRobertaConfig
from linformer_fairseq.models.options import resolve_options
from linformer_fairseq.tasks import SENTENCE_PREDICTION

COMPONENTS: dict[str, Collection[str]] = {
    "model": ChainMap(ARCH_MODEL_NAME_REGISTRY, MODEL_REGISTRY),
    "task": TASK_REGISTRY.keys(),
    **{part: registry["registry"].keys() for part, registry in REGISTRIES.items()},
}
"""Parts of a run that are chosen by name, for example with ``model._name``, and the existing names.

They include those of a user's own plugin, once it is imported.
"""


def import_user_dir(config: DictConfig) -> None:
    """Import the user's own plugin, ``common.user_dir``, which registers models, tasks and so on beside ours.

    Another call has no effect.

    Raises:
        UserError: there is no such folder, or another module of its name has been imported.
    """
    folder = config.common.user_dir
    if folder is None:
        return
    if not Path(folder).is_dir():
        raise UserError(f"common.user_dir={folder}: no such folder; expected that of a plugin for fairseq")
    try:
        utils.import_user_module(Namespace(user_dir=folder))
    except ImportError as error:
        raise UserError(f"common.user_dir={folder}: {error}") from error


def with_defaults(config: DictConfig) -> DictConfig:
    """Return a copy with the options that fairseq adds only when a run starts: those of the chosen components.

    Raises:
        OmegaConfBaseException: a component has no such option, or a value is invalid.
    """
    config = copy.deepcopy(config)
    add_defaults(config)
    return config


def resolved_model(config: DictConfig) -> tuple[str, Namespace]:
    """The name of a run's model, that of an architecture replaced, and its options, which for a Linformer are all.

    Args:
        config: of the run, from `with_defaults`.

    Raises:
        ValueError: options of a Linformer contradict each other.
    """
    given: Any = OmegaConf.to_container(config.model, resolve=True, enum_to_str=True)
    model = OmegaConf.create(given)
    architecture = model.get("_name")
    name = ARCH_MODEL_NAME_REGISTRY.get(architecture, architecture)
    if architecture in ARCH_CONFIG_REGISTRY:
        ARCH_CONFIG_REGISTRY[architecture](model)
    n = config.task.get("tokens_per_sample")
    if config.task._name in SENTENCE_PREDICTION:
        n = model.max_positions = config.task.max_positions  # as fairseq's sentence_prediction sets it
    if name != MODEL:
        return name, Namespace(**{str(key): value for key, value in model.items()})
    return name, resolve_options(model, SimpleNamespace(cfg=config.task, max_positions=lambda: n))


def model_options(name: str | None) -> set[str]:
    """Return the names of the options of a model or architecture.

    Args:
        name: as ``model._name``; None if a checkpoint will determine it: then all options of ours.
    """
    name = ARCH_MODEL_NAME_REGISTRY.get(name, name)
    dataclass = LinformerRobertaConfig if name is None else MODEL_DATACLASS_REGISTRY.get(name)
    if dataclass is not None:
        return {field.name for field in fields(dataclass)}
    # fairseq's RoBERTa declares its options only for the command line.
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    MODEL_REGISTRY[name].add_args(parser)
    return {action.dest for action in parser._actions} | {"_name"}


def option_names(config: DictConfig) -> set[str]:
    """Return the dotted names of all options that a composed config has or accepts, and of their groups.

    Raises:
        UserError: it names a component, or has an option of the model, that does not exist; or as `import_user_dir`.
    """
    import_user_dir(config)
    names = {part: OmegaConf.select(config, f"{part}._name") for part in COMPONENTS}
    for part, name in names.items():
        if name is not None and name not in COMPONENTS[part]:
            raise UserError(f"{part}._name={name}: no such {part}{nearest(name, COMPONENTS[part])}")
    components = with_defaults(OmegaConf.create({part: {"_name": name} for part, name in names.items()}))
    known = {*_names(OmegaConf.to_container(config)), *_names(OmegaConf.to_container(components))}
    options = {f"model.{name}" for name in model_options(names["model"])}
    for name in config.model or ():
        if f"model.{name}" not in options:  # fairseq accepts unknown options of a RoBERTa
            raise no_such_option(f"model.{name}", options | {"model"}, config)
    return known | options


def no_such_option(name: str, known: Collection[str], config: DictConfig) -> UserError:
    """Return the error for an option that does not exist, with the closest name that does.

    Args:
        name: dotted.
        known: from `option_names`.
        config: as composed; if the option would be a component's, the message has the component's name.
    """
    group, _, last = name.rpartition(".")
    component = OmegaConf.select(config, f"{group}._name") if group in COMPONENTS else None
    of = f" of {component}" if component is not None else ""
    if group in known:
        near = nearest(name, [other for other in known if other.rpartition(".")[0] == group], common=len(group))
    else:  # the group is misspelled or left out
        near = nearest(name, [other for other in known if other.rpartition(".")[2] == last] or known)
    return UserError(f"{name}: no such option{of}{near}")


def _names(node: Any, prefix: str = "") -> Iterator[str]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield f"{prefix}{key}"
        yield from _names(value, f"{prefix}{key}.")

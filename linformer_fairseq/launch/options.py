"""The options of a run: those of fairseq's config, ours, and those of the components that it names."""

from __future__ import annotations

import copy
from argparse import Action, ArgumentParser, Namespace
from collections import ChainMap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fairseq import utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.initialize import add_defaults
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

import linformer_fairseq.tasks  # noqa: F401 (registers ours; the models are, by their config)
from linformer_fairseq.files.errors import UserError, nearest
from linformer_fairseq.launch.explaining import plain
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


_NEED_MORE = {"composite", "cpu_adam", "pass_through"}
"""Those that do not work by themselves, and so are not recommended: with groups of parameters, DeepSpeed, and an
optimizer with its own learning rate."""


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
        UserError: a component has no such option, or a value is invalid.
    """
    config = copy.deepcopy(config)
    OmegaConf.set_struct(config, False)
    for part in COMPONENTS:  # one at a time: omegaconf's errors lack it
        component = OmegaConf.create({part: config.get(part)})
        try:
            add_defaults(component)
        except OmegaConfBaseException as error:
            raise UserError(f"{part}.{plain(error)}") from None
        config[part] = component[part]
    return config


def check_types(config: DictConfig) -> None:
    """Raise for options of components whose values have a wrong type, before others are computed from them.

    Args:
        config: of the run, as composed. Options that are null may be completed from a checkpoint, and pass.

    Raises:
        UserError: with the option and its value.
    """
    values: Any = OmegaConf.to_container(config)
    # one that was taken out by ~PART is no dict
    parts = {part: values[part] for part in COMPONENTS if isinstance(values.get(part), dict)}
    given = {part: {name: value for name, value in parts[part].items() if value is not None} for part in parts}
    with_defaults(OmegaConf.create(given))


def resolved_model(config: DictConfig) -> tuple[str | None, Namespace]:
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
    return {action.dest for action in _command_line(name)} | {"_name"}


def switches(name: str) -> set[str]:
    """Return the names of the options of fairseq's RoBERTa that are true or false; they have no other types there."""
    return {action.dest for action in _command_line(name) if action.nargs == 0}


def _command_line(name: str | None) -> Sequence[Action]:
    """The options of a model that declares them only for the command line, as fairseq's RoBERTa."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    MODEL_REGISTRY[name].add_args(parser)
    return parser._actions


def option_names(config: DictConfig) -> set[str]:
    """Return the dotted names of all options that a composed config has or accepts, and of their groups.

    Raises:
        UserError: it names a component, or has an option of one, that does not exist, or lacks the name of one that
            every run has; or an optimizer or scheduler that only the command line of fairseq-train can set; or as
            `import_user_dir`.
    """
    import_user_dir(config)
    names = {part: OmegaConf.select(config, f"{part}._name") for part in COMPONENTS}
    for part, name in names.items():
        if name is None and part in ("task", "criterion", "optimizer", "lr_scheduler"):
            raise UserError(f"{part}._name=null: expected a name; leave it out for that of the config")
        if name is not None and name not in COMPONENTS[part]:
            raise UserError(f"{part}._name={name}: no such {part}{nearest(name, COMPONENTS[part])}")
    for part in ("task", "criterion", "optimizer", "lr_scheduler"):
        declared, name = _declared(part), names[part]
        # fairseq builds a criterion that has no options from a config, too; all of its own have some
        plain_one = part == "criterion" and name and not CRITERION_REGISTRY[name].__module__.startswith("fairseq.")
        if name is not None and name not in declared and not plain_one:
            expected = ", ".join(sorted({*declared} - _NEED_MORE))
            raise UserError(
                f"{part}._name={name}: only the command line of fairseq-train has its options; expected one of "
                f"{expected}"
            )
    options: set[str] = set()
    for part, name in names.items():
        of_part = _options_of(part, name)
        options |= of_part
        for key in (config.get(part) or ()) if of_part else ():
            if (option := f"{part}.{key}") not in of_part:  # fairseq accepts unknown options of a RoBERTa
                error = no_such_option(option, of_part | {part}, config)
                raise UserError(f"{error} (~{option} leaves out what a config sets)")
    return options | set(_names(OmegaConf.to_container(config)))


def _options_of(part: str, name: str | None) -> set[str]:
    """Dotted names of the options of a component; none if it does not declare them."""
    if part == "model":
        return {f"model.{option}" for option in model_options(name)}
    kind = _declared(part).get(name or "")
    return {f"{part}.{option.name}" for option in fields(kind)} if kind else set()


def _declared(part: str) -> Mapping[str, type]:
    """The components of a part that declare their options for a config, and these options."""
    return TASK_DATACLASS_REGISTRY if part == "task" else REGISTRIES[part]["dataclass_registry"]


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

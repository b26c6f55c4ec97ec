"""Composes one config from a stage and overrides, without Hydra's command line."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError, YAMLError

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import resolvers, schema
from linformer_fairseq.launch.explaining import ambiguous, plain, unreadable
from linformer_fairseq.launch.options import COMPONENTS, no_such_option, option_names
from linformer_fairseq.launch.overrides import as_typed, text_options

_LEFT_OUT = {f"{group}=null": f"~{group}" for group in ("experiment", "model")}
"""How Hydra wants it said that no config is chosen of a group. The model is then that of ``pretrained``."""
# Applies to the whole process; from 1.2 on, Hydra refuses the call with which fairseq reads the options of
# fairseq-train's checkpoints.
VERSION_BASE = "1.1"


def config_dir() -> Path:
    """The folder of the project's configs: next to the package in a clone, in the package if installed.

    Raises:
        UserError: it is in neither place.
    """
    package = Path(__file__).resolve().parents[1]
    places = (package.parent / "configs", package / "configs")
    for folder in places:
        if (folder / "pretraining.yaml").is_file():
            return folder
    raise UserError(f"no configs in {places[0]} or {places[1]}: install the package again, or give --config-dir")


def register() -> None:
    """Register the schema and the resolvers."""
    schema.register()
    resolvers.register()


def compose(stage: str, overrides: Sequence[str] = (), folder: Path | None = None) -> DictConfig:
    """Compose the config of one run.

    Args:
        stage: ``pretraining`` or ``finetuning``.
        overrides: as on the command line, without sweeps.
        folder: folder of the configs, if not :func:`config_dir`.

    Returns:
        the config, with interpolations that are not resolved yet.

    Raises:
        UserError: there is no such config or option, or a value has the wrong type, or several of a sweep.
    """
    with _hydra(folder):
        given = _parsed(overrides)
        if several := [o for o in given if o.is_sweep_override()]:
            is_choice = _is_choice(several[0], _groups(folder or config_dir()))
            raise UserError(ambiguous(str(several[0].input_line), several[0].key_or_group in text_options(), is_choice))
        words = _as_hydra_takes_them(stage, given, folder or config_dir())
        config = hydra_compose(stage, overrides=words, return_hydra_config=True)
    with open_dict(config):
        chosen = config.pop("hydra").runtime.choices
    add_choices(config, chosen)
    if config.run.stage != stage:
        raise UserError(f"run.stage={config.run.stage}: the command sets it; use `linformer pretrain` or `finetune`")
    return config


def add_choices(config: DictConfig, chosen: Mapping[str, Any]) -> None:
    """Add to a config what depends on the configs that were chosen: the experiment's name, and a model if none was.

    Args:
        config: as Hydra composes it, without its own part.
        chosen: Hydra's ``runtime.choices``, by group.

    Raises:
        UserError: the experiment's name was given as an option.
    """
    experiment = chosen.get("experiment")
    if config.run.experiment not in (None, experiment):
        raise UserError(f"run.experiment={config.run.experiment}: is set by experiment=NAME alone")
    with open_dict(config):
        config.run.experiment = experiment
        if OmegaConf.is_missing(config, "model"):
            config.model = {}


def jobs(stage: str, overrides: Sequence[str], folder: Path | None = None) -> list[list[str]]:
    """The overrides of each run of a sweep: all combinations of the values, including the config's own grid.

    Raises:
        UserError: overrides that cannot be read, or that make no run.
    """
    with _hydra(folder):
        given = _parsed(overrides)
        swept = _grid(stage, given, folder or config_dir())
        found = [list(job) for job in BasicSweeper.split_arguments([*swept, *given], None)[0]]
    if not found:
        raise UserError(f"{' '.join(overrides)}: no runs; glob(...) finds configs of a group, not of folders in it")
    return found


def overrides_for_hydra(
    stage: str, overrides: Sequence[str], folder: Path | None = None, sweep: bool = False
) -> list[str]:
    """Return the overrides in the form that Hydra accepts, sweeps included.

    Hydra refuses ``model.projection=mean_pool`` if the config does not contain that option. Instead, its existence is
    checked here and ``++`` is added, so that every option can be set by its plain name.

    In a sweep, what the user has not given of the config's own grid is among them: that grid has to be set to null, for
    Hydra would add an override with ``++`` to it in place of replacing the values.

    Raises:
        UserError: there is no such config or option; the message suggests the closest name.
    """
    with _hydra(folder):
        given = _parsed(overrides)
        grid = _grid(stage, given, folder or config_dir()) if sweep else []
        return _as_hydra_takes_them(stage, [*grid, *given], folder or config_dir())


def _grid(stage: str, given: Sequence[Override], folder: Path) -> list[Override]:
    """What is not given of the config's own grid, which does not depend on the swept values: the first are enough."""
    words = _as_hydra_takes_them(stage, _parsed(list(map(_first_value, given))), folder)
    config = hydra_compose(stage, overrides=words, return_hydra_config=True)
    grid = config.hydra.sweeper.get("params") or {}
    names = {override.key_or_group for override in given}
    return _parsed([f"{key}={value}" for key, value in grid.items() if key not in names])


def _parsed(overrides: Sequence[str]) -> list[Override]:
    loader = GlobalHydra.instance().config_loader()  # for glob(...)
    words = [_LEFT_OUT.get(word, word) for word in as_typed(overrides)]
    given = OverridesParser.create(loader).parse_overrides(words)
    if nameless := [o for o in given if not o.key_or_group]:
        raise UserError(unreadable(str(nameless[0].input_line)))
    if needed := [o.key_or_group for o in given if o.is_delete() and o.key_or_group in schema.SECTIONS]:
        raise UserError(f"~{needed[0]}: every run has these options; set one with {needed[0]}.OPTION=VALUE")
    return given


def _as_hydra_takes_them(stage: str, given: Sequence[Override], folder: Path) -> list[str]:
    groups = _groups(folder)
    # The chosen configs, the names of components and a user's own plugin determine which options exist.
    components = {*(f"{part}._name" for part in COMPONENTS), "common.user_dir"}
    # Hydra would resolve what it leaves out, before the values that this refers to are set: so options go last, unless
    # they are set, too.
    values = {o.key_or_group for o in given if not o.is_delete()}
    left_out = [o for o in given if o.is_delete() and "." in o.key_or_group and o.key_or_group not in values]
    given = [*(o for o in given if o not in left_out), *left_out]
    choices = [o for o in given if o not in left_out and (o.is_delete() or _is_choice(o, groups))]
    if empty := [o for o in choices if not o.is_delete() and o.value() in (None, "")]:
        raise UserError(f"{empty[0].input_line}: expected the name of a config; leave it out for the default")
    named = [o for o in given if o.key_or_group in components and not o.is_delete()]
    words = [*map(_first_value, choices), *(_forced(_first_value(o)) for o in named)]
    config = hydra_compose(stage, overrides=words)
    for override in left_out:
        _leave_out(config, override.key_or_group)
    known = option_names(config)
    words = []
    for override in given:
        name, word = override.key_or_group, str(override.input_line)
        if override not in [*choices, *left_out] and not name.startswith("hydra."):
            if name in COMPONENTS:
                raise UserError(f"{word}: give its name with {name}._name={override.value()}")
            if name not in known:
                raise no_such_option(name, known | groups, config)
            word = _forced(word)
        words.append(word)
    return words


def _leave_out(config: DictConfig, name: str) -> None:
    """Remove an option from a composed config; Hydra names one that is not there, later."""
    group, _, option = name.rpartition(".")
    node = OmegaConf.select(config, group)
    if isinstance(node, DictConfig) and option in node.keys():  # noqa: SIM118 ("in node" would compute the value)
        with open_dict(node):
            del node[option]


def _groups(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()}


def _is_choice(override: Override, groups: Collection[str]) -> bool:
    """Return whether an override chooses a config from a group instead of setting a value."""
    return "/" in override.key_or_group or override.package is not None or override.key_or_group in groups


def _first_value(override: Override) -> str:
    """Return an override with only the first value of its sweep."""
    if not override.is_sweep_override():
        return str(override.input_line)
    return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"


def _forced(word: str) -> str:
    """Return an override that Hydra accepts whether the config has the option or not."""
    return f"++{word.lstrip('+')}"


def resolved(config: DictConfig) -> DictConfig:
    """A copy with all interpolations replaced by their values.

    Raises:
        UserError: a value that must be given is missing, or two contradict each other.
    """
    try:
        if missing := sorted(OmegaConf.missing_keys(config)):
            raise UserError(f"{', '.join(missing)}: not given; use {missing[0]}=VALUE")
        copy = OmegaConf.create(OmegaConf.to_container(config, resolve=True, enum_to_str=True))
    except OmegaConfBaseException as error:
        raise UserError(plain(error)) from None
    assert isinstance(copy, DictConfig)
    OmegaConf.set_struct(copy, True)
    return copy


@contextlib.contextmanager
def _hydra(folder: Path | None) -> Iterator[None]:
    """Hydra, with the errors of its configs as a UserError."""
    register()
    with initialize_config_dir(str((folder or config_dir()).resolve()), version_base=VERSION_BASE):
        try:
            yield
        except (HydraException, OmegaConfBaseException) as error:
            raise UserError(plain(error, folder or config_dir())) from None
        except (YAMLError, UnicodeDecodeError, RecursionError):
            for path in sorted((folder or config_dir()).rglob("*.yaml")):
                _require_yaml(path)
            raise


def _require_yaml(path: Path) -> None:
    """Raise a UserError unless a file is YAML of plain values, which Hydra's own errors do not always name."""
    try:
        OmegaConf.load(path)
    except MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise UserError(f"{path}{line}: not a config: {error.problem}") from None
    except (YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not a config: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise UserError(f"{path}: not a config: nested too deeply") from None

"""From a stage and overrides to one config, without Hydra's command line."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException, ValidationError

from linformer_fairseq.launch import resolvers, schema
from linformer_fairseq.launch.errors import LaunchError

STAGES = ("pretraining", "finetuning")
# Hydra keeps it for the whole process, and from 1.2 on it refuses the call by which fairseq reads the options of
# fairseq-train's checkpoints.
VERSION_BASE = "1.1"


def config_dir() -> Path:
    """The folder ``configs`` beside the package.

    Raises:
        LaunchError: the package was installed without it.
    """
    folder = Path(__file__).resolve().parents[2] / "configs"
    if not (folder / "pretraining.yaml").is_file():
        raise LaunchError(
            f"{folder}: no configs there. They are part of the repository, not of the installed package: install that "
            "with `pip install --editable` from a clone (scripts/setup.sh does), or give --config-dir"
        )
    return folder


def register() -> None:
    """What Hydra has to know before it composes."""
    schema.register()
    resolvers.register()


def compose(stage: str, overrides: Sequence[str] = (), folder: Path | None = None) -> DictConfig:
    """Compose the config of one run.

    Args:
        stage: ``pretraining`` or ``finetuning``.
        overrides: as on the command line, without sweeps.
        folder: where the configs are, in place of :func:`config_dir`.

    Returns:
        the config, with interpolations that are not resolved yet.

    Raises:
        LaunchError: there is no such config or option, or a value of another type.
    """
    with _hydra(folder):
        try:
            config = hydra_compose(stage, overrides=list(overrides), return_hydra_config=True)
        except (HydraException, OmegaConfBaseException) as error:
            raise LaunchError(plain(error, folder)) from None
    with open_dict(config):
        config.run.experiment = config.pop("hydra").runtime.choices.get("experiment")
    return config


def jobs(stage: str, overrides: Sequence[str], folder: Path | None = None) -> list[list[str]]:
    """The overrides of each run of a sweep: every combination of the values, those of the config's own grid too.

    Raises:
        LaunchError: overrides that cannot be read.
    """
    with _hydra(folder):
        try:
            parser = OverridesParser.create()
            given = parser.parse_overrides(list(overrides))
            # A sweep chooses no config that has another grid, so its first values stand for all.
            first = [f"{o.get_key_element()}={next(o.sweep_string_iterator())}" for o in given if o.is_sweep_override()]
            fixed = [str(o.input_line) for o in given if not o.is_sweep_override()]
            config = hydra_compose(stage, overrides=[*fixed, *first], return_hydra_config=True)
            grid = config.hydra.sweeper.get("params") or {}
            swept = parser.parse_overrides([f"{key}={value}" for key, value in grid.items()])
            return [list(job) for job in BasicSweeper.split_arguments([*swept, *given], None)[0]]
        except (HydraException, OmegaConfBaseException) as error:
            raise LaunchError(plain(error, folder)) from None


def resolved(config: DictConfig) -> DictConfig:
    """A copy with all interpolations replaced by their values.

    Raises:
        LaunchError: a value that must be given is missing, or two contradict each other.
    """
    try:
        if missing := sorted(OmegaConf.missing_keys(config)):
            raise LaunchError(f"{', '.join(missing)}: not given; say {missing[0]}=VALUE")
        copy = OmegaConf.create(OmegaConf.to_container(config, resolve=True, enum_to_str=True))
    except OmegaConfBaseException as error:
        raise LaunchError(plain(error)) from None
    assert isinstance(copy, DictConfig)
    OmegaConf.set_struct(copy, True)
    return copy


@contextlib.contextmanager
def _hydra(folder: Path | None) -> Iterator[None]:
    register()
    logging.getLogger("hydra").setLevel(logging.INFO)  # where nothing has configured logging, it tells each step
    with initialize_config_dir(str((folder or config_dir()).resolve()), version_base=VERSION_BASE):
        yield


def plain(error: BaseException, folder: Path | None = None) -> str:
    """What is wrong in a line: Hydra puts the reason into the cause, and its search path below."""
    lines = str(error).split("\n")
    text = lines[0]
    text = re.sub(r"^\w+ raised while resolving interpolation: ", "", text)
    cause = str(error.__cause__ or "").split("\n")[0]
    text = f"{text.removesuffix('.')}: {cause}" if cause and cause not in text else text
    if isinstance(error, ValidationError) and error.full_key and error.full_key not in text:
        text = f"{error.full_key}: {text}"
    if missing := re.search(r"Could not find '(\w+)/", text):
        there = sorted(path.stem for path in (folder or config_dir()).glob(f"{missing[1]}/*.yaml"))
        text += f"; there are: {', '.join(there)}"
    hint = next((line for line in lines if line.startswith("To append to your config use")), "")
    return f"{text}. {hint}, if there is such an option" if hint else text

"""Models built as fairseq's two entry points build them, on a dictionary of made-up words."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from fairseq import tasks
from fairseq.data import Dictionary
from fairseq.dataclass.initialize import add_defaults, hydra_init
from hydra import compose, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.models import LinformerRobertaConfig, LinformerRobertaModel
from tests.fairseq_config import parse

WORDS = 40


def make_dictionary() -> Dictionary:
    dictionary = Dictionary()
    for number in range(WORDS):
        dictionary.add_symbol(f"w{number}", n=WORDS - number)
    return dictionary


def write_dictionary(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    make_dictionary().save(str(folder / "dict.txt"))


def from_command_line(data: Path, *flags: str, task: str = "masked_lm") -> tuple[Any, Any, Any]:
    """(config, task, model) as fairseq-train gets them."""
    return _build(parse(data, "--task", task, "--optimizer", "adam", "--criterion", task, *flags))


def from_hydra(data: Path, model: dict[str, Any], task: dict[str, Any] | None = None) -> tuple[Any, Any, Any]:
    """(config, task, model) as fairseq-hydra-train gets them."""
    cfg = copy.deepcopy(_fairseq_config())
    OmegaConf.set_struct(cfg, False)
    cfg.task = {"_name": "masked_lm", "data": str(data), **(task or {})}
    cfg.criterion = {"_name": cfg.task._name}
    cfg.model = model
    add_defaults(cfg)
    cfg = OmegaConf.create(OmegaConf.to_container(cfg, resolve=True, enum_to_str=True))
    OmegaConf.set_struct(cfg, True)
    return _build(cfg)


@functools.cache
def _fairseq_config() -> DictConfig:
    GlobalHydra.instance().clear()
    hydra_init()
    with initialize_config_module("fairseq.config", version_base="1.1"):
        return compose("config")


def directly(tokens_per_sample: int = 512, **options: Any) -> Any:
    """The model alone, without config files: much faster, for tests that build many."""
    dictionary = make_dictionary()
    dictionary.add_symbol("<mask>")
    task = SimpleNamespace(cfg=SimpleNamespace(tokens_per_sample=tokens_per_sample), source_dictionary=dictionary)
    return LinformerRobertaModel.build_model(LinformerRobertaConfig(**options), task)


def _build(cfg: Any) -> tuple[Any, Any, Any]:
    task = tasks.setup_task(cfg.task)
    return cfg, task, task.build_model(cfg.model)

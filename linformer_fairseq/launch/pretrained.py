"""The model of a pretrained checkpoint, which finetuning or more pretraining builds without repeating its options."""

from __future__ import annotations

import functools
import hashlib
from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.models import ARCH_CONFIG_REGISTRY
from torch import Tensor

from linformer_fairseq.checkpoints.dictionaries import check_tokens
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.core import parse_projected_dim
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.shipped import shipped_models
from linformer_fairseq.files.weight_names import POSITIONS, TOKENS, UNUSED_POSITIONS
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.models.config import DEFAULTS, OPTIONS_OF_LINFORMER, Role, with_role
from linformer_fairseq.models.options import fill_defaults
from linformer_fairseq.models.stored import robertas_only, stored_options

_FREE = with_role(Role.TRAINING, Role.EXECUTION)
"""Options that a finetuning can set itself."""


@dataclass(frozen=True)
class Pretrained:
    """The model of a pretrained checkpoint."""

    path: Path
    name: str
    """Model or architecture, as ``model._name``."""
    options: dict[str, Any]
    """All options of the model, including its sizes."""
    max_positions: int
    """n, the maximum input length."""
    symbols: int
    """Rows of the embedding: symbols of the dictionary, including fairseq's own."""
    weights: str | None = None
    """SHA-256 of the weights; None if the checkpoint does not exist yet."""

    def model_options(self, given: Mapping[str, Any], remedy: str = "leave it out") -> dict[str, Any]:
        """The options of the model to train.

        Args:
            given: ``model`` of the run's config, such as dropout; options that determine the model must agree with the
                checkpoint.
            remedy: what the message says to do with those that do not.

        Raises:
            UserError: they do not; the message has both values.
        """
        options = {key: value for key, value in self.options.items() if key not in _FREE}
        for key, value in given.items():
            if value is None:
                continue
            if key in OPTIONS_OF_LINFORMER and not self.name.startswith(MODEL):
                raise UserError(f"model.{key}={value}: no option of {self.name}, the model of {self.path}")
            if key in _FREE:
                options[key] = value
            elif key == "_name":
                if value != self.name:
                    raise UserError(f"model._name={value}, but {self.path} was pretrained with {self.name}; {remedy}")
            elif key not in options:
                raise UserError(f"model.{key}={value}: no option of {self.name}, the model of {self.path}")
            elif not same_value(key, value, options[key]):
                raise UserError(
                    f"model.{key}={value}, but {self.path} was pretrained with {key}={options[key]}; {remedy}: "
                    "the checkpoint determines the model"
                )
        return {"_name": self.name, **options}

    def difference(
        self, name: str, options: Mapping[str, Any], ignored: Iterable[str] = ()
    ) -> tuple[str, Any, Any] | None:
        """The first option that determines the model and has another value in another model, and both values.

        Args:
            name: model or architecture of the other one.
            options: all of its options, as `all_options` returns them.
            ignored: options that may differ.

        Returns:
            option, the value here and the value there; None if it is the same model.
        """
        if self.name.startswith(MODEL) != name.startswith(MODEL):
            return "_name", self.name, name
        for key in sorted(self.options.keys() - _FREE - {*ignored}):
            if not same_value(key, options.get(key), self.options[key]):
                return key, self.options[key], options.get(key)
        return None

    def check_dictionary(self, path: Path) -> None:
        """Raise unless a dictionary is the one that the model was trained with.

        Raises:
            UserError: see `checkpoints.dictionaries.check_tokens`.
        """
        check_tokens(self.path, self.symbols, self.name.startswith(MODEL), path)


def read_pretrained(path: Path) -> Pretrained:
    """Read the model of a checkpoint.

    Raises:
        UserError: no such file, not a checkpoint, or not one of RoBERTa or Linformer.
    """
    if not path.is_file():
        what = "a folder without a checkpoint" if path.is_dir() else "no such file"
        raise UserError(
            f"pretrained={path}: {what}; expected a checkpoint of a pretraining, its run folder, a folder made by "
            "`linformer checkpoint release` or `linformer convert`, or one of the models that come with the package: "
            f"{', '.join(shipped_models()) or 'none'}"
        )
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=1)  # the runs of a sweep start from the same one
def _read(path: Path, modified: int, size: int) -> Pretrained:
    with robertas_only():
        state = read_checkpoint(path)
    weights = state["model"]
    if POSITIONS not in weights or TOKENS not in weights:
        raise UserError(f"{path}: neither a RoBERTa nor a Linformer RoBERTa (it has no {POSITIONS})")
    stored = stored_options(state, "model")
    name = str(stored.get("_name") or stored.get("arch"))
    # n from the weights: the config may leave it to the task
    stored["max_positions"] = int(weights[POSITIONS].shape[0]) - UNUSED_POSITIONS
    symbols = int(weights[TOKENS].shape[0])
    return Pretrained(path, name, all_options(name, stored), stored["max_positions"], symbols, _digest(weights))


def _digest(weights: Mapping[str, Any]) -> str:
    """Of the weights alone: a checkpoint stored anew has other bytes."""
    found = hashlib.sha256()
    for name, weight in sorted(weights.items()):
        found.update(name.encode())
        if isinstance(weight, Tensor):
            found.update(weight.contiguous().flatten().view(torch.uint8).numpy().data)
    return found.hexdigest()


def all_options(name: str, stored: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a RoBERTa or Linformer: the stored ones, and those of its architecture."""
    linformer = name.startswith(MODEL)
    wanted = [option for option in DEFAULTS if linformer or option not in OPTIONS_OF_LINFORMER]
    args = Namespace(**{key: stored[key] for key in wanted if stored.get(key) is not None})
    if name in ARCH_CONFIG_REGISTRY:
        ARCH_CONFIG_REGISTRY[name](args)
    if linformer:
        fill_defaults(args)
    return {key: value for key, value in vars(args).items() if key in wanted}


def same_value(key: str, one: Any, other: Any) -> bool:
    """Whether two values of an option of the model are the same; k may also be a text, and what is no k differs."""
    if key == "projected_dim":
        try:
            return parse_projected_dim(one) == parse_projected_dim(other)
        except ValueError:
            return False
    return bool(one == other)

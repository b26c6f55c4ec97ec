"""How a model was made: its own training, and the trainings and the conversion that its weights went through before."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from yaml import YAMLError

from linformer_fairseq.checkpoints.released_file import MEAN_OF
from linformer_fairseq.checkpoints.released_folder import find_weights
from linformer_fairseq.conversion.convert import RECORD as CONVERSION
from linformer_fairseq.exporting.trained import CheckpointModel
from linformer_fairseq.files import run_record
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import naming, read_object
from linformer_fairseq.files.run_record import Record
from linformer_fairseq.files.shipped import shipped_folder, shipped_models
from linformer_fairseq.results.rows import Row
from linformer_fairseq.results.run_row import LOG, read_run
from linformer_fairseq.results.training_log import TrainingLog, read_log

from .data import Data, read_data

WRONG_KIND = "expected the options of a fairseq training"


@dataclass(frozen=True)
class Settings:
    """The options of a training by their places in fairseq's config.

    Checkpoints of older programs have the same options in a flat Namespace. fairseq makes a config of it, but with its
    own defaults for what is not there, so that is not read.
    """

    file: Path
    """Where they stand."""
    config: Any
    flat: Any = None

    def get(self, name: str) -> Any:
        """The value of an option such as ``optimization.lr``, or None.

        Raises:
            UserError: the file is no config, or has something else in its place.
        """
        if self.flat is None:
            with naming(self.file, WRONG_KIND):
                return OmegaConf.select(self.config, name)
        group, _, option = name.partition(".")
        return getattr(self.flat, group if option == "_name" else option, None)


@dataclass(frozen=True)
class Run:
    """The folder that the launcher kept of a training."""

    record: Record
    row: Row
    log: TrainingLog


@dataclass(frozen=True)
class Stage:
    """One training, or the conversion that others began with."""

    checkpoint: Path
    settings: Settings
    data: Data
    run: Run | None
    conversion: Mapping[str, Any] | None
    """The content of conversion.json."""
    shipped: str | None
    """The name of the model that comes with the package, if it is one."""
    pretrained: str | None
    """The checkpoint that it began with."""
    mean_of: int = 1
    """The number of checkpoints whose mean the weights are."""

    def reading_conversion(self) -> AbstractContextManager[None]:
        """Errors of the block, where `conversion` lacks something, name its file."""
        return naming(self.checkpoint.parent / CONVERSION)

    @property
    def name(self) -> str:
        """Of the run, the model or the file; of its folder where the file is called as all are."""
        if self.run is not None:
            return self.run.record.name
        if self.shipped is not None:
            return self.shipped
        common = self.checkpoint.stem == "model" or self.checkpoint.name.startswith("checkpoint")
        return self.checkpoint.absolute().parent.name if common else self.checkpoint.stem


def read_history(model: CheckpointModel, data: Path | None) -> list[Stage]:
    """The stages of a model, the newest first.

    Args:
        model: the model.
        data: folder of its data, if it is not the one that the checkpoint names.

    Raises:
        UserError: run.json, conversion.json, a config or a manifest is damaged; the message names it.
    """
    state = model.state
    settings = Settings(model.path, state["cfg"], state.get("args"))
    first = _stage(model.path, settings, str(data) if data else settings.get("task.data"), model.vocabulary)
    stages = [replace(first, mean_of=state.get(MEAN_OF, 1))]
    while (given := stages[-1].pretrained) is not None:
        path = Path(find_weights(given))
        if path in [stage.checkpoint for stage in stages]:
            break
        stages.append(_stage(path, _config(path.parent), None, model.vocabulary))
    return stages


def _stage(path: Path, settings: Settings, data: str | None, symbols: int) -> Stage:
    folder = path.parent
    run = _run(folder)
    conversion = read_object(folder / CONVERSION) if (folder / CONVERSION).is_file() else None
    shipped = next((name for name in shipped_models() if shipped_folder(name).resolve() == folder.resolve()), None)
    if run is not None:
        pretrained = run.record.start
        data = data or run.record.data
    else:
        named = settings.get("checkpoint.finetune_from_model")
        pretrained = None if named is None else str(named)
    known = read_data(data, symbols, None if run is None else run.record.dictionaries)
    return Stage(path, settings, known, run, conversion, shipped, pretrained)


def _run(folder: Path) -> Run | None:
    if not (folder / run_record.NAME).is_file():
        return None
    log = read_log(folder / LOG) if (folder / LOG).is_file() else TrainingLog()
    return Run(run_record.read_record(folder), read_run(folder), log)


def _config(folder: Path) -> Settings:
    """The config that the launcher wrote, for a training whose checkpoint is not opened."""
    path = folder / "config.yaml"
    try:
        return Settings(path, OmegaConf.load(path) if path.is_file() else OmegaConf.create())
    except (YAMLError, OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path}: not the config of a training ({reason}); put the right one there, or none") from None

"""A run resumes from a valid checkpoint, or fails with the reason.

What fairseq does: it loads ``checkpoint_last.pt`` without a check. If it is damaged, every restart fails, even if
there are valid checkpoints; if it, or a ``--restore-file``, does not exist, training starts from the beginning
without a warning. From one without the optimizer's state (``--no-save-optimizer-state``), it counts updates from 0
again, so that a run which is stopped often never ends.

The patch: the checksum of the file is verified first. Instead of a damaged or missing ``checkpoint_last.pt``, the
newest valid one of the folder is used, and the damaged file is renamed. Files that the user named are never replaced by
others. Checkpoints in several parts (sharded, model parallel), which have to be of the same update, and remote paths
are left to fairseq.
"""

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from linformer_fairseq.checkpoints.folder import (
    Choice,
    Examined,
    State,
    choose,
    examine,
    last_checkpoint,
    put_right,
    remove_unfinished,
)
from linformer_fairseq.checkpoints.reading import CheckpointError, already_checked
from linformer_fairseq.training.process_group import on_first_rank, wait
from linformer_fairseq.training.resuming import LAST, from_own, saves_last
from linformer_fairseq.training.run_report import LOG


def _from_sound_file(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(cfg: Any, trainer: Any, **more: Any) -> Any:
        if _in_parts(trainer):
            return load_checkpoint(cfg, trainer, **more)
        prepared = on_first_rank(lambda: prepare(cfg, trainer.checkpoint_suffix), CheckpointError) or Prepared()
        whole, updates_last = prepared.whole, saves_last(cfg)
        own = last_checkpoint(Path(cfg.save_dir), trainer.checkpoint_suffix)
        resumes = from_own(cfg) and own.is_file()
        try:
            with already_checked(whole.path, whole.found) if whole else contextlib.nullcontext():
                loaded = load_checkpoint(cfg, trainer, **more)
            if resumes and not cfg.reset_optimizer and _counts_anew(trainer):
                raise CheckpointError(
                    f"{own}: has no optimizer state (no_save_optimizer_state), and without it fairseq counts updates "
                    "from 0 again; set checkpoint.reset_optimizer=true (fairseq-train: --reset-optimizer) for that"
                )
            if not updates_last:
                wait()
        finally:
            # If the run does not update the copy, a later start must not take it for the newest checkpoint.
            if prepared.copied and not updates_last:
                own.unlink()
        return loaded

    return load


def _counts_anew(trainer: Any) -> bool:
    """Whether a checkpoint after some updates was loaded without their number."""
    return not trainer.get_num_updates() and any(last.get("num_updates") for last in trainer._optim_history[-1:])


def _in_parts(trainer: Any) -> bool:
    cfg = trainer.cfg
    return (
        (trainer.is_fsdp and cfg.distributed_training.use_sharded_state)
        or cfg.common.model_parallel_size > 1
        or getattr(cfg.model, "base_layers", 0) > 0
    )


@dataclass(frozen=True)
class Prepared:
    """What was done before fairseq loads a checkpoint."""

    whole: Examined | None = None
    """The file that fairseq will load, if it was read and is not damaged."""
    copied: bool = False
    """Whether another checkpoint was copied to checkpoint_last.pt."""


def prepare(cfg: Any, suffix: str) -> Prepared:
    """Make sure that fairseq will load an undamaged checkpoint.

    Args:
        cfg: fairseq's checkpoint options.
        suffix: suffix of the names of checkpoint files.

    Raises:
        CheckpointError: if it is damaged or missing and there is no other one to use.
        OSError: if a file cannot be read, renamed or copied.
    """
    local = not PathManager.path_requires_pathmanager(cfg.save_dir)
    folder = Path(cfg.save_dir)
    for path in remove_unfinished(folder) if local and not cfg.no_save else ():
        LOG.info(f"removed {path}, left by an unfinished save")
    if not from_own(cfg):
        return _check_named(cfg.restore_file.replace(".pt", suffix + ".pt"), "--restore-file")
    if not local:
        return Prepared()
    choice = choose(folder, suffix)
    if choice.chosen is not None:
        return _go_on_from(choice, folder, suffix)
    if choice.passed_over:
        raise CheckpointError(_nothing_sound(choice, folder))
    if cfg.continue_once is not None:
        return _check_named(cfg.continue_once, "--continue-once")
    if cfg.finetune_from_model is not None:
        return _check_named(cfg.finetune_from_model, "--finetune-from-model")
    return Prepared()


def _go_on_from(choice: Choice, folder: Path, suffix: str) -> Prepared:
    assert choice.chosen is not None
    aside = put_right(choice, folder, suffix)
    for examined, path in zip(choice.damaged, aside, strict=True):
        LOG.warning(f"{examined.path}: damaged, {examined.reason}. It is kept as {path}")
    if not choice.passed_over and not choice.missing:
        return Prepared(whole=choice.chosen)
    LOG.warning(f"resuming from {choice.chosen.path} ({choice.chosen.updates} updates), the newest valid checkpoint")
    return Prepared(copied=True)


def _nothing_sound(choice: Choice, folder: Path) -> str:
    files = "; ".join(f"{examined.path}: {examined.reason}" for examined in choice.passed_over)
    return (
        f"no valid checkpoint in {folder} to resume from. {files}. Restore a valid one as {LAST}, "
        "or, to train from the beginning, move these files away or give another --save-dir."
    )


def _check_named(path: str, option: str) -> Prepared:
    if PathManager.path_requires_pathmanager(path):
        return Prepared()
    if not Path(path).is_file():
        raise CheckpointError(
            f"{option} {path}: no such file (working directory: {Path.cwd()}); expected a fairseq checkpoint"
        )
    examined = examine(Path(path))
    if examined.state is State.DAMAGED:
        raise CheckpointError(f"{option} {path}: damaged, {examined.reason}. Give another file")
    return Prepared(whole=examined)


REPLACED = ((checkpoint_utils, "load_checkpoint", _from_sound_file),)

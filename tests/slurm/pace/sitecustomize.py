"""Python runs this when it starts with this folder on PYTHONPATH: training takes its time as long as a file is there.

Each update then takes two seconds more, and saving in a run of that name eight. The file is the one that PACE_FILE
names, and may hold a name; a test that has done to a run what it wanted removes it, and the rest runs at full speed.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_MODULE = "fairseq.trainer"


def _slow_down(trainer: Any) -> None:
    train_step, save_checkpoint = trainer.train_step, trainer.save_checkpoint
    pace = Path(os.environ.get("PACE_FILE", ""))

    def slow_train_step(*arguments: Any, **more: Any) -> Any:
        if pace.is_file():
            time.sleep(2)
        return train_step(*arguments, **more)

    def slow_save_checkpoint(self: Any, filename: str, *arguments: Any, **more: Any) -> Any:
        if pace.is_file() and Path(filename).parent.name == pace.read_text():
            time.sleep(8)
        return save_checkpoint(self, filename, *arguments, **more)

    trainer.train_step, trainer.save_checkpoint = slow_train_step, slow_save_checkpoint


class _Finder(importlib.abc.MetaPathFinder):
    """Lets others find the module, and adds to what its loader does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _slow_down(module.Trainer)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path.insert(0, _Finder())

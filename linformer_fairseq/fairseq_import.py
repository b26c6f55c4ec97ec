"""Imports fairseq without what it needs for a few metrics only, until one of them is computed, and without its settings
of the root logger.

fairseq imports scikit-learn and scipy.stats, and these pandas, for F1 and the Matthews, Pearson and Spearman
correlations; and pyarrow for its module plasma, which pyarrow 12 and later do not have. This takes longer than all
the rest of fairseq. One of its models has the root logger, which is the program's, print everything down to DEBUG.
"""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Stands for a module: its functions import that when they are called."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(self.__name__), name)(*args, **kwargs)

        return call


@contextmanager
def _without_metrics() -> Iterator[None]:
    """In the block, imports of these packages, unless they are loaded, find what stands for them."""
    stands: dict[str, Any] = {name: _Later(name) for name in ("sklearn", "sklearn.metrics", "scipy.stats")}
    stands["sklearn"].metrics = stands["sklearn.metrics"]
    stands["pyarrow.plasma"] = None  # an ImportError, which fairseq expects
    modules = {name: stand for name, stand in stands.items() if name not in sys.modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]


@contextmanager
def _same_root_logger() -> Iterator[None]:
    """After the block, the root logger is as before."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    try:
        yield
    finally:
        root.setLevel(level)
        root.handlers[:] = handlers


class _Finder(MetaPathFinder):
    """Finds ``fairseq`` as Python does, and surrounds its execution with the two blocks."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == "fairseq" else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            with _same_root_logger(), _without_metrics():
                execute(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install() -> None:
    """Applies to the first import of fairseq; without effect if it is loaded already."""
    sys.meta_path.insert(0, _Finder())

"""`copy.deepcopy` of a task, and so of a hub interface, works.

What fairseq does: ``StatefulContainer.__getattr__`` looks for names in attributes that an unfinished copy does not have
yet, and calls itself for them until Python raises RecursionError.

The patch: such an attribute is missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from fairseq.tasks.fairseq_task import StatefulContainer


def _without_its_own(getter: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(getter)
    def get(container: StatefulContainer, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getter(container, name)

    return get


REPLACED = ((StatefulContainer, "__getattr__", _without_its_own),)

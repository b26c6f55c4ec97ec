"""How the mends replace a function of fairseq: once, and recognisably."""

from collections.abc import Callable
from typing import Any

_MARK = "_linformer_mend"


def replace(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the function ``owner.name`` by ``make(original)``; a second call does nothing.

    Args:
        owner: module or class that holds the function. A class must define it itself: a mark inherited
            from a base class would otherwise count as its own.
        name: the attribute to replace.
        make: gets the original function and returns the new one. Static methods are kept static.
    """
    held = vars(owner).get(name, getattr(owner, name))
    original = held.__func__ if isinstance(held, staticmethod) else held
    if getattr(original, _MARK, False):
        return
    mended = make(original)
    setattr(mended, _MARK, True)
    setattr(owner, name, staticmethod(mended) if isinstance(held, staticmethod) else mended)

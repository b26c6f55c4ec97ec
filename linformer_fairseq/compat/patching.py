"""How the mends replace a function of fairseq: once, and recognisably."""

from collections.abc import Callable
from typing import Any

_MARK = "_linformer_mends"


def replace(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the function ``owner.name`` by ``make(original)``; a second call with the same ``make`` does nothing.

    Several mends may replace the same function: each goes around what is there.

    Args:
        owner: module or class that holds the function. A class must define it itself: a mark inherited
            from a base class would otherwise count as its own.
        name: the attribute to replace.
        make: gets the function that is there and returns the new one, with functools.wraps. Known by its name.
            Static methods are kept static.
    """
    held = vars(owner).get(name, getattr(owner, name))
    original = held.__func__ if isinstance(held, staticmethod) else held
    made_by = getattr(original, _MARK, ())
    maker = f"{make.__module__}.{make.__qualname__}"
    if maker in made_by:
        return
    mended = make(original)
    setattr(mended, _MARK, (*made_by, maker))
    setattr(owner, name, staticmethod(mended) if isinstance(held, staticmethod) else mended)

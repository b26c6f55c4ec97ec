"""JSON files: objects with an error that says what is wrong, and dataclasses made of them.

`load` checks the few kinds of fields that our dataclasses have; pydantic would be one more dependency of the rows of
results, which are read with the standard library alone.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Union

from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError

_DEEPEST = 50
"""Levels of lists and objects in each other; no file of ours has ten, and whoever walks through them has to end."""
_LONGEST = 60
"""Characters of a value in a message."""
_TOO_DEEP = f"lists and objects are nested more than {_DEEPEST} deep"


def parse(text: str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is not JSON, is nested too deeply, has an integer of thousands of digits, or half of a
            surrogate pair, which no file or terminal takes.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python's says which of its functions to call for more
        raise ValueError(f"an integer has more than {sys.get_int_max_str_digits():,} digits") from None
    if text.count("[") + text.count("{") > _DEEPEST and _depth(value) > _DEEPEST:
        raise ValueError(_TOO_DEEP)
    if "\\u" in text:  # only an escape can make half of a pair
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair (\\ud800 to \\udfff) is no text") from None
    return value


def _depth(value: Any) -> int:
    """How many lists and objects are in each other; counted without recursion."""
    depth, inner = 0, [value]
    while inner := [item for item in inner if isinstance(item, list | dict)]:
        depth += 1
        inner = [item for holder in inner for item in (holder.values() if isinstance(holder, dict) else holder)]
    return depth


@contextmanager
def naming(path: Path, hint: str = "make this file again, or move it away") -> Iterator[None]:
    """Errors of the block, which makes tables of a file, name the file.

    Args:
        path: the file.
        hint: what the user can do.

    Raises:
        UserError: a field of the file is missing, or has a value of another kind.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise UserError(f"{path}: cannot be shown ({reason}); {hint}") from None


def read_object(path: Path, hint: str = "") -> dict[str, Any]:
    """The JSON object in a file.

    Args:
        path: the file.
        hint: what the user can do where it is damaged, for the error.

    Raises:
        UserError: it is missing, cannot be read, or is no JSON object; the text names it.
    """
    hint = hint and f"; {hint}"
    try:
        value = parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}{hint}") from None
    except ValueError as error:  # UnicodeDecodeError among them
        raise UserError(f"{path}: not JSON ({error}){hint}") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: expected an object, found {type(value).__name__}{hint}")
    return value


def write_json(path: Path, value: object) -> None:
    """Write indented JSON with sorted keys, so that equal values give equal bytes; whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    write_file(path, json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def load(kind: Any, value: Any, where: str = "") -> Any:
    """Read ``value``, as `json.loads` gives it, as a ``kind``.

    Args:
        kind: a dataclass whose fields are str, int, float, bool, None, Any, lists, dicts by name, unions and
            dataclasses. Fields with a default may be missing; fields that the dataclass does not have are ignored.
            A float must be finite.
        value: what was read.
        where: the path to the value, for the error.

    Raises:
        ValueError: a field is missing or is of another type; the text names it.
    """
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, value, where)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(arguments, value, where)
    if origin is list and isinstance(value, list):
        return [load(arguments[0], item, f"{where}[{index}]") for index, item in enumerate(value)]
    if origin is dict and isinstance(value, dict):
        return {key: load(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        if abs(value) <= sys.float_info.max:  # which excludes NaN and infinity: no file of ours has them
            return float(value)
    elif origin is None and isinstance(value, kind) and not (kind is not bool and isinstance(value, bool)):
        return value
    raise ValueError(f"{where or 'the value'}: expected {_name(kind)}, found {shortened(value)}")


def _dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where or 'the value'}: expected an object, found {shortened(value)}")
    hints = typing.get_type_hints(kind)
    found = {}
    for field in dataclasses.fields(kind):
        path = f"{where}.{field.name}" if where else field.name
        if field.name in value:
            found[field.name] = load(hints[field.name], value[field.name], path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ValueError(f"{path}: missing")
    return kind(**found)


def _union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    errors = []
    for kind in kinds:
        try:
            return load(kind, value, where)
        except ValueError as error:
            errors.append((kind, error))
    # An object that is not quite right is told by its own field; anything else by what might stand there.
    inner = [error for kind, error in errors if dataclasses.is_dataclass(kind) and isinstance(value, dict)]
    if inner:
        raise inner[0]
    names = " or ".join(dict.fromkeys(_name(kind) for kind in kinds))
    raise ValueError(f"{where or 'the value'}: expected {names}, found {shortened(value)}")


def _name(kind: Any) -> str:
    if kind is type(None):
        return "null"
    known = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    if kind in known:
        return known[kind]
    return "an object" if typing.get_origin(kind) is dict or dataclasses.is_dataclass(kind) else "a list"


def shortened(value: Any) -> str:
    """A value as an error shows it: the beginning of a long one."""
    text = repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

"""run.json, which the launcher keeps in a run's folder and `linformer results` reads: its name, schema and reading."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAME = "run.json"
SCHEMA = 1


class RunJsonError(ValueError):
    """A run.json that cannot be used; the message names the file and says what is wrong with it."""


def read(folder: Path) -> dict[str, Any]:
    """The object in a folder's run.json.

    Raises:
        FileNotFoundError: there is none.
        RunJsonError: it cannot be read, is damaged, or has another schema.
    """
    path = folder / NAME
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except OSError as error:
        raise RunJsonError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # UnicodeDecodeError among them
        raise RunJsonError(f"{path}: not JSON ({error})") from None
    if not isinstance(value, dict):
        raise RunJsonError(f"{path}: expected an object, found {type(value).__name__}")
    if value.get("schema") != SCHEMA:
        raise RunJsonError(f"{path}: schema {value.get('schema')!r}; this program knows schema {SCHEMA}")
    return value

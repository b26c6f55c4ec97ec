"""Names of files. Some are not UTF-8: Linux allows any bytes, but no text that we write can have them."""

import os
from pathlib import Path

from linformer_fairseq.files.errors import UserError


def shown(path: Path | str) -> str:
    """A file's name for an output or message: bytes that are not UTF-8 become ``\\xe9`` and so on."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def check_name(path: Path) -> None:
    """Refuse an input that a manifest could not name, before the work on it.

    Raises:
        UserError: the path, with the folders above it and links followed, is not UTF-8.
    """
    whole = os.path.realpath(path)  # resolve() fails for links in a circle
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise UserError(f"{shown(whole)}: this name is not UTF-8, as a manifest has to be; rename it") from None


def last_name(path: Path) -> str:
    """The name of a file or folder, of a link the link's own; ``.`` and ``..`` are resolved."""
    return path.resolve().name if path.name in ("", "..") else path.name

"""Sums over blocks, in a file that a stopped run goes on from."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from linformer_fairseq.analysis.singular_values import Floats
from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.errors import UserError

SECONDS_BETWEEN_WRITES = 30.0


class Sums:
    """Sums of any arrays under names, and how many blocks are in each.

    Attributes:
        settings: what the sums depend on.
        blocks: the chosen blocks (blocks, T).
        about: what else is to be remembered of them.

    Args:
        path: the file.
        settings, blocks, about: of a new run.
    """

    def __init__(self, path: Path, settings: dict[str, Any], blocks: Ids, about: dict[str, Any]) -> None:
        self.settings, self.blocks, self.about = settings, blocks, about
        self._path = path
        self._sums: tuple[dict[str, Floats], dict[str, int]] = {}, {}
        self._written = time.monotonic()

    @classmethod
    def read(cls, path: Path) -> Sums:
        """What a stopped run left.

        Raises:
            UserError: the file is damaged.
        """
        try:
            with np.load(path) as found:
                stored = {name: found[name] for name in found.files}
            head = json.loads(str(stored.pop("head")))
            sums = cls(path, head["settings"], stored.pop("blocks"), head["about"])
            sums._sums = stored, head["counts"]
        except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile) as error:
            raise UserError(f"{path}: damaged ({error}); remove it to begin again") from None
        return sums

    def count(self, name: str) -> int:
        """How many blocks the sums under a name have."""
        return self._sums[1].get(name, 0)

    def add(self, name: str, parts: dict[str, Floats], blocks: int) -> None:
        """Add the next ``blocks``; all parts together, so that the file never has half of them."""
        arrays, counts = self._sums
        sums = {f"{name}.{part}": value for part, value in parts.items()}
        sums = {key: arrays[key] + value if key in arrays else value for key, value in sums.items()}
        # at once: what is written after an interrupt has all of the blocks or nothing
        self._sums = arrays | sums, counts | {name: self.count(name) + blocks}
        if time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            self.write()

    def mean(self, name: str, part: str) -> Floats:
        """The mean over the blocks so far."""
        found: Floats = self._sums[0][f"{name}.{part}"] / self.count(name)
        return found

    def write(self) -> None:
        """Write the file.

        Raises:
            OSError: it cannot be written.
        """
        arrays, counts = self._sums
        head = json.dumps({"settings": self.settings, "about": self.about, "counts": counts})
        with atomic_open(self._path, "wb") as stream:
            np.savez(stream, head=np.array(head), blocks=self.blocks, **arrays)  # type: ignore[arg-type]
        self._written = time.monotonic()

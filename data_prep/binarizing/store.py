"""Datasets under construction, which a killed run can resume.

After every part, ``state.json`` records the number of finished parts and the length of each file; when a killed run is
resumed, files are truncated to these lengths. The sizes of items are kept in a separate file until the index is
written.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from data_prep.binarizing.encode import Encoded
from data_prep.support.step import Step
from linformer_fairseq.files.dictionary import EOS
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object, write_json
from linformer_fairseq.files.mmap_dataset import count_documents, write_index

_COUNTS = ("documents", "items", "tokens", "unknown", "text_bytes")


class Store:
    """The datasets of one step, by name (``train``, ``0/train``), and their counts."""

    def __init__(self, step: Step, names: Iterable[str], dtype: np.dtype[np.generic]) -> None:
        """Take over what an earlier run left, or begin.

        Args:
            step: entered and not finished.
            names: of all datasets.
            dtype: of the ids.
        """
        self._outputs, self._sizes = step.outputs, step.work / "sizes"
        self._state_file = step.work / "state.json"
        self._dtype = dtype
        self.parts = 0
        """Number of parts that are in."""
        self.counts = {name: dict.fromkeys(_COUNTS, 0) for name in names}
        if self._state_file.is_file():
            state = read_object(self._state_file, "delete its folder to start afresh")
            if self._all_there(state["counts"]):
                self.parts, self.counts = state["parts"], state["counts"]
        for name in self.counts:
            for path, length in self._lengths(name, self.counts).items():
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("ab") as stream:
                    stream.truncate(length)

    @property
    def text_bytes(self) -> int:
        """Bytes of text whose ids are stored."""
        return sum(count["text_bytes"] for count in self.counts.values())

    def append(self, name: str, encoded: Encoded, continues: bool, text_bytes: int) -> None:
        """Add a part's items to dataset ``name``, after an empty line's item unless it ``continues`` a document."""
        count = self.counts[name]
        separate = count["items"] > 0 and not continues
        inside = count["items"] > 0 and continues and self._last_size(name) > 1
        for path, array in zip(self._lengths(name, self.counts), (encoded.tokens, encoded.sizes), strict=True):
            with path.open("ab") as stream:
                if separate:
                    stream.write(np.array([EOS if array is encoded.tokens else 1], dtype=array.dtype).tobytes())
                stream.write(array.tobytes())
        count["documents"] += count_documents(encoded.sizes, inside)
        count["items"] += len(encoded.sizes) + separate
        count["tokens"] += len(encoded.tokens) + separate
        count["unknown"] += encoded.unknown
        count["text_bytes"] += text_bytes
        self.parts += 1
        write_json(self._state_file, {"parts": self.parts, "counts": self.counts})

    def finish(self) -> None:
        """Write the indexes.

        Raises:
            UserError: there is no item in a dataset.
        """
        for name, count in self.counts.items():
            if not count["items"]:
                raise UserError(f"{name}: the tokenizer makes nothing of its text; give it text, or leave it out")
            sizes = np.memmap(self._sizes / name, dtype=np.int32, mode="r")
            write_index(self._outputs / f"{name}.idx", sizes, self._dtype)

    def _last_size(self, name: str) -> int:
        """Tokens of the last item; 1 if it is an empty line's."""
        with (self._sizes / name).open("rb") as stream:
            stream.seek(-4, os.SEEK_END)
            return int(np.frombuffer(stream.read(4), dtype=np.int32)[0])

    def _lengths(self, name: str, counts: dict[str, dict[str, int]]) -> dict[Path, int]:
        """The two files of a dataset, and how many bytes they have."""
        count = counts[name]
        return {
            self._outputs / f"{name}.bin": count["tokens"] * self._dtype.itemsize,
            self._sizes / name: count["items"] * 4,
        }

    def _all_there(self, counts: dict[str, dict[str, int]]) -> bool:
        """Whether no file is shorter than it should be, as after a crash of the machine."""
        return all(
            path.is_file() and path.stat().st_size >= length
            for name in counts
            for path, length in self._lengths(name, counts).items()
        )

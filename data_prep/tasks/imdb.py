"""IMDB's reviews from aclImdb, a folder or a tar of any compression.

Each review is a file, ``train/pos/ID_RATING.txt``. IMDB has no development set: as in the paper and in fairseq's
recipe, the test set is the valid split. The 50,000 unlabelled reviews are not used.
"""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from data_prep.tasks.definitions import Task
from data_prep.tasks.lines import decode
from data_prep.tasks.rows import Facts, Reject, Row
from data_prep.tasks.tar import tar_files
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.names import shown
from linformer_fairseq.files.provenance import sha256
from linformer_fairseq.files.task_inputs import without_breaks

SPLITS = {"train": "train", "test": "valid"}
"""Splits by folder."""
UNLABELLED = "unsup"
MAX_REVIEW = 2**20
"""Bytes; the longest official one has 14 KB."""

_FILE = re.compile(r"(\d{1,9})_\d{1,2}\.txt")


class _File(NamedTuple):
    folder: str
    label: str
    name: str
    shown: str
    size: int
    content: bytes | None
    """None where it is too large, or not looked at."""


class ImdbSource:
    """The reviews of aclImdb."""

    def __init__(self, task: Task, path: Path, errors: str) -> None:
        """Look what is there.

        Args:
            task: IMDB.
            path: aclImdb, the folder around it, or a tar of it.
            errors: "strict" or "replace".

        Raises:
            UserError: no such file or folder, or a folder without the reviews.
        """
        self.labels = task.labels
        self._errors = errors
        self._path = path
        self.facts = Facts({"kind": "aclImdb", "path": str(path)})
        if path.is_dir():
            inner = path / "aclImdb"
            self._folder: Path | None = inner if inner.is_dir() else path
        elif path.is_file():
            self._folder = None
        else:
            raise UserError(f"{path}: no such file or folder; expected aclImdb, or a tar of it")

    def rows(self) -> Iterator[Row | Reject]:
        """See `Source.rows`.

        Raises:
            UserError: also where a folder of reviews is missing.
        """
        seen: Counter[tuple[str, str]] = Counter()
        names: set[tuple[str, str, str]] = set()
        for file in self._from_folder(self._folder) if self._folder else self._from_tar():
            seen[file.folder, file.label] += 1
            if file.label == UNLABELLED:
                continue
            if (file.folder, file.label, file.name) in names:
                raise UserError(f"{file.shown}: this member occurs twice")
            names.add((file.folder, file.label, file.name))
            yield self._row(file)
        for folder in SPLITS:
            for label in self.labels:
                if not seen[folder, label]:
                    raise UserError(
                        f"{self._path}: no reviews in {folder}/{label}; expected aclImdb as it is unpacked, with "
                        "train/pos, train/neg, test/pos and test/neg, or a tar of it"
                    )
        unlabelled = sum(seen[folder, UNLABELLED] for folder in SPLITS)
        if unlabelled:
            self.facts.remarks.append(f"{unlabelled:,} reviews without a label (unsup) are left out")
        self.facts.remarks.append("valid is the test set: IMDB has no dev set")

    def _row(self, file: _File) -> Row | Reject:
        split = SPLITS[file.folder]
        match = _FILE.fullmatch(file.name)
        if match is None:
            return Reject(split, file.shown, 1, "no review: expected ID_RATING.txt", "")
        if file.content is None:
            return Reject(split, file.shown, 1, f"{file.size:,} bytes: no review is that long", "")
        return Row(
            split,
            (self.labels.index(file.label), int(match[1])),
            f"{file.label}/{file.name.removesuffix('.txt')}",
            (without_breaks(decode(file.content, file.shown, self._errors)),),
            file.label,
            file.shown,
            1,
        )

    def _from_folder(self, root: Path) -> Iterator[_File]:
        digest = hashlib.sha256()
        for folder in SPLITS:
            for label in (*self.labels, UNLABELLED):
                place = root / folder / label
                for path in sorted(place.iterdir()) if place.is_dir() else []:
                    size = path.stat().st_size
                    wanted = label != UNLABELLED and path.is_file() and size <= MAX_REVIEW
                    content = path.read_bytes() if wanted else None
                    if content is not None:
                        digest.update(os.fsencode(f"{folder}/{label}/{path.name}\0{len(content)}\0") + content)
                    yield _File(folder, label, path.name, shown(path), size, content)
        self.facts.source["sha256 of names, lengths and contents"] = digest.hexdigest()

    def _from_tar(self) -> Iterator[_File]:
        self.facts.source["sha256"] = sha256(self._path)

        def wanted(name: str) -> bool:
            return _place(name) is not None and UNLABELLED not in PurePosixPath(name).parts

        for name, size, content in tar_files(self._path, wanted, MAX_REVIEW):
            place = _place(name)
            if place is not None:
                yield _File(*place, PurePosixPath(name).name, shown(f"{self._path}:{name}"), size, content)


def _place(name: str) -> tuple[str, str] | None:
    """(train or test, label) of a file's name in the archive; None for files that are no reviews."""
    parts = PurePosixPath(name).parts
    if len(parts) < 3 or parts[-3] not in SPLITS or parts[-2] not in ("neg", "pos", UNLABELLED):
        return None
    return parts[-3], parts[-2]

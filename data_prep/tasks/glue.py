"""SST-2, QNLI and QQP from GLUE's own files, in a folder or in a zip."""

import errno
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from data_prep.tasks.definitions import Task
from data_prep.tasks.lines import read_lines
from data_prep.tasks.rows import Facts, Reject, Row
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.provenance import sha256

SPLITS = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
MAX_MEMBER = 2**30
"""Bytes of a table in a zip; the largest official one has 60 MB."""


class GlueSource:
    """The tables of one GLUE task."""

    def __init__(self, task: Task, path: Path, errors: str) -> None:
        """Look for the tables.

        Args:
            task: one of GLUE's.
            path: the folder that holds them, the folder around it, or a zip of either.
            errors: "strict" or "replace".

        Raises:
            UserError: nothing there, train.tsv or dev.tsv missing, or a zip that cannot be read.
        """
        self.task = task
        self.labels = task.labels
        self._errors = errors
        self._path = path
        self._tables = _tables_in_zip(task, path) if path.is_file() else _tables_in_folder(task, path)
        self.facts = Facts({"kind": "glue", "path": str(path)})
        for split in ("train", "valid"):
            if split not in self._tables:
                place = f"{task.folder}/{SPLITS[split]}"
                raise UserError(
                    f"{path}: there is no {place} in it; expected GLUE's {task.folder}.zip, or what is unpacked from it"
                )
        if "test" not in self._tables:
            self.facts.remarks.append(f"there is no {SPLITS['test']}: no test split is made")

    def rows(self) -> Iterator[Row | Reject]:
        """See `Source.rows`."""
        if self._path.is_file():
            self.facts.source["sha256"] = sha256(self._path)
        else:
            self.facts.source["files"] = {
                Path(name).name: sha256(Path(name)) for _, name in sorted(self._tables.items())
            }
        for split, name in self._tables.items():
            if self._path.is_file():
                with _member(self._path, name) as stream:
                    yield from self._table(split, stream, f"{self._path}:{name}")
            else:
                with Path(name).open("rb") as stream:
                    yield from self._table(split, stream, name)

    def _table(self, split: str, stream: IO[bytes], file: str) -> Iterator[Row | Reject]:
        task = self.task
        lines = read_lines(stream, file, self._errors)
        header = next(lines)[1].split("\t")
        needed = [*task.texts, *([task.label] if split != "test" else [])]
        missing = [name for name in needed if name not in header]
        if missing or len(set(header)) < len(header):
            raise UserError(
                f"{file}, line 1: wrong header: expected the columns {', '.join(needed)}, separated by tabs, found "
                f"{' | '.join(header)[:200]!r}"
            )
        texts = [header.index(name) for name in task.texts]
        label = header.index(task.label) if task.label in header else None
        identifier = header.index(task.identifier) if task.identifier in header else None
        number = 1
        for number, line in lines:
            fields = line.split("\t")
            if len(fields) != len(header):
                reason = f"{len(fields)} columns, expected {len(header)}" if line else "an empty line"
                yield Reject(split, file, number, reason, line)
                continue
            yield Row(
                split,
                (number, 0),
                fields[identifier] if identifier is not None else str(number - 2),
                tuple(fields[i] for i in texts),
                fields[label] if label is not None else None,
                file,
                number,
                line,
            )
        if number == 1:
            raise UserError(f"{file}: nothing follows the header; is the file truncated?")


def _tables_in_folder(task: Task, path: Path) -> dict[str, str]:
    if not path.is_dir():
        raise UserError(
            f"{path}: no such file or folder; expected GLUE's {task.folder}.zip or the folder {task.folder}"
        )
    inner = path / task.folder
    folder = inner if inner.is_dir() else path
    return {split: str(folder / name) for split, name in SPLITS.items() if (folder / name).is_file()}


@contextmanager
def _zip_errors(path: Path) -> Iterator[None]:
    """What zipfile raises, in words of ours."""
    try:
        yield
    except (zipfile.BadZipFile, EOFError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: truncated, damaged, or no zip file ({str(error)[:200]}); fetch it again") from None
    except (RuntimeError, NotImplementedError) as error:  # encrypted; an unknown method of compression
        raise UserError(f"{path}: this zip cannot be read ({error}); unpack it and give the folder") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # which the seek to a wrong offset raises; any other is the disk's
            raise
        raise UserError(f"{path}: damaged (a member before the beginning of the file); fetch it again") from None
    except Exception as error:
        # zlib's and lzma's own errors have no common base; ours pass through.
        if type(error).__module__ in ("zlib", "lzma", "_lzma"):
            raise UserError(f"{path}: damaged ({error}); fetch it again") from None
        raise


def _tables_in_zip(task: Task, path: Path) -> dict[str, str]:
    with _zip_errors(path), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    return _tables_among(members, str(task.folder), path) or _tables_among(members, "", path)


def _tables_among(members: list[zipfile.ZipInfo], folder: str, path: Path) -> dict[str, str]:
    """The tables in any ``folder`` of the zip; those at its top for an empty name."""
    found: dict[str, str] = {}
    for info in members:
        member = PurePosixPath(info.filename)
        if member.parts[:1] == ("__MACOSX",) or member.parent.name != folder:
            continue
        for split, name in SPLITS.items():
            if member.name != name:
                continue
            if split in found:
                place = PurePosixPath(folder) / name
                raise UserError(f"{path}: holds {place} twice: {found[split]} and {info.filename}")
            if info.file_size > MAX_MEMBER:
                raise UserError(
                    f"{path}: its member {info.filename} would unpack to {info.file_size:,} bytes, which no "
                    f"official file has (limit {MAX_MEMBER:,})"
                )
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # read without bound on memory
                raise UserError(
                    f"{path}: its member {info.filename} is not compressed by deflate, as those of the official files "
                    "are; unpack the zip and give the folder"
                )
            found[split] = info.filename
    return {split: found[split] for split in SPLITS if split in found}


@contextmanager
def _member(path: Path, name: str) -> Iterator[IO[bytes]]:
    """A member of a zip, opened for reading; it is never unpacked to the disk."""
    with _zip_errors(path), zipfile.ZipFile(path) as archive, archive.open(name) as stream:
        yield stream

"""A task from the Hugging Face hub, or from parquet files downloaded from there."""

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from data_prep.sources.hub_access import Wanted, resolve
from data_prep.sources.parquet import decoded
from data_prep.sources.source import Errors
from data_prep.tasks.definitions import Task
from data_prep.tasks.rows import Facts, Reject, Row
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.parquet import damaged_parquet
from linformer_fairseq.files.provenance import sha256
from linformer_fairseq.files.task_inputs import TaskInputs

_ROWS = 1_000
_NUMBER = "idx"
"""Column of the example's number, which some tasks have."""


class HubSource:
    """The tables of one task as the hub has them: labels are numbers, -1 where there is none."""

    def __init__(self, task: Task, folder: Path | None, errors: Errors) -> None:
        """Find the files.

        Args:
            task: one that the hub has.
            folder: of the parquet files, train-*.parquet and so on; None: from the hub.
            errors: "strict" or "replace".

        Raises:
            UserError: the hub is out of reach (with what to fetch by hand), or a file is missing.
        """
        self.task = task
        self.labels = task.labels
        self._encoding_errors = errors
        self._inputs = TaskInputs(task.name)
        self._builder = "parquet"
        self._wanted: Wanted | None = None
        self._files: list[tuple[str, str, str]] = []
        """(split, name for messages, address or pattern for `datasets`) in order."""
        if folder is None:
            self.facts = self._resolve()
        else:
            self.facts = self._find(folder)
        if task.hub.remark:
            self.facts.remarks.append(task.hub.remark)

    def _resolve(self) -> Facts:
        hub = self.task.hub
        files: dict[str, Any] = {}
        known: dict[str, str] = {}
        for theirs, split in self.task.hub.splits.items():
            self._wanted = Wanted(
                "hub", hub.repository, hub.revision, hub.config, split=theirs, files=f"{hub.config}/*.parquet"
            )
            self._builder, found = resolve(self._wanted)
            for file in found:
                known["revision"] = file.commit
                if file.license:
                    known["license"] = file.license
                self._files.append((split, f"hub:{file.repository}/{file.path}", file.url))
                files[file.path] = {"bytes": file.size, "sha256": file.sha256}
        return Facts({"kind": "hub", "repository": hub.repository, "config": hub.config, **known, "files": files})

    def _find(self, folder: Path) -> Facts:
        files = {}
        for theirs, split in self.task.hub.splits.items():
            found = sorted(folder.glob(f"{theirs}-*.parquet"))
            if not found:
                raise UserError(f"{folder}: no {theirs}-*.parquet; fetch the whole folder {self.task.hub.config}")
            for path in found:
                # The address is a pattern to `datasets`, joined to the current folder if it is relative.
                self._files.append((split, str(path), glob.escape(str(path.absolute()))))
                files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
        return Facts({"kind": "parquet", "path": str(folder), "files": files})

    def rows(self) -> Iterator[Row | Reject]:
        """See `Source.rows`."""
        counts: dict[str, int] = {}
        for split, name, address in self._files:
            for line, record in enumerate(self._records(name, address), start=1):
                counts[split] = number = counts.get(split, 0) + 1
                yield self._row(split, name, number, line, record)
        for split, name, _ in self._files:
            if split not in counts:
                raise UserError(f"{name}: has no rows, and no other file of {split} has any; fetch it again")

    def _records(self, name: str, address: str) -> Iterator[dict[str, Any]]:
        import datasets

        columns, start = {*self.task.texts, "label"}, 0
        # the default is the rows of the first group, which `datasets` refuses to be 0
        how = {"batch_size": _ROWS} if self._builder == "parquet" else {}
        with self._errors(name):
            stream = datasets.load_dataset(self._builder, data_files=[address], split="train", streaming=True, **how)
            for table in stream.with_format("arrow").iter(batch_size=_ROWS):
                if missing := sorted(columns - set(table.column_names)):
                    raise UserError(f"{name}: no column {', '.join(missing)}; it has: {', '.join(table.column_names)}")
                table = table.select([column for column in table.column_names if column in {*columns, _NUMBER}])
                try:
                    yield from table.to_pylist()
                except UnicodeDecodeError:
                    yield from self._decoded(table, start, name)
                start += table.num_rows

    def _decoded(self, table: Any, start: int, name: str) -> list[dict[str, Any]]:
        """The rows of a table in which some bytes are not UTF-8."""
        columns = {column: table[column] for column in table.column_names}
        values = {
            column: [text and text[0] for text in decoded(cells, start, name, self._encoding_errors)]
            if column in self.task.texts
            else cells.to_pylist()
            for column, cells in columns.items()
        }
        return [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]

    @contextmanager
    def _errors(self, name: str) -> Iterator[None]:
        if self._wanted is not None:
            with self._wanted.explained():
                yield
            return
        import pyarrow

        try:
            yield
        except (pyarrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # the disk's; pyarrow's have no number
                raise
            raise damaged_parquet(name, error) from None

    def _row(self, split: str, name: str, number: int, line: int, record: dict[str, Any]) -> Row | Reject:
        """The example of row ``line`` of a file, which is row ``number`` of its split."""
        texts = [record[column] for column in self.task.texts]
        label = record["label"]
        raw = repr(record)
        if not all(isinstance(text, str) for text in texts):
            return Reject(split, name, line, "a text is missing", raw)
        if not isinstance(label, int) or not -1 <= label < len(self.labels):
            return Reject(split, name, line, f"label {label!r} is no number below {len(self.labels)}", raw)
        if label < 0 and split != "test":
            return Reject(split, name, line, "has no label", raw)
        return Row(
            split,
            (number, 0),
            str(record.get(_NUMBER, number - 1)),
            tuple(map(self._inputs.text, texts)),
            self.labels[label] if label >= 0 else None,
            name,
            line,
            raw,
        )

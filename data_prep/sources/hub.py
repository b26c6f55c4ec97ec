"""Data sets of the Hugging Face hub, streamed through ``datasets`` from one commit."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from data_prep.sources.formats import ReadOptions
from data_prep.sources.hub_access import CONVERTED, HubFile, Wanted, resolve
from data_prep.sources.lines import Limits
from data_prep.sources.parquet import check_text_column, column_records
from data_prep.sources.shaping import Shape, shape_of
from data_prep.sources.source import Errors, Record, Unit
from linformer_fairseq.files.errors import UserError

# How often `datasets` takes up an interrupted transfer again, with what the hub's client tries each time: about two
# minutes in all. Its own default would hang for a quarter of an hour before it says that the network is gone.
_READ_RETRIES = 3
_ROWS = 1000
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@dataclass(frozen=True)
class Preset:
    """A data set that is asked for so often that it has a short name."""

    repository: str
    revision: str
    config: str
    group: int = 1
    """Records to a document."""
    files: str = "*.parquet"


PRESETS = {
    "wikipedia": Preset(
        "wikimedia/wikipedia", "b04c8d1ceb2f5cd4588862100d08de323dccfbaa", "20231101.en", files="20231101.en/*.parquet"
    ),
    # One sentence a row, and nothing marks where a book ends: 64 sentences are some 850 words. The hub rewrites this
    # branch when it converts anew, so there is no commit to pin; the one that was read is recorded.
    "bookcorpus": Preset("bookcorpus/bookcorpus", CONVERTED, "plain_text", 64, files="plain_text/train/*.parquet"),
}
"""The two halves of the paper's corpus."""


def hub_units(name: str, given: dict[str, str], spec: str, limits: Limits) -> list[Unit]:
    """The units of ``hub:name`` with the user's ``key=value`` endings.

    Raises:
        UserError: a name that is none, a hub out of reach, or nothing there that was asked for.
    """
    preset = PRESETS.get(name)
    if preset is None and not _REPOSITORY.fullmatch(name):
        raise UserError(f"source {spec!r}: expected hub:OWNER/NAME or one of {', '.join(f'hub:{x}' for x in PRESETS)}")
    if preset is None:
        preset = Preset(name, "main", "")
    shape = shape_of(spec, given, limits, preset.group)
    wanted = Wanted(
        spec,
        preset.repository,
        given.get("revision", preset.revision),
        given.get("config", preset.config) or None,
        given.get("split", "train"),
        preset.files if not given.keys() & {"config", "split", "revision"} else "*.parquet",
        "".join(f",{key}={given[key]}" for key in ("weight", "field", "lines", "license") if key in given)
        + (f",group={shape.group}" if shape.group > 1 else ""),
    )
    builder, files = resolve(wanted)
    options = ReadOptions(limits, given.get("field", "text"))
    return [HubUnit(file, builder, options, shape, wanted) for file in files]


def _joined(lines: Iterator[Record], limits: Limits) -> Iterator[Record]:
    """Runs of lines between blank ones, each as one record."""
    run: list[Record] = []
    size = 0
    for line in lines:
        if line.text.strip():
            run.append(line)
            size += len(line.text.encode()) + 1
            if size - 1 > limits.max_document_bytes:  # the last line has no end
                most = f"{limits.max_document_bytes:,} bytes"
                raise UserError(
                    f"{run[0].where}: the document that begins here is longer than {most}; raise --max-document-bytes "
                    "if it really is one"
                )
        elif run:
            yield _one(run)
            run, size = [], 0
    if run:
        yield _one(run)


def _one(lines: list[Record]) -> Record:
    text = "\n".join(line.text for line in lines)
    return Record(text, lines[0].where, any(line.replaced for line in lines))


class HubUnit(Unit):
    """The documents of one data file of a repository."""

    def __init__(self, file: HubFile, builder: str, options: ReadOptions, shape: Shape, wanted: Wanted) -> None:
        """``builder`` is what ``datasets`` reads such files with: parquet, json, text, ..."""
        self._file, self._builder, self._options, self._shape, self._wanted = file, builder, options, shape, wanted
        self.name = f"hub:{file.repository}/{file.path}"
        self.size = file.size
        self._position = 0

    def identity(self) -> dict[str, object]:
        """Repository, commit and file."""
        return {"repository": self._file.repository, "revision": self._file.commit, "file": self._file.path}

    def provenance(self) -> dict[str, object]:
        """The identity, the sha256 that the hub keeps of large files (null for a small one), the licence if known."""
        licence = {"license": self._file.license} if self._file.license else {}
        return {**self.identity(), "size": self.size, "sha256": self._file.sha256, **licence}

    def position(self) -> int:
        """Bytes of the file read so far, taking all rows for equally long."""
        return self._position

    def documents(self, errors: Errors = "strict", skip: int = 0) -> Iterator[Record]:
        """The documents in the order of the file; the skipped ones are fetched, too."""
        self._position = 0
        # of plain text, `datasets` makes a row of each line
        read = self._blocks if self._builder == "text" else self._records
        return self._shape.apply(read, errors, skip)

    def _blocks(self, errors: Errors, skip: int) -> Iterator[Record]:
        """Runs of lines between blank lines, as of a text file, without the first ``skip``."""
        return islice(_joined(self._records(errors, 0), self._options.limits), skip, None)

    def _records(self, errors: Errors, skip: int) -> Iterator[Record]:
        import datasets

        done = 0
        with self._wanted.explained():
            datasets.config.STREAMING_READ_MAX_RETRIES = _READ_RETRIES
            rows, how = self._parquet() if self._builder == "parquet" else (None, {})
            files = [self._file.url]
            stream = datasets.load_dataset(self._builder, data_files=files, split="train", streaming=True, **how)
            for table in stream.with_format("arrow").iter(batch_size=_ROWS):
                check_text_column(table.schema, self._options.field, self.name)
                for chunk in table.column(self._options.field).chunks:
                    left = max(0, skip - done)
                    start = done + left
                    done += len(chunk)
                    self._position = (self.size or 0) * done // rows if rows else 0
                    if left < len(chunk):
                        yield from column_records(chunk.slice(left), start, self.name, self._options, errors)
        if rows and done != rows:
            raise UserError(f"{self.name}: {done:,} rows came, the file has {rows:,}; run the same command again")
        self._position = self.size or 0

    def _parquet(self) -> tuple[int, dict[str, Any]]:
        """Rows of a parquet file, which its footer tells, and what ``datasets`` is to read of it.

        Pages as they are needed: without this all of the file's column is in memory at the end.
        """
        import huggingface_hub
        import pyarrow.dataset
        import pyarrow.parquet

        with huggingface_hub.HfFileSystem().open(self._file.url, block_size=1 << 20) as file:
            footer = pyarrow.parquet.read_metadata(file)
        check_text_column(footer.schema.to_arrow_schema(), self._options.field, self.name)
        scan = pyarrow.dataset.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=1 << 20, pre_buffer=False
        )
        return footer.num_rows, {
            "columns": [self._options.field],
            "batch_size": _ROWS,
            "fragment_scan_options": scan,
        }

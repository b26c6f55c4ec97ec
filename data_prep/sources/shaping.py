"""Converts records of a file to documents: joins lines to paragraphs, and several records to one document."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from data_prep.sources.lines import MAX_DOCUMENT_BYTES, Limits
from data_prep.sources.source import Errors, Record
from linformer_fairseq.files.errors import UserError

_LARGEST_GROUP = 10**9

LINES = ("paragraphs", "join")
_BLANK_LINES = re.compile(r"\n\s*\n\s*")


@dataclass(frozen=True)
class Shape:
    """How records become documents."""

    lines: str = "paragraphs"
    """``paragraphs``: each line is one; ``join``: the lines between two blank lines are one, and so are all lines of
    ``group`` records."""
    group: int = 1
    """So many records in a row make one document."""
    max_document_bytes: int = MAX_DOCUMENT_BYTES

    def apply(self, read: Callable[[Errors, int], Iterator[Record]], errors: Errors, skip: int) -> Iterator[Record]:
        """The documents of ``read(errors, records to skip)``, without the first ``skip``."""
        records = read(errors, skip * self.group)
        if self.group > 1:
            records = self._grouped(records)
        if self.lines == "join":
            return (record._replace(text=join_lines(record.text)) for record in records)
        return records

    def _grouped(self, records: Iterator[Record]) -> Iterator[Record]:
        for first in records:
            texts, size, replaced = [first.text], len(first.text.encode()), first.replaced
            for record in islice(records, self.group - 1):
                texts.append(record.text)
                size += len(record.text.encode()) + 1
                replaced = replaced or record.replaced
                if size > self.max_document_bytes:
                    raise UserError(
                        f"{first.where}: the document of {self.group:,} records that begins here is longer than "
                        f"{self.max_document_bytes:,} bytes; make group= smaller or raise --max-document-bytes"
                    )
            yield Record("\n".join(texts), first.where, replaced)


def join_lines(text: str) -> str:
    """``text`` with each run of lines between blank lines on one line."""
    blocks = (" ".join(filter(None, map(str.strip, block.split("\n")))) for block in _BLANK_LINES.split(text))
    return "\n".join(filter(None, blocks))


def shape_of(spec: str, given: dict[str, str], limits: Limits, group: int = 1) -> Shape:
    """``lines=`` and ``group=``, with the default ``group``."""
    if "group" in given:
        number = given["group"].lstrip("0")
        # int() refuses thousands of digits
        if not number.isdecimal() or len(number) > len(str(_LARGEST_GROUP)) or int(number) > _LARGEST_GROUP:
            raise UserError(
                f"source {spec!r}: group={given['group']}: expected a number of records, 1 to {_LARGEST_GROUP:,}"
            )
        group = int(number)
    lines = choice(spec, "lines", given, LINES, LINES[0])
    assert lines is not None
    return Shape(lines, group, limits.max_document_bytes)


def choice(spec: str, key: str, given: dict[str, str], known: tuple[str, ...], default: str | None) -> str | None:
    """``given[key]``, which must be one of ``known``."""
    value = given.get(key, default)
    if value is not None and value not in known:
        raise UserError(f"source {spec!r}: {key}={value}: expected one of {', '.join(known)}")
    return value

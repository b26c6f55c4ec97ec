"""What is made of the records of a file: lines joined to paragraphs, several records to one document."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from data_prep.errors import DataError
from data_prep.sources.source import Errors, Record

LINES = ("paragraphs", "join")
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


@dataclass(frozen=True)
class Shape:
    """How records become documents."""

    lines: str = "paragraphs"
    """``paragraphs``: each line is one; ``join``: the lines between two blank lines are one."""
    group: int = 1
    """So many records in a row make one document."""
    max_document_bytes: int = 32 << 20

    def apply(
        self, read: Callable[[Errors, int], Iterator[Record]], errors: Errors, skip: int, name: str
    ) -> Iterator[Record]:
        """The documents of ``read(errors, records to skip)``, without the first ``skip``."""
        records = read(errors, skip * self.group)
        if self.group > 1:
            records = self._grouped(records)
        if self.lines == "join":
            return (record._replace(text=join_lines(record.text)) for record in records)
        return records

    def _grouped(self, records: Iterator[Record]) -> Iterator[Record]:
        while some := list(islice(records, self.group)):
            text = "\n".join(record.text for record in some)
            if len(text) > self.max_document_bytes:
                raise DataError(
                    f"{some[0].where}: the document of {self.group} records that begins here is longer than "
                    f"{self.max_document_bytes:,} bytes; make group= smaller or raise --max-document-bytes"
                )
            yield Record(text, some[0].where, any(record.replaced for record in some))


def join_lines(text: str) -> str:
    """``text`` with each run of lines between blank lines on one line."""
    blocks = (" ".join(filter(None, map(str.strip, block.split("\n")))) for block in _BLANK_LINES.split(text))
    return "\n".join(filter(None, blocks))

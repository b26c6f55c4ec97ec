"""Which texts have occurred, and where first: on disk, so that memory stays bounded."""

import sqlite3
from pathlib import Path

from data_prep.support.errors import DataError

# Enough for the whole table of the paper's corpus (6.5 million documents of about 40 bytes each).
_CACHE_KIB = 256 * 1024


class Seen:
    """Digests and the position of the first text that had each.

    Positions rise within a run. A run that is done again, from whatever position, is answered as the first time.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the table in the file ``path``."""
        self._table = sqlite3.connect(path, isolation_level=None)
        self._table.execute("PRAGMA journal_mode = WAL")
        self._table.execute("PRAGMA synchronous = NORMAL")
        self._table.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        self._table.execute(
            "CREATE TABLE IF NOT EXISTS seen (digest BLOB PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID"
        )
        self._table.execute("BEGIN")
        self._path = path

    def is_first(self, digest: bytes, position: int) -> bool:
        """Whether no text before ``position`` had this digest.

        Raises:
            DataError: the file cannot grow.
        """
        try:
            row = self._table.execute(
                "INSERT INTO seen VALUES (?, ?) ON CONFLICT DO UPDATE SET position = position RETURNING position",
                (digest, position),
            ).fetchone()
        except sqlite3.OperationalError as error:
            raise DataError(f"{self._path}: {error}; make room and run the same command again") from None
        return bool(row[0] == position)

    def save(self) -> None:
        """What was told so far outlives the process.

        Raises:
            DataError: there is no room for it.
        """
        try:
            self._table.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise DataError(f"{self._path}: {error}; make room and run the same command again") from None
        self._table.execute("BEGIN")

    def close(self) -> None:
        """Let go of the file, without what was not saved."""
        self._table.close()

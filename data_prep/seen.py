"""Which texts have occurred, and where first: on disk, so that memory stays bounded."""

import sqlite3
from pathlib import Path

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

    def is_first(self, digest: bytes, position: int) -> bool:
        """Whether no text before ``position`` had this digest."""
        row = self._table.execute(
            "INSERT INTO seen VALUES (?, ?) ON CONFLICT DO UPDATE SET position = position RETURNING position",
            (digest, position),
        ).fetchone()
        return bool(row[0] == position)

    def save(self) -> None:
        """What was told so far outlives the process."""
        self._table.execute("COMMIT")
        self._table.execute("BEGIN")

    def close(self) -> None:
        """Save, and let go of the file."""
        self._table.execute("COMMIT")
        self._table.close()

"""The texts that have occurred, with their first position; stored on disk, so that memory is bounded."""

import sqlite3
from pathlib import Path

from linformer_fairseq.files.errors import UserError

# Enough for the whole table of the paper's corpus (6.5 million documents of about 40 bytes each).
_CACHE_KIB = 256 * 1024


class Seen:
    """Digests and the position of the first text that had each.

    Positions rise within a run. A run that is done again, from whatever position, is answered as the first time.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the table in the file ``path``.

        Raises:
            UserError: the file is damaged, or cannot be written.
        """
        self._path = path
        try:
            self._table = sqlite3.connect(path, isolation_level=None)
        except sqlite3.DatabaseError as error:
            raise self._explained(error) from None
        try:
            self._table.execute("PRAGMA journal_mode = WAL")
            # What was saved is there after a crash of the machine, too.
            self._table.execute("PRAGMA synchronous = FULL")
            self._table.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._table.execute(
                "CREATE TABLE IF NOT EXISTS seen (digest BLOB PRIMARY KEY, position INTEGER NOT NULL) WITHOUT ROWID"
            )
            self._table.execute("BEGIN")
        except sqlite3.DatabaseError as error:
            self._table.close()
            raise self._explained(error) from None

    def is_first(self, digest: bytes, position: int) -> bool:
        """Whether no text before ``position`` had this digest.

        Raises:
            UserError: the file cannot grow, or is damaged.
        """
        try:
            if self._table.execute("INSERT OR IGNORE INTO seen VALUES (?, ?)", (digest, position)).rowcount:
                return True
            (first,) = self._table.execute("SELECT position FROM seen WHERE digest = ?", (digest,)).fetchone()
        except sqlite3.DatabaseError as error:
            raise self._explained(error) from None
        return bool(first == position)

    def save(self) -> None:
        """What was told so far outlives the process.

        Raises:
            UserError: there is no room for it.
        """
        try:
            self._table.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise self._explained(error) from None
        self._table.execute("BEGIN")

    def _explained(self, error: sqlite3.DatabaseError) -> UserError:
        if isinstance(error, sqlite3.OperationalError):
            return UserError(f"{self._path}: {error}; make room and run the same command again")
        return UserError(
            f"{self._path}: {error}, as after a crash of the machine; delete {self._path.parent} and run the same "
            "command again, which then begins anew"
        )

    def close(self) -> None:
        """Let go of the file, without what was not saved."""
        self._table.close()

"""Texts that occur more than once: counted and told, and kept, as the official files have them."""

from collections import Counter
from hashlib import blake2b

from data_prep.tasks.rows import Row


class Repeats:
    """Remembers every example's text by a hash of 16 bytes."""

    def __init__(self) -> None:
        self._bits: dict[tuple[str, str | None], int] = {}
        self._seen: dict[bytes, int] = {}
        self.duplicates: Counter[str] = Counter()
        """Examples by split whose text occurred in that split before."""

    def add(self, row: Row) -> None:
        """Note an example."""
        mark = blake2b("\0".join(row.texts).encode(), digest_size=16).digest()
        bit = self._bits.setdefault((row.split, row.label), 1 << len(self._bits))
        before = self._seen.get(mark, 0)
        if before & self._of_split(row.split):
            self.duplicates[row.split] += 1
        self._seen[mark] = before | bit

    def contradictions(self, split: str) -> int:
        """Texts of a split that carry more than one label."""
        bits = self._of_split(split)
        return sum((mask & bits).bit_count() > 1 for mask in self._seen.values())

    def shared(self, split: str, other: str) -> int:
        """Texts that are in both splits."""
        one, two = self._of_split(split), self._of_split(other)
        return sum(bool(mask & one and mask & two) for mask in self._seen.values())

    def _of_split(self, split: str) -> int:
        return sum(bit for (name, _), bit in self._bits.items() if name == split)

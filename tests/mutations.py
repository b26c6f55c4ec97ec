"""Damage done to files at random, the same each time: each kind is something that disks, copies and programs do."""

from __future__ import annotations

import contextlib
import functools
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

Edit = tuple[int, int, bytes]
"""(start, stop, new): ``content[start:stop]`` becomes ``new``. All but the last keep the length."""

_STRUCTURE = 6000
"""Bytes at each end of a file in which half of the damage is done: the pickle, and the archive's directory."""


def _place(content: bytes, draw: random.Random) -> int:
    """Somewhere; in a large file half of the time where its structure is."""
    size = len(content)
    where = draw.random()
    if where < 0.25:
        return draw.randrange(min(size, _STRUCTURE))
    if where < 0.5:
        return size - 1 - draw.randrange(min(size, _STRUCTURE))
    return draw.randrange(size)


def _range(content: bytes, draw: random.Random, longest: int = 65536) -> tuple[int, int]:
    start = _place(content, draw)
    return start, min(len(content), start + int(2 ** draw.uniform(0, longest.bit_length() - 1)))


def _flip_a_bit(content: bytes, draw: random.Random) -> list[Edit]:
    at = _place(content, draw)
    return [(at, at + 1, bytes([content[at] ^ 1 << draw.randrange(8)]))]


def _flip_bits(content: bytes, draw: random.Random) -> list[Edit]:
    places = {_place(content, draw) for _ in range(draw.randint(2, 40))}
    return [(at, at + 1, bytes([content[at] ^ 1 << draw.randrange(8)])) for at in places]


def _noise(content: bytes, draw: random.Random) -> list[Edit]:
    start, stop = _range(content, draw)
    return [(start, stop, draw.randbytes(stop - start))]


def _zeros(content: bytes, draw: random.Random) -> list[Edit]:
    start, stop = _range(content, draw)
    return [(start, stop, bytes(stop - start))]


def _large_number(content: bytes, draw: random.Random) -> list[Edit]:
    at = min(_place(content, draw), len(content) - 8)
    size = draw.choice([1, 2, 4, 8])
    return [(at, at + size, draw.choice([b"\xff", b"\x7f", b"\x80"]) * size)]


def _swap_blocks(content: bytes, draw: random.Random) -> list[Edit]:
    length = int(2 ** draw.uniform(0, min(16, (len(content) // 2).bit_length() - 1)))
    first, second = sorted(min(_place(content, draw), len(content) - length) for _ in range(2))
    if second < first + length:
        first, second = 0, length
    one, other = content[first : first + length], content[second : second + length]
    return [(first, first + length, other), (second, second + length, one)]


def _copy_a_block(content: bytes, draw: random.Random) -> list[Edit]:
    """A block stands twice, the second time over another one."""
    start, stop = _range(content, draw)
    to = min(_place(content, draw), len(content) - (stop - start))
    return [(to, to + stop - start, content[start:stop])]


def _cut_anywhere(content: bytes, draw: random.Random) -> list[Edit]:
    return [(_place(content, draw), len(content), b"")]


def _cut_short(content: bytes, draw: random.Random) -> list[Edit]:
    """Little is left."""
    return [(int(2 ** draw.uniform(0, (min(len(content), 2**17) - 1).bit_length() - 1)), len(content), b"")]


def _append(content: bytes, draw: random.Random) -> list[Edit]:
    length = int(2 ** draw.uniform(0, 16))
    more = draw.choice([bytes(length), draw.randbytes(length), content[:length], content[-length:]])
    return [(len(content), len(content), more)]


def _insert(content: bytes, draw: random.Random) -> list[Edit]:
    at = _place(content, draw)
    return [(at, at, draw.randbytes(draw.randint(1, 64)))]


def _remove(content: bytes, draw: random.Random) -> list[Edit]:
    start, stop = _range(content, draw, 4096)
    return [(start, stop, b"")]


@functools.lru_cache(maxsize=1)
def _marks(content: bytes) -> list[int]:
    """Where the zip format's marks stand: of an entry's header, the directory's records, and the ends of both."""
    kinds = (b"\x03\x04", b"\x01\x02", b"\x05\x06", b"\x06\x06", b"\x06\x07", b"\x07\x08")
    return [found.start() for found in re.finditer(b"PK(?:" + b"|".join(kinds) + b")", content)] or [0]


def _in_a_record(content: bytes, draw: random.Random) -> list[Edit]:
    """Another byte in the 60 behind a mark of the zip format."""
    at = min(draw.choice(_marks(content)) + draw.randrange(60), len(content) - 1)
    return [(at, at + 1, bytes([draw.randrange(256)]))]


KINDS: tuple[Callable[[bytes, random.Random], list[Edit]], ...] = (
    _flip_a_bit,
    _flip_bits,
    _noise,
    _zeros,
    _large_number,
    _swap_blocks,
    _copy_a_block,
    _cut_anywhere,
    _cut_short,
    _append,
    _insert,
    _remove,
    _in_a_record,
    _in_a_record,
)


@contextlib.contextmanager
def damaged(path: Path, content: bytes, number: int) -> Iterator[str]:
    """Inside the ``with`` block a file has the damage of this number, and afterwards its content again.

    Args:
        path: the file, which has ``content``.
        content: all of it.
        number: of the damage; the same number does the same.

    Returns:
        (as the block's value) the kind of damage.
    """
    kind = KINDS[number % len(KINDS)]
    edits = kind(content, random.Random(number))
    with path.open("r+b") as file:
        for start, stop, new in edits:
            file.seek(start)
            file.write(new)
            if stop - start != len(new):
                file.write(content[stop:])
                file.truncate()
    yield kind.__name__
    with path.open("r+b") as file:
        for start, stop, new in edits:
            end = stop if stop - start == len(new) else len(content)
            file.seek(start)
            file.write(content[start:end])
        file.truncate(len(content))

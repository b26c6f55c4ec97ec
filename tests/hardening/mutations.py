"""Mutants of a file, the same each time: the damage of `tests.mutations`, and what somebody with intent would write."""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from safetensors.torch import save

from linformer_fairseq.checkpoints import released_file
from tests.mutations import KINDS, Edit

Mutate = Callable[[bytes, int], tuple[str, bytes]]
"""The content of a good file and a number to the kind of the mutant and its content."""

_SIZES = (0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_TEXTS = (
    *(b"../../x", b"/etc/passwd", b"\0", b"\n", b"\r\n\t ", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90"),
    *(b"!!python/object/apply:os.system ['true']\n", b"${oc.env:HOME}", b"%s%n", b"-1", b"9" * 5000, b"x" * 70_000),
    *(b"[" * 20_000, b'{"a":' * 20_000, b"<s> 1\n", b"nan", b"1e999", b"# #fairseq:overwrite\n", b"\xe2\x80\xa8"),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 3, 2**31, 2**40, 2**63, 2**64, -(2**63), 10**30, 10**400, 0.5, 1e308),
    *(
        float("nan"),
        float("inf"),
        "",
        " ",
        "1",
        "../../x",
        "/etc/passwd",
        "a\0b",
        "a b",
        "a\nb",
        "\ud800",
        "x" * 70_000,
    ),
    *([], {}, [[]], [None], {"": None}, [1, "a"], ["a", "b"], {"type": 1}, "${oc.env:HOME}", "${nowhere}", "???"),
)
_DEEP = "deep below"
_DEPTHS = (200, 900, 100_000)


def _length(content: bytes, draw: random.Random) -> list[Edit]:
    """Some number that may be a length becomes another."""
    size = draw.choice([1, 2, 4, 8])
    at = draw.randrange(max(1, min(len(content), draw.choice([40, 400, len(content)])) - size))
    value = draw.choice(_SIZES) % 2 ** (8 * size)
    return [(at, at + size, value.to_bytes(size, draw.choice(["little", "big"])))]


@functools.lru_cache(maxsize=1)
def _numbers(content: bytes) -> list[tuple[int, int]]:
    return [found.span() for found in re.finditer(rb"\d+", content)]


def _digits(content: bytes, draw: random.Random) -> list[Edit]:
    """A number that is written with digits becomes another."""
    numbers = _numbers(content)
    start, stop = draw.choice(numbers) if numbers else (0, 0)
    return [(start, stop, str(draw.choice([-1, *_SIZES, 10**30])).encode())]


def _text(content: bytes, draw: random.Random) -> list[Edit]:
    at = draw.randrange(len(content) + 1)
    return [(at, min(len(content), at + draw.choice([0, 0, 1, 8, 80])), draw.choice(_TEXTS))]


def _nothing_left(content: bytes, draw: random.Random) -> list[Edit]:
    return [(0, len(content), draw.choice([b"", b" ", b"\n", b"\0", *_TEXTS]))]


_HOSTILE = (_length, _length, _digits, _text, _text, _nothing_left)


def mutant(content: bytes, number: int) -> tuple[str, bytes]:
    """A mutant of any file."""
    draw = random.Random(number)
    kinds = (*KINDS, *_HOSTILE)
    kind = kinds[number % len(kinds)]
    return kind.__name__, _edited(content, kind(content, draw))


def _edited(content: bytes, edits: list[Edit]) -> bytes:
    for start, stop, new in edits:
        end = stop if len(new) == stop - start or len(edits) == 1 else len(content)
        content = content[:start] + new + content[end:]
    return content


def json_mutant(content: bytes, number: int) -> tuple[str, bytes]:
    """A mutant of a JSON file, or of one of JSON lines: half are JSON of other values, half damaged files."""
    if number % 2:
        return mutant(content, number // 2)
    draw = random.Random(number)
    try:
        return "json", _other_value(content.decode(), draw).encode("utf-8", "surrogatepass")
    except json.JSONDecodeError:
        lines = content.decode().splitlines()
        chosen = draw.choice([at for at, line in enumerate(lines) if line.startswith("{")])
        lines[chosen] = _other_value(lines[chosen], draw)
        return "json line", ("\n".join(lines) + "\n").encode("utf-8", "surrogatepass")


def _other_value(text: str, draw: random.Random) -> str:
    root = {"": json.loads(text)}
    parent, key = draw.choice(list(_places(root)))
    change = draw.randrange(8)
    if change == 0 and parent is not root:
        del parent[key]
    elif change == 1 and isinstance(parent, dict) and parent is not root:
        parent[draw.choice(["../../x", "a\0b", "", "x y", "9" * 30])] = parent.pop(key)
    elif change == 2:
        parent[key] = draw.choice([[parent[key]], {"a": parent[key]}, str(parent[key])])
    elif change == 3:
        parent[key] = _DEEP
    else:
        parent[key] = draw.choice(_VALUES)
    changed = json.dumps(root[""], ensure_ascii=draw.random() < 0.5)
    depth = draw.choice(_DEPTHS)
    opening, closing = draw.choice([("[", "]"), ('{"a":', "}")])
    changed = changed.replace(f'"{_DEEP}"', f"{opening * depth}1{closing * depth}")
    if change == 4 and changed.startswith('{"'):  # a key that stands there twice
        changed = changed[:-1] + "," + json.dumps(changed[2 : changed.index('"', 2)]) + ": 1}"
    return changed


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a value; of a large one, all of the upper levels and some of the others."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    for key in keys[:200]:
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def signed_mutant(content: bytes, number: int) -> tuple[str, bytes]:
    """A released model with other facts, and the right checksum: what somebody with intent would write."""
    length = int.from_bytes(content[:8], "little")
    facts = json.loads(content[8 : 8 + length])["__metadata__"]
    plain = {**facts, "options": json.loads(facts["options"]), "same": json.loads(facts["same"])}
    _, changed = json_mutant(json.dumps(plain).encode(), 2 * number)
    try:
        facts = {
            name: value if isinstance(value, str) and name not in ("options", "same") else json.dumps(value)
            for name, value in json.loads(changed).items()
        }
    except (ValueError, RecursionError, AttributeError):
        facts = {**facts, "options": changed.decode("utf-8", "replace")}
    facts = {str(name): value.encode("utf-8", "replace").decode() for name, value in facts.items()}
    return "signed", released_file.signed(save({"weight": torch.ones(2, 2)}, {**facts, "sha256": "0" * 64}))

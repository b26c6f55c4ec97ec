"""JSON files: what is wrong with one is said with its name, and equal values give equal bytes."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import load, read_object, write_json


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read: No such file"),
        (b'{"a": ', "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "expected an object, found list"),
    ],
)
def test_a_file_that_is_no_object_is_named(tmp_path: Path, content: bytes | None, said: str) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=f"^{path}: {said}.*; make it again$"):
        read_object(path, "make it again")


def test_bytes_of_a_manifest(tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"b": "ï", "a": [1]})
    assert (tmp_path / "x.json").read_bytes() == b'{\n  "a": [\n    1\n  ],\n  "b": "\xc3\xaf"\n}\n'
    assert read_object(tmp_path / "x.json") == {"a": [1], "b": "ï"}


@dataclass(frozen=True)
class Inner:
    number: float


@dataclass(frozen=True)
class Outer:
    inner: list[Inner]
    name: str | None = None


def test_dataclasses_are_made_and_a_wrong_field_is_named() -> None:
    assert load(Outer, {"inner": [{"number": 1}], "other": 2}) == Outer([Inner(1.0)])
    with pytest.raises(ValueError, match=r"inner\[0\].number: expected a number, found 'x'"):
        load(Outer, {"inner": [{"number": "x"}]})
    with pytest.raises(ValueError, match="inner: missing"):
        load(Outer, {})

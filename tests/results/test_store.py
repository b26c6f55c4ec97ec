"""The file of rows: replaced whole, by one collector at a time."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import json
import multiprocessing
import os
from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.results import merge_rows, read_rows
from linformer_fairseq.results.rows import to_line
from tests.results.examples import finetuned, row


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [row("a"), finetuned("sst2", 90.5), row("b", model=dataclasses.replace(row().model, k=[[8, 4], [2, 1]]))]
    path = tmp_path / "new" / "runs.jsonl"
    assert merge_rows(path, rows) == (3, 0, [])
    assert sorted(read_rows(path), key=lambda r: r.name) == sorted(rows, key=lambda r: r.name)
    assert [json.loads(line)["name"] for line in path.read_text().splitlines()] == [
        "a",
        "b",
        "linformer_s1/sst2_lr1e-05_s1",
    ]
    assert [p.name for p in path.parent.iterdir()] == ["runs.jsonl"], "no lock and no temporary file stay"


def test_a_name_with_a_separator_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    rows = [row(f"a{separator}b") for separator in ("\u2028", "\x85", "\n")]
    merge_rows(path, rows)
    assert {one.name for one in read_rows(path)} == {one.name for one in rows}


def test_a_run_collected_again_replaces_its_row(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    merge_rows(path, [row("a", updates=10, finished=False), row("b")])
    assert merge_rows(path, [row("a", updates=20), row("c")]) == (1, 1, [])
    assert [(r.name, r.updates) for r in read_rows(path)] == [("a", 20), ("b", 250_000), ("c", 250_000)]
    before = path.read_bytes()
    merge_rows(path, reversed(read_rows(path)))
    assert path.read_bytes() == before, "in whatever order they come"


def test_another_run_of_the_same_name_keeps_its_own_row(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    merge_rows(path, [row("a", identity="1")])
    assert merge_rows(path, [row("a", identity="2")]) == (1, 0, [])
    assert [r.identity for r in read_rows(path)] == ["1", "2"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not a row of results: not JSON"),
        ("", "line 2: not a row of results: not JSON"),
        (to_line(dataclasses.replace(row(), schema=2)).strip(), "schema 2; this program knows schema 1"),
        (to_line(row()).replace('"seed": 1', '"seed": "x"').strip(), "seed: expected a whole number, found 'x'"),
        (to_line(row()).replace('"scale"', '"skale"').strip(), "scale: missing"),
        (to_line(row()).replace('"final": 5.0, ', "").strip(), "perplexity.final: missing"),
    ],
)
def test_a_damaged_line_is_named_and_nothing_is_overwritten(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(to_line(row("a")) + line + "\n" + to_line(row("b")))
    before = path.read_bytes()
    with pytest.raises(UserError, match=message):
        read_rows(path)
    with pytest.raises(UserError, match=message):
        merge_rows(path, [row("c")])
    assert path.read_bytes() == before


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file.*linformer results collect"):
        read_rows(tmp_path / "runs.jsonl")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_rows(tmp_path)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.jsonl"
    merge_rows(path, [row("a")])
    before = path.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"runs.jsonl: cannot be written: No space left on device"):
        merge_rows(path, [row("b")])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["runs.jsonl"]


def _collector(path: Path, number: int, rounds: int) -> None:
    for i in range(rounds):
        merge_rows(path, [row(f"run_{number}_{i}"), row("shared", updates=i)])


@pytest.mark.slow
def test_collectors_at_once_lose_nothing_and_readers_see_whole_files(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    merge_rows(path, [row("first")])
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_collector, args=(path, number, 10)) for number in range(3)]
    for process in processes:
        process.start()
    seen = []
    while any(process.is_alive() for process in processes):
        seen.append({r.name for r in read_rows(path)})
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert len(seen) > 5, "this reader would show little"
    assert all(one <= two for one, two in itertools.pairwise(seen)), "a row was there and was lost again"
    names = [r.name for r in read_rows(path)]
    assert sorted(names) == sorted(["first", "shared", *(f"run_{n}_{i}" for n in range(3) for i in range(10))])


def test_a_row_of_the_same_state_is_replaced(tmp_path: Path) -> None:
    """It may say more, or say it otherwise, than that of an earlier version of this program."""
    path = tmp_path / "runs.jsonl"
    merge_rows(path, [row("a")])
    again = row("a", versions={"torch": "2.6"})
    assert merge_rows(path, [again]) == (0, 1, [])
    assert read_rows(path) == [again]


def test_a_copy_of_an_earlier_state_does_not_replace_the_row(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    done = row("a", updates=20)
    merge_rows(path, [done])
    copy = row("a", updates=10, finished=False, status="running")
    assert merge_rows(path, [copy, row("b")]) == (1, 0, [copy])
    assert read_rows(path) == [done, row("b")]
    again = row("a", updates=15, finished=False, attempts=2)  # taken up again from an earlier checkpoint
    assert merge_rows(path, [again]) == (0, 1, [])

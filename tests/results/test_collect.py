"""All runs below some folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.results import collect
from tests.results.examples import attempt, run_folder, validation

LOG = [validation(20, ppl=60)]


def test_sound_damaged_and_unfinished_runs(tmp_path: Path) -> None:
    run_folder(tmp_path / "good", LOG)
    stopped = attempt(
        start="2026-11-22T20:00:00+00:00", end="2026-11-22T21:00:00+00:00", status="stopped", updates_at_end=7
    )
    run_folder(tmp_path / "below" / "open", LOG, name="open", attempts=[stopped])
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "run.json").write_text('{"schema": 1,')
    (tmp_path / "no_run").mkdir()
    found = collect([tmp_path])
    assert [(row.name, row.finished) for row in found.rows] == [("open", False), ("tiny_s1", True)]
    assert found.remarks == [f"{tmp_path}/below/open: counted as unfinished: 7 of 20 updates (stopped)"]
    run_folder(tmp_path / "below" / "open", LOG, name="open", attempts=[stopped], max_update=0)
    (remark,) = collect([tmp_path / "below"]).remarks
    assert "7 updates (stopped)" in remark, "how many make its epochs is not known"
    (left_out,) = found.left_out
    assert left_out.startswith(f"{tmp_path}/bad/run.json: not JSON")


def test_a_run_with_changing_settings_is_remarked_on(tmp_path: Path) -> None:
    run_folder(tmp_path / "run", LOG, attempts=[attempt(), attempt(changed=["task.mask_prob: 0.15, now 0.3"])])
    assert collect([tmp_path]).remarks == [f"{tmp_path}/run: settings were changed when it was resumed: task.mask_prob"]


def test_a_folder_given_twice_or_within_another_counts_once(tmp_path: Path) -> None:
    run_folder(tmp_path / "runs" / "a", LOG)
    (tmp_path / "link").symlink_to(tmp_path / "runs")
    found = collect([tmp_path, tmp_path / "runs", tmp_path / "runs" / "a", tmp_path / "link"])
    assert len(found.rows) == 1 and found.remarks == []


def test_runs_are_found_below_runs_and_through_links(tmp_path: Path) -> None:
    for name in ("runs/b", "runs/a", "runs/a/sst2_s1", "elsewhere/c"):
        run_folder(tmp_path / name, LOG, name=name)
    (tmp_path / "runs" / "c").symlink_to(tmp_path / "elsewhere" / "c")
    found = collect([tmp_path / "runs"])
    assert [row.name for row in found.rows] == ["runs/a", "runs/a/sst2_s1", "runs/b", "elsewhere/c"]
    assert found.remarks == [] and found.left_out == []


def test_a_folder_that_cannot_be_read_is_left_out_by_name(tmp_path: Path, unreadable: Path) -> None:
    run_folder(tmp_path / "run", LOG)
    found = collect([tmp_path])
    assert len(found.rows) == 1 and found.left_out == [f"{unreadable}: cannot be read: Permission denied"]


def test_of_two_copies_of_a_run_the_one_with_more_updates_is_taken(tmp_path: Path) -> None:
    for name, updates in (("a_copy", 5), ("b_original", 20), ("c_copy", 10)):
        run_folder(tmp_path / name, LOG, attempts=[attempt(updates_at_end=updates)])
    found = collect([tmp_path])
    assert [row.updates for row in found.rows] == [20]
    assert [remark.split(": ")[:2] for remark in found.remarks] == [
        [f"{tmp_path}/a_copy", "left out"],
        [f"{tmp_path}/c_copy", "left out"],
    ]


def test_a_damaged_pretraining_is_reported_once_and_its_finetunings_are_read(tmp_path: Path) -> None:
    pretraining = tmp_path / "tiny_s1"
    for seed in (1, 2):
        name = f"tiny_s1/sst2_s{seed}"
        run_folder(
            tmp_path / name,
            [validation(9, accuracy=60)],
            stage="finetuning",
            name=name,
            pretrained=f"{pretraining}/x.pt",
        )
    (pretraining / "run.json").write_text("{")
    found = collect([tmp_path])
    assert len(found.left_out) == 1 and len(found.rows) == 2
    assert {row.scale.label for row in found.rows} == {"2 layers x 32, pretraining unknown"}


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gone: no such folder"):
        collect([tmp_path / "gone"])
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="file: is a file; give a folder of runs"):
        collect([tmp_path / "file"])

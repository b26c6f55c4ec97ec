"""The table of what occurred: the first keeps its place, also when a run is repeated."""

from pathlib import Path

import pytest

from data_prep.corpus.seen import Seen
from linformer_fairseq.files.errors import UserError


def test_the_first_position_wins_and_keeps_winning(tmp_path: Path) -> None:
    seen = Seen(tmp_path / "seen")
    assert [seen.is_first(b"a", 1), seen.is_first(b"b", 2), seen.is_first(b"a", 3)] == [True, True, False]
    seen.save()
    assert seen.is_first(b"c", 4)
    seen.close()
    again = Seen(tmp_path / "seen")  # as after a kill: what was not saved is forgotten, what was saved repeats itself
    assert [again.is_first(b"b", 2), again.is_first(b"a", 3), again.is_first(b"c", 4)] == [True, False, True]
    assert not again.is_first(b"a", 0)


def test_a_damaged_table_is_said(tmp_path: Path) -> None:
    (tmp_path / "seen").write_bytes(b"no table at all" * 1000)
    with pytest.raises(UserError, match="not a database.*delete"):
        Seen(tmp_path / "seen")


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    seen = Seen(tmp_path / "seen")
    seen._table.execute("COMMIT")
    seen._table.execute("PRAGMA max_page_count = 4")
    seen._table.execute("BEGIN")
    with pytest.raises(UserError, match="full.*run the same command again"):
        for number in range(10_000):
            seen.is_first(number.to_bytes(16, "big"), number)
    seen.close()


def test_a_table_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="seen: unable to open.*run the same command again"):
        Seen(tmp_path / "missing" / "seen")  # as where the disk has no room for one more file

"""Cutting to the positions of a model."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from linformer_fairseq.files.cuts import CUTS, WINDOWS
from linformer_fairseq.files.cutting import cut, positions, shares, smallest
from linformer_fairseq.files.errors import UserError

_LENGTHS = st.lists(st.integers(0, 60), min_size=1, max_size=2)


def one_by_one(lengths: list[int], limit: int) -> list[int]:
    """The definition: as long as it is too long, the longer text loses a token; of two equal ones the second."""
    kept = list(lengths)
    while positions(kept) > limit:
        longest = max(range(len(kept)), key=lambda i: (kept[i], i))
        kept[longest] -= 1
    return kept


@given(_LENGTHS, st.integers(0, 60))
def test_the_longer_text_gives_first(lengths: list[int], more: int) -> None:
    limit = smallest(len(lengths)) + more
    assert shares(lengths, limit) == one_by_one(lengths, limit)


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([how for how in CUTS if how != WINDOWS]))
def test_so_many_tokens_stay_in_their_order(length: int, keep: int, how: str) -> None:
    kept = cut(np.arange(length), keep, how).tolist()
    assert len(kept) == min(length, keep)
    assert kept == sorted(set(kept))


def test_which_tokens_stay() -> None:
    ids = np.arange(1000)
    assert cut(ids, 510, "head").tolist() == list(range(510))
    assert cut(ids, 510, "tail").tolist() == list(range(490, 1000))
    assert cut(ids, 510, "head+tail").tolist() == [*range(128), *range(1000 - 382, 1000)]


def test_the_model_sees_no_more_than_that(
    prepare: Callable[..., Path],
    glue: Callable[..., Path],
    read_back: Callable[..., list[dict[str, Any]]],
    encode: Callable[[str], list[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "the film is good " * 20
    table = f"index\tquestion\tsentence\tlabel\n0\twhy\t{long}\tentailment\n1\twhy\tgood\tentailment\n"
    path = glue("QNLI", train=table, dev=table)
    folder = prepare("qnli", path, options=("--max-positions", 20))
    whole = [0, *encode("why"), 2, *encode(long.strip())]
    first, second = read_back(folder, "train")
    assert first["tokens"] == [*whole[:19], 2]
    assert second["tokens"] == [0, *encode("why"), 2, *encode("good")]
    assert "1 cut to 20 positions (head)" in capsys.readouterr().out
    for options, said in (
        (("--max-positions", 5), "--max-positions 5: expected at least 6"),
        (("--cut", "tail"), "--cut tail: .* --max-positions"),
        (("--cut", "head"), "--cut head: .* --max-positions"),
    ):
        with pytest.raises(UserError, match=said):
            prepare("qnli", path, options=options)


def test_each_window_of_a_long_text_is_an_example(
    prepare: Callable[..., Path],
    sst2: Path,
    glue: Callable[..., Path],
    read_back: Callable[..., list[dict[str, Any]]],
    encode: Callable[[str], list[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    long, short = "the film is good " * 3 + "in the end", "good"
    table = f"sentence\tlabel\n{short}\t0\n{long}\t1\n{short} {short}\t0\n"
    glue("SST-2", train=table, dev=table)
    folder = prepare("sst2", sst2, options=("--max-positions", 20, "--cut", WINDOWS))
    ids = encode(long)[:-1]  # without </s>
    count = -(-len(ids) // 18)
    starts = [number * (len(ids) - 18) // (count - 1) for number in range(count)]
    assert count > 2
    windows = [[0, *ids[start : start + 18], 2] for start in starts]
    whole = [[0, *encode(text)] for text in (short, f"{short} {short}")]
    for split in ("train", "valid"):
        rows = read_back(folder, split)
        assert [row["tokens"] for row in rows] == [whole[0], *windows, whole[1]]
        assert [row["label"] for row in rows] == [0, *[1] * count, 0]
        assert (folder / "ids" / f"{split}.txt").read_text().split() == ["0", *["1"] * count, "2"]
    said = capsys.readouterr().out
    assert f"train: {count + 2} examples of 3 rows" in said and "67,349: 67,346 fewer here" in said
    assert "1 divided into windows of 20 positions" in said


def test_nothing_is_cut_unless_asked_for(
    prepare: Callable[..., Path],
    glue: Callable[..., Path],
    sst2: Path,
    read_back: Callable[..., list[dict[str, Any]]],
    encode: Callable[[str], list[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    exact = "value " * 510
    assert len(encode(exact.strip())) == 511
    glue("SST-2", dev=f"sentence\tlabel\n{exact}\t1\n{exact}value\t1\n")
    rows = read_back(prepare("sst2", sst2), "valid")
    assert [len(row["tokens"]) for row in rows] == [512, 513]
    assert "1 are longer than 512 positions (the longest takes 513): --max-positions cuts" in capsys.readouterr().out

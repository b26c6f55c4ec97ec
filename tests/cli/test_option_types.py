"""Numbers of a command line that are out of range are refused before anything is read."""

from __future__ import annotations

from argparse import ArgumentTypeError

import pytest

from linformer_fairseq.cli import main
from linformer_fairseq.files.option_types import count, seed


def test_numbers() -> None:
    assert (count("1"), count("4096"), seed("0"), seed(str(2**32 - 1))) == (1, 4096, 0, 2**32 - 1)
    for number, texts in ((count, ("0", "-1", "1.5", "x", "")), (seed, ("-1", str(2**32), "1.5", "x", ""))):
        for text in texts:
            with pytest.raises(ArgumentTypeError, match=f"^{text}: expected a whole number"):
                number(text)


@pytest.mark.parametrize(
    "words",
    [
        "evaluate --batch-size",
        "predict --batch-tokens",
        "embed --batch-tokens",
        "fill-mask --top",
        "convert --text-tokens",
        *(f"analyse spectrum {option}" for option in ("--sentences", "--batch")),
        *(f"analyse limits {option}" for option in ("--sentences", "--batch")),
        *(f"analyse insertion {option}" for option in ("--examples", "--batch")),
        *(f"data corpus {option}" for option in ("--min-characters", "--max-document-bytes", "--shard-bytes")),
        *(f"benchmark inference --{option}" for option in ("lengths", "batches", "rounds", "threads")),
        *(f"benchmark training --{option}" for option in ("tokens", "updates", "warm-up", "width")),
        *(f"benchmark prediction --{option}" for option in ("texts", "batch-sizes", "rounds")),
        *(f"benchmark {name} --rounds" for name in ("ablation", "precision", "optimizer", "selfcheck")),
        "benchmark padding --batch-size",
    ],
)
def test_no_number_of_things_is_below_one(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*words.split(), "0"])
    assert ended.value.code == 2
    assert f"argument {words.split()[-1]}: 0: expected a whole number of at least 1" in capsys.readouterr().err


def test_no_seed_is_below_zero(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["analyse", "theory", "--out", "x", "--seed=-1"])
    assert ended.value.code == 2
    assert "argument --seed: -1: expected a whole number from 0" in capsys.readouterr().err

"""What is read from fairseq's log: curves, tokens, and the traces of attempts that were interrupted."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from linformer_fairseq.results import read_log
from tests.results.examples import training, validation


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines))
    return path


@pytest.mark.slow
def test_the_log_of_a_real_run(real_run: Path) -> None:
    path = real_run / "train.log"
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.startswith('{"')]
    validations = [stats for stats in lines if "valid_ppl" in stats]
    epochs = {stats["epoch"]: stats for stats in lines if "train_wpb" in stats}
    log = read_log(path)
    assert len(log.perplexity) >= 3, "this log would show little"
    assert log.perplexity == {int(s["valid_num_updates"]): float(s["valid_ppl"]) for s in validations}
    assert log.updates == 20
    assert sorted(log.speed) == [5, 10, 15, 20] and log.tokens_per_second > 0
    # Tokens by another way: the means of epochs instead of those of intervals.
    tokens, before = 0.0, 0
    for stats in epochs.values():
        tokens += float(stats["train_wpb"]) * (int(stats["train_num_updates"]) - before)
        before = int(stats["train_num_updates"])
    assert before == 20 and log.tokens == pytest.approx(tokens, abs=2)
    assert log.accuracy == {} and log.f1 == {}


def test_the_last_line_of_an_update_counts(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log", validation(20, ppl=500), validation(20, ppl=400.5), validation(30, ppl=300)))
    assert log.perplexity == {20: 400.5, 30: 300}


def test_what_stood_behind_the_point_of_resumption_is_void(tmp_path: Path) -> None:
    before = [training(10), validation(10, ppl=90), training(20), validation(20, ppl=80), training(30, tokens=99)]
    again = [training(20, tokens=200), training(25, tokens=100)]  # from the checkpoint of update 10
    log = read_log(write(tmp_path / "log", *before, *again))
    assert log.perplexity == {10: 90}, "update 20 was done again, and is not validated yet"
    assert log.updates == 25
    assert log.tokens == 10 * 256 + 10 * 200 + 5 * 100


def test_tokens_of_the_updates_behind_the_last_interval_count(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log", training(10), training(20, tokens=100), validation(25, ppl=3)))
    assert log.tokens == 10 * 256 + 15 * 100


def test_a_run_shorter_than_an_interval_has_the_tokens_of_its_epochs(tmp_path: Path) -> None:
    epoch = json.dumps({"epoch": 1, "train_loss": "9", "train_wpb": "250.5", "train_num_updates": "4"})
    assert read_log(write(tmp_path / "log", epoch)).tokens == 1002
    assert read_log(write(tmp_path / "log", training(2, tokens=100), epoch)).tokens == 400
    assert read_log(write(tmp_path / "log", "nothing of use")).tokens is None


def test_accuracy_and_f1(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log", validation(5, accuracy=61.2, f1=50), validation(10, accuracy=70)))
    assert log.accuracy == {5: 61.2, 10: 70} and log.f1 == {5: 50}


def test_validations_of_another_split(tmp_path: Path) -> None:
    one, two = validation(5, ppl=9, accuracy=61.2, f1=50), validation(5, ppl=8).replace("valid_", "test1_")
    log = read_log(write(tmp_path / "log", training(5), one.replace("valid_", "test_"), two))
    assert (log.perplexity, log.accuracy, log.f1) == ({5: 9}, {5: 61.2}, {5: 50}), "the first split alone counts"
    assert log.split == "test"


def test_scores_begin_anew_when_a_resumed_run_validates_another_split(tmp_path: Path) -> None:
    later = [validation(update, ppl=8).replace("valid_", "test_") for update in (15, 20)]
    log = read_log(write(tmp_path / "log", validation(5, ppl=9), validation(10, ppl=7), *later))
    assert (log.split, log.perplexity) == ("test", {15: 8, 20: 8})


def test_other_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    odd = [
        "{'_name': None}",
        "a line {that is no JSON",
        "[1, 2]",
        '{"num_updates": "soon"}',
        '{"valid_num_updates": "nan"}',
    ]
    odd += ['{"valid_num_updates": null, "valid_ppl": "3"}', '{"num_updates": "1e400"}']
    path.write_bytes(
        "\n".join([*odd, validation(10, ppl=7)]).encode() + b"\n\xff\xfe{\x00\n" + validation(20, ppl=6)[:-9].encode()
    )
    log = read_log(path)
    assert log.perplexity == {10: 7} and log.updates == 10


def test_a_run_that_diverged(tmp_path: Path) -> None:
    log = read_log(write(tmp_path / "log", validation(10, ppl="inf"), validation(20, ppl="nan")))
    assert math.isinf(log.perplexity[10]) and math.isnan(log.perplexity[20])


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_only_a_perplexity_may_be_infinite(tmp_path: Path, value: str) -> None:
    odd = json.dumps({"num_updates": "20", "wps": value, "wpb": value})
    lines = [training(10), odd, validation(20, ppl=value, accuracy=value, f1=value), validation(value, ppl=3)]
    log = read_log(write(tmp_path / "log", *lines))
    assert (log.speed, log.tokens_per_update) == ({10: 1000.5}, {10: 256.0})
    assert (log.accuracy, log.f1, log.updates) == ({}, {}, 20)
    assert list(log.perplexity) == [20] and not math.isfinite(log.perplexity[20])
    assert log.tokens == 20 * 256 and log.tokens_per_second == 1000.5

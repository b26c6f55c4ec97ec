"""Data that do not fit the dictionary, the model or the chosen splits are refused before training."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import complete, compose
from linformer_fairseq.launch.data import (
    Splits,
    check_lengths,
    check_pretraining_data,
    check_sentences,
    check_task_data,
    check_task_name,
)
from tests.binarised import write_items, write_task
from tests.messages import says

N = 8


def pretrain(folder: Path, *words: str) -> DictConfig:
    return complete(compose("pretraining", [f"task.data={folder}", "run_config=cpu", *words]))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "empty"),
        (b"word0 10\n\xff\xfe\n", "not UTF-8"),
        (b"word0\n", "line 1"),
        (b"word0 10\nword1 10\n", "has 7 symbols"),
    ],
)
def test_a_dictionary_that_cannot_be_that_of_the_data_is_named(own_data: Path, content: bytes, what: str) -> None:
    (own_data / "dict.txt").write_bytes(content)
    with pytest.raises(UserError) as refused:
        check_pretraining_data([own_data], Splits())
    assert says(str(refused.value), "task.data", own_data / "dict.txt", what)


def test_every_shard_is_held_against_the_dictionary(own_data: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(own_data, tmp_path / "other"))
    write_items(other / "train", [[64, 2]])
    check_pretraining_data([own_data, other], Splits())  # <mask>, which the task adds
    write_items(other / "train", [[65, 2]])
    with pytest.raises(UserError, match=f"{other}/train.bin has the id 65, but {own_data}/dict.txt has 65 symbols"):
        check_pretraining_data([own_data, other], Splits())


@pytest.mark.parametrize(("wrong", "vocabulary"), [(65, 100), (-1, 70_000)])  # the latter's ids have a sign
def test_ids_of_validation_data_are_held_against_the_dictionary(own_data: Path, wrong: int, vocabulary: int) -> None:
    write_items(own_data / "valid", [[wrong, 2]], vocabulary)
    with pytest.raises(UserError, match=f"{own_data}/valid.bin has the id {wrong}, "):
        check_pretraining_data([own_data], Splits())


def test_a_file_that_lacks_one_byte_is_cut_off(own_data: Path) -> None:
    path = own_data / "train.bin"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(UserError, match=f"{path}: has {size - 1:,} of {size:,} bytes"):
        check_pretraining_data([own_data], Splits())


def test_the_folder_of_shards_is_not_one_of_them(own_data: Path) -> None:
    for shard in ("0", "10", "2"):
        (own_data / shard).mkdir()
        for suffix in (".bin", ".idx"):
            shutil.copy(own_data / f"train{suffix}", own_data / shard)
    for suffix in (".bin", ".idx"):
        (own_data / f"train{suffix}").unlink()
    with pytest.raises(UserError, match=f"task.data={own_data}/0:{own_data}/2:{own_data}/10$"):
        pretrain(own_data)
    for suffix in (".bin", ".idx"):
        shutil.copy(own_data / "0" / f"train{suffix}", own_data)
    pretrain(own_data)  # it has a text of its own


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dataset.train_subset=nope"], "^dataset.train_subset=nope: .* train, valid$"),
        (["dataset.valid_subset='valid,nope'"], "^dataset.valid_subset=nope: .* train, valid$"),
        (["dataset.valid_subset=''"], "^dataset.valid_subset=: .* train, valid$"),
    ],
)
def test_a_split_that_does_not_exist_is_refused(own_data: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        pretrain(own_data, *words)


@pytest.mark.slow
def test_splits_of_ones_own_are_read(own_data: Path, task_data: Path) -> None:
    for suffix in ("bin", "idx"):
        (own_data / f"valid.{suffix}").rename(own_data / f"dev.{suffix}")
    pretrain(own_data, "dataset.valid_subset='dev,train'")
    pretrain(own_data, "dataset.disable_validation=true")
    with pytest.raises(
        UserError, match="^task.data: .*valid.idx: no such file; .*dataset.valid_subset=NAME: dev, train"
    ):
        pretrain(own_data)
    assert check_task_data(task_data, Splits("valid", ("train",))) == ["one", "two", "three"]
    with pytest.raises(UserError, match="^dataset.train_subset=dev: "):
        check_task_data(task_data, Splits("dev"))


@pytest.mark.parametrize("name", ["sst2", "qnli", "qqp", "imdb"])
def test_data_of_another_task_are_refused(tmp_path: Path, name: str) -> None:
    folder = task(tmp_path / "task", [3], [3])
    check_task_name(name, folder)  # of another program, which does not say
    other = "qqp" if name != "qqp" else "qnli"
    (folder / "manifest.json").write_text(json.dumps({"task": other}))
    with pytest.raises(
        UserError, match=f"^task={name}, but {folder} was prepared as {other}; change task or task.data"
    ):
        check_task_name(name, folder)
    for own in (other, "ones_own", None):
        check_task_name(own, folder)


@pytest.mark.parametrize("split", ["train", "valid"])
def test_pairs_without_their_second_texts_are_refused(tmp_path: Path, split: str) -> None:
    folder = task(tmp_path / "task", [3], [3], second=3)
    assert check_task_data(folder, Splits()) == ["one"]
    for suffix in (".bin", ".idx"):
        (folder / "input1" / f"{split}{suffix}").unlink()
    with pytest.raises(UserError, match=f"^task.data: {folder}/input1/{split}.idx: no such file; "):
        check_task_data(folder, Splits())
    with pytest.raises(UserError, match=f"^{folder}/input1/{split}.idx: missing$"):
        check_lengths(folder, options(), N)


def options(**task: Any) -> DictConfig:
    dataset = {"train_subset": "train", "valid_subset": "valid", "disable_validation": False}
    given = {"init_token": 0, "separator_token": 2, "shorten_method": "none", "shorten_data_split_list": "", **task}
    skip = given.pop("skip", False)
    return OmegaConf.create({"task": given, "dataset": {**dataset, "skip_invalid_size_inputs_valid_test": skip}})


def task(folder: Path, train: Sequence[int], valid: Sequence[int], second: int = 0) -> Path:
    """A task with examples of these lengths, and of a second text."""
    rows = {
        split: [([5] * (size - 1) + [2], 0) for size in sizes] for split, sizes in (("train", train), ("valid", valid))
    }
    write_task(folder, ["one"], rows)
    for split, examples in rows.items() if second else ():
        write_items(folder / "input1" / split, [[5] * (second - 1) + [2]] * len(examples))
    return folder


def test_examples_as_long_as_the_model_takes_pass(tmp_path: Path) -> None:
    check_lengths(task(tmp_path / "one", [N - 1, 3], [N - 1]), options(), N)  # with <s>
    check_lengths(task(tmp_path / "pairs", [3], [N - 5], second=3), options(), N)  # and </s> between the two
    check_lengths(task(tmp_path / "bare", [3], [N - 3], second=3), options(init_token=None, separator_token=None), N)


@pytest.mark.parametrize(
    ("train", "valid", "second", "split", "longest"),
    [([N, 3], [3], 0, "train", N + 1), ([3], [N + 2, 3], 0, "valid", N + 3), ([3], [N - 4], 3, "valid", N + 1)],
)
def test_longer_examples_are_refused(
    tmp_path: Path, train: list[int], valid: list[int], second: int, split: str, longest: int
) -> None:
    folder = task(tmp_path / "task", train, valid, second)
    with pytest.raises(UserError) as refused:
        check_lengths(folder, options(), N)
    assert says(
        str(refused.value), folder / "input0" / split, "1 examples", f"n = {N}", longest, f"--max-positions {N}"
    )


def test_longer_examples_that_fairseq_shortens_or_skips_pass(tmp_path: Path) -> None:
    folder = task(tmp_path / "task", [N], [N])
    check_lengths(folder, options(shorten_method="truncate"), N)
    check_lengths(folder, options(skip=True), N)
    with pytest.raises(UserError, match="input0/valid: "):
        check_lengths(folder, options(shorten_method="random_crop", shorten_data_split_list="train"), N)


def test_a_validation_of_longer_lines_is_refused(tmp_path: Path) -> None:
    def check(size: int, n: int | None = None, room: int | None = None, **task: Any) -> None:
        write_items(tmp_path / "valid", [[5] * (size - 1) + [2], [5, 2]])
        given = options(**{"tokens_per_sample": N, **task})
        more = {"model": {"max_positions": n}, "dataset": {"max_tokens_valid": room}}
        check_sentences(tmp_path, OmegaConf.merge(given, more))

    check(N - 1, sample_break_mode="eos")  # with <s>
    check(N, N + 1, sample_break_mode="complete", tokens_per_sample=N + 2)
    for mode in ("eos", "complete", "complete_doc"):
        for n in (None, N + 1):  # fairseq's limit is the smaller of both
            with pytest.raises(
                UserError,
                match=f"valid: .* {N + 1} tokens, more than task.tokens_per_sample = {N}; .*skip_invalid_size",
            ):
                check(N, n, sample_break_mode=mode)
    with pytest.raises(UserError, match=f"more than n = {N}; "):
        check(N, N, sample_break_mode="eos", tokens_per_sample=N + 1)
    check(N, sample_break_mode="none")
    check(N, sample_break_mode="eos", skip=True)
    check(N - 1, sample_break_mode="eos", shorten_method="truncate")
    with pytest.raises(UserError, match=f"the longest line has {N + 1} tokens"):  # <s> is put before what is left of it
        check(2 * N, sample_break_mode="eos", shorten_method="truncate")
    check(2 * N, sample_break_mode="eos", room=3, skip=True)
    check(3, sample_break_mode="eos", room=4)
    with pytest.raises(UserError, match="dataset.max_tokens_valid=3, but the longest example of .*valid has 4 tokens"):
        check(3, sample_break_mode="eos", room=3)


def test_examples_larger_than_a_batch_are_refused(tmp_path: Path) -> None:
    def check(given: DictConfig, **batch: int) -> None:
        check_lengths(folder, OmegaConf.merge(given, {"dataset": batch}), N)

    folder = task(tmp_path / "task", [4], [5])  # and <s>
    check(options(), max_tokens=5, max_tokens_valid=6)
    with pytest.raises(UserError, match="dataset.max_tokens=4, but the longest example of .*train has 5 tokens"):
        check(options(), max_tokens=4)
    check(options(skip=True), max_tokens=4)  # fairseq leaves it out
    for given in (options(), options(skip=True)):  # fairseq stops
        with pytest.raises(UserError, match="dataset.max_tokens_valid=5, but the longest example of .*valid has 6"):
            check(given, max_tokens_valid=5)


def test_a_limit_of_tokens_that_makes_updates_smaller_is_refused(tmp_path: Path) -> None:
    """update_freq is computed from dataset.batch_size; fairseq applies both limits."""

    def check(**batch: int | None) -> None:
        check_lengths(folder, OmegaConf.merge(options(), {"dataset": batch}), N)

    folder = task(tmp_path / "task", [4, 2], [3])  # and <s>
    check(batch_size=8, max_tokens=40)
    check(batch_size=None, max_tokens=39)
    check(batch_size=8, max_tokens=None)
    with pytest.raises(UserError, match="^dataset.max_tokens=39, but a batch has 8 examples of up to 5 tokens "):
        check(batch_size=8, max_tokens=39)

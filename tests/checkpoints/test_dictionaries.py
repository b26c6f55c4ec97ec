"""Data with other dictionaries than those of a model's training are refused, also where they have the same sizes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from linformer_fairseq.checkpoints.dictionaries import check_classes, check_data, check_same, check_tokens, digests
from linformer_fairseq.checkpoints.releasing import release
from linformer_fairseq.conversion.convert import Choices, convert
from linformer_fairseq.exporting.model_card import model_card
from linformer_fairseq.exporting.trained import read_model, read_trained
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import complete, compose
from linformer_fairseq.models import LinformerRobertaModel
from tests.binarised import write_items
from tests.data_prep.small_tokenizers import make_sentencepiece
from tests.models import write_checkpoint
from tests.prepared_task import qqp

DIFFERS = "was trained with .*, which differs from "


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` and ``task``, and ``model.pt``, ``roberta.pt`` and ``classifier.pt`` that were trained on them."""
    folder = tmp_path_factory.mktemp("work")
    data = make_sentencepiece(folder / "bin")
    for split in ("train", "valid"):
        write_items(data / split, [[5, 6, 2]] * 4)
    shutil.copytree(qqp(folder / "glue", data), folder / "task")
    write_checkpoint(data, folder / "model.pt", task="masked_lm")
    write_checkpoint(data, folder / "roberta.pt", task="masked_lm", arch="roberta")
    write_checkpoint(folder / "task", folder / "classifier.pt")
    return folder


@pytest.fixture(scope="module")
def others(work: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bin`` and ``task`` with two pieces in each other's place, and ``labels`` with two classes."""
    folder = tmp_path_factory.mktemp("others")
    for name, changed in (("bin", "dict.txt"), ("task", "input0/dict.txt"), ("labels", "label/dict.txt")):
        shutil.copytree(work / ("bin" if name == "bin" else "task"), folder / name)
        swap(folder / name / changed)
    return folder


def swap(dict_txt: Path) -> None:
    first, second, *rest = dict_txt.read_text().splitlines(keepends=True)
    dict_txt.write_text("".join([second, first, *rest]))


def rows(dict_txt: Path) -> int:
    return dictionary.embedding_rows(dict_txt, linformer=True)


def test_the_data_of_the_training(work: Path, others: Path) -> None:
    tokens, classes = Path("input0") / "dict.txt", Path("label") / "dict.txt"
    symbols = rows(work / "task" / tokens)
    check_tokens(work / "classifier.pt", symbols, True, work / "task" / tokens)
    check_classes(work / "classifier.pt", 2, work / "task" / classes)
    with pytest.raises(UserError, match=f"symbols, but .*{tokens} makes {symbols}"):
        check_tokens(work / "classifier.pt", symbols + 1, True, work / "task" / tokens)
    with pytest.raises(UserError, match=f"3 classes, but .*{classes} has 2 "):
        check_classes(work / "classifier.pt", 3, work / "task" / classes)
    with pytest.raises(UserError, match=f"{DIFFERS}{others / 'task' / tokens}"):
        check_tokens(work / "classifier.pt", symbols, True, others / "task" / tokens)
    with pytest.raises(UserError, match=f"{DIFFERS}{others / 'labels' / classes}"):
        check_classes(work / "classifier.pt", 2, others / "labels" / classes)
    # what it was pretrained with is the same, and has no classes
    check_data(work / "model.pt", others / "labels")


def test_padding_makes_no_difference(work: Path, tmp_path: Path) -> None:
    shutil.copy(work / "bin" / "dict.txt", tmp_path)
    dictionary.pad(tmp_path / "dict.txt")
    assert digests(tmp_path) == digests(work / "bin")
    check_same(work / "model.pt", tmp_path / "dict.txt")


def test_a_roberta_is_released_whose_embedding_has_rows_for_padding(work: Path, tmp_path: Path) -> None:
    data = shutil.copytree(work / "bin", tmp_path / "bin")
    dictionary.pad(data / "dict.txt")
    padded = dictionary.embedding_rows(data / "dict.txt", linformer=False)
    assert padded > rows(data / "dict.txt")
    checkpoint = write_checkpoint(data, tmp_path / "roberta.pt", task="masked_lm", arch="roberta")
    release(checkpoint, data, tmp_path / "out")
    with pytest.raises(UserError, match=f"a dictionary of {padded} symbols"):
        release(checkpoint, work / "bin", tmp_path / "wrong")


def test_a_dictionary_beside_the_model_comes_first(work: Path, others: Path, tmp_path: Path) -> None:
    for name in ("model.pt", "bin/dict.txt"):
        shutil.copy((others if name.endswith("txt") else work) / name, tmp_path)
    check_same(tmp_path / "model.pt", others / "bin" / "dict.txt")
    with pytest.raises(UserError, match=f"was trained with {tmp_path / 'dict.txt'}, which differs"):
        check_same(tmp_path / "model.pt", work / "bin" / "dict.txt")


def test_a_run_remembers_data_that_were_made_again(work: Path, others: Path, tmp_path: Path) -> None:
    shutil.copy(work / "classifier.pt", tmp_path / "checkpoint_best.pt")
    hardware = {"processor": "x", "accelerator": None, "hosts": []}
    attempt = {"start": "2026-01-01T00:00:00+00:00", "status": "finished", "hardware": hardware, "world_size": 1}
    record = {
        **{"schema": 1, "stage": "finetuning", "name": "a", "seed": 1, "paper": {}, "commit": None, "versions": {}},
        **{"model": {}, "max_update": 1, "attempts": [attempt], "dictionaries": digests(others / "task")},
    }
    (tmp_path / "run.json").write_text(json.dumps(record))
    check_same(tmp_path / "checkpoint_best.pt", others / "task" / "input0" / "dict.txt")
    with pytest.raises(UserError, match="tokens recorded in .*run.json, which differs from"):
        check_same(tmp_path / "checkpoint_best.pt", work / "task" / "input0" / "dict.txt")
    with pytest.raises(UserError, match="classes recorded in .*run.json, which differs from"):
        (tmp_path / "run.json").write_text(json.dumps({**record, "dictionaries": digests(others / "labels")}))
        check_data(tmp_path / "checkpoint_best.pt", work / "task")


def test_nothing_is_compared_where_nothing_is_known(
    work: Path, others: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(work / "bin", tmp_path / "gone")
    checkpoint = write_checkpoint(tmp_path / "gone", tmp_path / "model.pt", task="masked_lm")
    shutil.rmtree(tmp_path / "gone")
    check_same(checkpoint, others / "bin" / "dict.txt")
    monkeypatch.chdir(work / "bin")  # "." in a checkpoint names no folder
    write_checkpoint(Path(), checkpoint, task="masked_lm")
    check_same(checkpoint, others / "bin" / "dict.txt")


def _pretrain(key: str) -> Callable[[Path, Path, Path], object]:
    sizes = ["task.tokens_per_sample=64", "run.tokens_per_update=64", "run.tokens_per_batch=64", "run_config=cpu"]

    def start(work: Path, data: Path, out: Path) -> object:
        words = [*sizes, f"{key}={work / 'model.pt'}", f"task.data={data}"]
        if key != "pretrained":
            words += ["experiment=linformer_base_n512_k128_layerwise", "model.projected_dim=8"]
        else:
            words += ["experiment=converted/linformer"]
        return complete(compose("pretraining", words))

    return start


USES: dict[str, tuple[str, Callable[[Path, Path, Path], object]]] = {
    "release": ("bin", lambda work, data, out: release(work / "model.pt", data, out)),
    "release a classifier": ("task", lambda work, data, out: release(work / "classifier.pt", data, out)),
    "load": ("bin", lambda work, data, out: LinformerRobertaModel.from_pretrained(work, "model.pt", data)),
    "load a classifier": (
        "labels",
        lambda work, data, out: LinformerRobertaModel.from_pretrained(work, "classifier.pt", data),
    ),
    "export": ("bin", lambda work, data, out: read_trained(str(work / "model.pt"), data)),
    "export a classifier": ("labels", lambda work, data, out: read_trained(str(work / "classifier.pt"), data)),
    "card": ("labels", lambda work, data, out: model_card(read_model(str(work / "classifier.pt")), data)),
    "convert": (
        "bin",
        lambda work, data, out: convert(
            work / "roberta.pt",
            "roberta",
            out,
            Choices(8, "none", "linear", "dct", None, 1),
            data,
            None,
            torch.device("cpu"),
        ),
    ),
    "pretrain": ("bin", _pretrain("pretrained")),
    "pretrain with fairseq's option": ("bin", _pretrain("checkpoint.finetune_from_model")),
    "finetune": (
        "task",
        lambda work, data, out: complete(
            compose(
                "finetuning", ["task=qqp", f"task.data={data}", f"pretrained={work / 'model.pt'}", "run_config=cpu"]
            )
        ),
    ),
}


@pytest.mark.parametrize("use", USES)
def test_every_use_of_a_model_compares(use: str, work: Path, others: Path, tmp_path: Path) -> None:
    data, do = USES[use]
    do(work, work / ("bin" if data == "bin" else "task"), tmp_path / "right")
    with pytest.raises(UserError, match=DIFFERS):
        do(work, others / data, tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize("changed", ["label", "input0"])
def test_every_checkpoint_of_a_mean_is_compared(changed: str, work: Path, others: Path, tmp_path: Path) -> None:
    for name, source in (("same", work / "task"), ("other", others / ("labels" if changed == "label" else "task"))):
        shutil.copytree(source / changed, tmp_path / name / changed)  # a dictionary beside a checkpoint is its own
        shutil.copy(work / "classifier.pt", tmp_path / name)
    first, same, other = (folder / "classifier.pt" for folder in (work, tmp_path / "same", tmp_path / "other"))
    release(first, work / "task", tmp_path / "right", [same])
    with pytest.raises(UserError, match=f"^{other}: {DIFFERS}"):
        release(first, work / "task", tmp_path / "wrong", [same, other])
    assert not (tmp_path / "wrong").exists()

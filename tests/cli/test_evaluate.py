"""`linformer evaluate`: scores, predictions, submissions, and what does not go together."""

from __future__ import annotations

import json
import re
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import NestedDictionaryDataset

from linformer_fairseq import cli
from linformer_fairseq.checkpoints import writing
from linformer_fairseq.checkpoints.releasing import release
from linformer_fairseq.core import compiling, layer
from linformer_fairseq.evaluation import f1, majority
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.task_data import read_task
from tests.binarised import write_items
from tests.checkpoint_files import damage
from tests.conftest import REPOSITORY
from tests.data_prep.small_tokenizers import lines, make_gpt2, make_sentencepiece
from tests.messages import says
from tests.models import write_checkpoint
from tests.prepared_task import qqp


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_sentencepiece(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def data(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qqp(tmp_path_factory.mktemp("qqp"), tokenizer)


@pytest.fixture(scope="module")
def checkpoint(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(data, tmp_path_factory.mktemp("model") / "checkpoint.pt")


def table(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().removesuffix("\n").split("\n")]


def test_scores_are_those_of_the_predictions_it_writes(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", str(checkpoint), str(data), "--device", "cpu", "--out", str(tmp_path / "predictions.tsv")]
    assert cli.main(words) == 0
    said = capsys.readouterr().out
    header, *rows = table(tmp_path / "predictions.tsv")
    assert header == ["id", "prediction", "label", "probability"]
    assert [row[0] for row in rows] == [str(i + 7) for i in range(20, 50)]
    assert [row[2] for row in rows] == [str(int(i % 3 == 0)) for i in range(20, 50)]
    assert all(0.5 <= float(row[3]) <= 1 for row in rows)
    assert {row[1] for row in rows} == {"0", "1"}, "this model would show nothing"
    right = sum(row[1] == row[2] for row in rows)
    both = sum(row[1] == row[2] == "1" for row in rows)
    score = 200 * both / sum((row[1] == "1") + (row[2] == "1") for row in rows)
    assert said == (
        f"valid: 30 examples\naccuracy {100 * right / 30:.2f} % ({right} right; always 0: 66.67 %)\n"
        f"F1 of 1 {score:.2f} %\n"
    )


@pytest.mark.slow
def test_a_process_of_its_own_knows_the_models(
    data: Path, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", str(checkpoint), str(data), "--device", "cpu"]
    assert cli.main(words) == 0
    command = [sys.executable, "-m", "linformer_fairseq.cli", *words]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == capsys.readouterr().out


def test_the_batch_size_changes_nothing(data: Path, checkpoint: Path, tmp_path: Path) -> None:
    found = {}
    for size in (1, 7, 100):
        out = tmp_path / f"{size}.tsv"
        assert cli.main(["evaluate", str(checkpoint), str(data), "--batch-size", str(size), "--out", str(out)]) == 0
        found[size] = table(out)[1:]
    for size in (7, 100):
        assert [row[:3] for row in found[size]] == [row[:3] for row in found[1]]
        assert np.allclose([float(row[3]) for row in found[size]], [float(row[3]) for row in found[1]], atol=2e-4)


def test_bf16_and_compiling_are_switched_on_by_options(
    data: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(compiling, "_hide_blanks", lambda folder: None)
    monkeypatch.setattr(torch, "compile", lambda step, **options: compiled.append(step.__name__) or step)
    layer._compiled.cache_clear()
    probabilities = {}
    for option in ("", "--bf16", "--compile-encoder"):
        out = tmp_path / f"predictions{option}.tsv"
        words = ["evaluate", str(checkpoint), str(data), "--device", "cpu", "--out", str(out), *filter(None, [option])]
        assert cli.main(words) == 0
        probabilities[option] = np.array([float(row[3]) for row in table(out)[1:]])
        assert compiled == (["_project", "_positions"] if option == "--compile-encoder" else [])
    assert 0 < np.abs(probabilities["--bf16"] - probabilities[""]).max() < 0.15
    assert (probabilities["--compile-encoder"] == probabilities[""]).all()
    layer._compiled.cache_clear()


def test_little_of_what_the_model_is_given_is_padding(
    data: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = []
    collater = NestedDictionaryDataset.collater

    def spy(self: NestedDictionaryDataset, samples: list[Any]) -> Any:
        batch = collater(self, samples)
        inputs = batch["net_input"]
        shares.append((int(inputs["src_lengths"].sum()), inputs["src_tokens"].numel()))
        return batch

    monkeypatch.setattr(NestedDictionaryDataset, "collater", spy)
    assert cli.main(["evaluate", str(checkpoint), str(data), "--batch-size", "5"]) == 0
    tokens, positions = map(sum, zip(*shares, strict=True))
    assert len(shares) == 6 and 1 - tokens / positions < 0.1


@pytest.mark.parametrize("task", ["sentence_prediction", "bucketed_sentence_prediction"])
def test_the_model_sees_what_it_saw_in_training(data: Path, tmp_path: Path, task: str) -> None:
    """Against the model called by hand on the tokens of the binary files, one example at a time."""
    from fairseq.data import Dictionary, data_utils

    from linformer_fairseq.models import LinformerRobertaModel

    checkpoint = write_checkpoint(data, tmp_path / "checkpoint.pt", task=task)
    hub = LinformerRobertaModel.from_pretrained(str(checkpoint.parent), checkpoint.name, str(data))
    hub.eval()
    parts = [data_utils.load_indexed_dataset(str(data / name / "valid"), Dictionary()) for name in ("input0", "input1")]
    expected = []
    for first, second in zip(*parts, strict=True):
        tokens = torch.tensor([0, *first.tolist(), 2, *second.tolist()])
        expected.append(str(int(hub.predict("sentence_classification_head", tokens).argmax())))
    assert cli.main(["evaluate", str(checkpoint), str(data), "--out", str(tmp_path / "out.tsv")]) == 0
    assert [row[1] for row in table(tmp_path / "out.tsv")[1:]] == expected


@pytest.mark.parametrize(
    ("part", "items", "words"),
    [
        ("label", [[4, 2], [3, 2], [5, 2]], ("label/few", "1 examples without one of the classes", "example 1")),
        ("label", [[4, 2], [4, 5, 2], [2]], ("label/few", "2 examples", "example 1")),
        ("label", [[4, 2]] * 2, ("label/few", "2 examples, but input0 has 3")),
        ("input1", [[7, 2]] * 4, ("input1/few", "4 examples, but input0 has 3")),
        ("input0", [], ("input0/few", "no examples")),
    ],
)
def test_examples_without_a_class_or_of_another_number_are_refused_before_the_work(
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    part: str,
    items: list[list[int]],
    words: tuple[str, ...],
) -> None:
    shutil.copytree(data, tmp_path / "task")
    for name in ("input0", "input1", "label"):
        write_items(tmp_path / "task" / name / "few", [[4, 2]] * 3)
    write_items(tmp_path / "task" / part / "few", items)
    assert cli.main(["evaluate", str(tmp_path / "no.pt"), str(tmp_path / "task"), "--split", "few"]) == 1
    assert says(capsys.readouterr().err, *words)


def test_pairs_without_their_second_texts_are_refused_before_the_work(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(data, tmp_path / "task")
    for path in (tmp_path / "task" / "input1").glob("valid.*"):
        path.unlink()
    message = fails(capsys, tmp_path / "no.pt", tmp_path / "task")
    assert f"{tmp_path}/task/input1/valid.idx: no such file, but the task has pairs" in message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "."), ("--out .", "is a folder")),
        (("--results", "."), ("--results .", "is a folder")),
        (("--results", "taken/x"), ("--results taken/x", "taken", "is a file")),
        (("--submission", "taken/x"), ("--submission taken/x", "taken", "is a file")),
        (("--out", "x", "--results", "./x"), ("--results x", "--out")),
        (("--results", "no.pt"), ("--results no.pt", "this file is read")),
        (("--split", "test", "--results", "x"), ("--results x", "test of", "no labels")),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_before_the_work(
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("no.pt", "taken"):
        (tmp_path / name).write_text("old")
    assert says(fails(capsys, "no.pt", data, *words), *said)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"no.pt": "old", "taken": "old"}


@pytest.mark.parametrize("name", ["model.pt", "run.json", "dict.txt"])
def test_the_files_of_the_model_are_not_overwritten(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "model.pt").write_text("old")
    (lost := tmp_path / name).write_text("old")
    assert says(fails(capsys, tmp_path, data, "--out", lost), f"--out {lost}", "this file is read")
    assert lost.read_text() == "old"


@pytest.mark.parametrize("name", ["manifest.json", "input0/valid.idx", "label/dict.txt", "ids/valid.txt"])
@pytest.mark.parametrize("option", ["--out", "--results", "--submission"])
def test_the_files_of_the_task_are_not_overwritten(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, name: str
) -> None:
    shutil.copytree(data, tmp_path / "task")
    lost = tmp_path / "task" / name
    before = lost.read_bytes()
    assert says(fails(capsys, checkpoint, tmp_path / "task", option, lost), f"{option} {lost}", "this file is read")
    assert lost.read_bytes() == before


def test_the_command_that_is_recorded_names_model_and_task(
    data: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they were given: also a link, a folder in place of the file in it, and the folder that one is in."""
    release(checkpoint, data, tmp_path / "stored")
    (tmp_path / "my model").symlink_to(tmp_path / "stored")
    monkeypatch.chdir(data)
    words = ["evaluate", str(tmp_path / "my model"), ".", "--device", "cpu", "--bf16"]
    assert cli.main([*words, "--results", str(tmp_path / "scores.json")]) == 0
    command = json.loads((tmp_path / "scores.json").read_text())["command"]
    assert command == f"linformer evaluate 'my model' {data.name} --split valid --device cpu --bf16"


def test_scores_of_all_classes_are_soft_labels(
    data: Path, checkpoint: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "train.tsv"
    words = ["evaluate", str(checkpoint), str(data), "--device", "cpu", "--split", "train", "--scores"]
    assert cli.main(words) == 1 and "--scores: adds columns to the table of --out" in capsys.readouterr().err
    assert cli.main([*words, "--out", str(out)]) == 0
    header, *rows = table(out)
    assert header == ["id", "prediction", "label", "probability", "0", "1"]
    for row in rows:
        scores = [float(score) for score in row[4:]]
        assert sum(scores) == pytest.approx(1, abs=2e-6) and max(scores) == pytest.approx(float(row[3]), abs=1e-4)
        assert row[1] == str(int(scores[1] > scores[0]))
    learned = read_task(qqp(tmp_path / "again", tokenizer, "--soft-labels", str(out))).soft_labels("train")
    np.testing.assert_allclose(learned, [[float(score) for score in row[4:]] for row in rows], atol=1e-6)


def test_the_windows_of_a_text_are_averaged(
    checkpoint: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = qqp(tmp_path, tokenizer, "--max-positions", "16", "--cut", "windows")
    out = tmp_path / "predictions.tsv"
    assert cli.main(["evaluate", str(checkpoint), str(data), "--device", "cpu", "--scores", "--out", str(out)]) == 0
    identifiers = (data / "ids" / "valid.txt").read_text().split()
    said = capsys.readouterr().out
    assert f"valid: 30 examples in {len(identifiers)} windows\n" in said and len(identifiers) > 60
    (data / "ids" / "valid.txt").write_text("".join(f"{row}\n" for row in range(len(identifiers))))  # of each window
    each = tmp_path / "each.tsv"
    assert cli.main(["evaluate", str(checkpoint), str(data), "--device", "cpu", "--scores", "--out", str(each)]) == 0
    rows, of_windows = table(out)[1:], table(each)[1:]
    assert [row[0] for row in rows] == [str(i + 7) for i in range(20, 50)] and len(of_windows) == len(identifiers)
    assert [row[2] for row in rows] == [str(int(i % 3 == 0)) for i in range(20, 50)]
    for row in rows:
        scores = [
            [float(x) for x in one[4:]] for one, name in zip(of_windows, identifiers, strict=True) if name == row[0]
        ]
        np.testing.assert_allclose([float(x) for x in row[4:]], np.mean(scores, axis=0), atol=2e-6)
        assert row[1] == str(np.mean(scores, axis=0).argmax())
    right = sum(row[1] == row[2] for row in rows)
    assert f"accuracy {100 * right / 30:.2f} % ({right} right" in said


def test_submission(data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["evaluate", str(checkpoint), str(data), "--split", "test", "--submission", str(tmp_path)]
    assert cli.main([*words, "--out", str(tmp_path / "out.tsv")]) == 0
    assert capsys.readouterr().out == "test: 10 examples without labels: no score\n"
    header, *rows = table(tmp_path / "QQP.tsv")
    predictions = table(tmp_path / "out.tsv")[1:]
    assert header == ["index", "prediction"]
    assert rows == [row[:2] for row in predictions] and [row[0] for row in rows] == [str(i + 7) for i in range(50, 60)]
    assert {row[2] for row in predictions} == {""}


def test_a_submission_is_of_the_test_set_unless_a_split_is_named(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["evaluate", str(checkpoint), str(data), "--submission", str(tmp_path / "x.tsv")]
    for split, first, last in ((None, 50, 60), ("valid", 20, 50)):
        assert cli.main(words if split is None else [*words, "--split", split]) == 0
        assert capsys.readouterr().out.startswith(f"{split or 'test'}: ")
        assert [row[0] for row in table(tmp_path / "x.tsv")[1:]] == [str(i + 7) for i in range(first, last)]


def linked(data: Path, other: Path, left_out: str) -> Path:
    """The same folder once more, without the entry that the test makes itself."""
    other.mkdir()
    for path in data.iterdir():
        if path.name != left_out:
            (other / path.name).symlink_to(path)
    return other


def test_a_submission_that_lacks_rows_says_so(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((data / "manifest.json").read_text())
    manifest["splits"]["test"]["counts"]["rejected"] = 3
    other = linked(data, tmp_path / "task", "manifest.json")
    (other / "manifest.json").write_text(json.dumps(manifest))
    words = ["evaluate", str(checkpoint), str(other), "--split", "test", "--submission", str(tmp_path / "x.tsv")]
    assert cli.main(words) == 0
    assert f"{tmp_path / 'x.tsv'} lacks 3 rows, see {other / 'rejected.tsv'}" in capsys.readouterr().err


@pytest.mark.parametrize("source", [None, "a text", ["a list"]])
def test_results_of_data_whose_source_was_changed(data: Path, checkpoint: Path, tmp_path: Path, source: object) -> None:
    manifest = json.loads((data / "manifest.json").read_text())
    other = linked(data, tmp_path / "task", "manifest.json")
    (other / "manifest.json").write_text(json.dumps({**manifest, "source": source}))
    results = tmp_path / "results.json"
    assert cli.main(["evaluate", str(checkpoint), str(other), "--results", str(results)]) == 0
    assert json.loads(results.read_text())["examples"] == 30


def fails(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert cli.main(["evaluate", *map(str, words)]) == 1
    message = capsys.readouterr().err
    assert message.startswith("linformer evaluate: error: ") and message.count("\n") == 1
    return message


def test_a_folder_of_fairseq_preprocess(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fills a dictionary up to a multiple of eight with words that are no classes."""
    from fairseq_cli import preprocess

    monkeypatch.setattr(preprocess.logger, "handlers", [])  # it adds one of its own and leaves it there
    data = tmp_path / "task"
    for part, rows in (("input0", lines(12)), ("label", ["pos", "neg", "pos", "pos"] * 3)):
        (tmp_path / part).write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
        words = ["--only-source", "--trainpref", tmp_path / part, "--validpref", tmp_path / part, "--workers", 1]
        parser = options.get_preprocessing_parser()
        preprocess.main(parser.parse_args([*map(str, words), "--destdir", str(data / part)]))
    dictionary = (data / "label" / "dict.txt").read_text()
    assert dictionary == "pos 9\nneg 3\nmadeupword0000 0\nmadeupword0001 0\n"
    checkpoint = write_checkpoint(data, tmp_path / "checkpoint.pt")
    assert cli.main(["evaluate", str(checkpoint), str(data), "--out", str(tmp_path / "out.tsv")]) == 0
    assert "always pos: 75.00 %" in capsys.readouterr().out
    assert [row[0] for row in table(tmp_path / "out.tsv")[1:]] == list(map(str, range(12)))
    assert {row[1] for row in table(tmp_path / "out.tsv")[1:]} <= {"pos", "neg"}
    # The same classes in a folder that is not filled up, as prepare_task writes it.
    other = linked(data, tmp_path / "other", "label")
    shutil.copytree(data / "label", other / "label")
    (other / "label" / "dict.txt").write_text("pos 9\nneg 3\n")
    assert cli.main(["evaluate", str(checkpoint), str(other)]) == 0
    (other / "label" / "dict.txt").write_text("neg 3\npos 9\n")
    assert "was trained with" in fails(capsys, checkpoint, other)


def test_data_with_a_padded_dictionary(data: Path, checkpoint: Path, tmp_path: Path) -> None:
    padded = linked(data, tmp_path / "padded", "input0")
    shutil.copytree(data / "input0", padded / "input0")
    dictionary.pad(padded / "input0" / "dict.txt")
    outputs = [tmp_path / "plain.tsv", tmp_path / "padded.tsv"]
    for folder, out in zip((data, padded), outputs, strict=True):
        assert cli.main(["evaluate", str(checkpoint), str(folder), "--out", str(out)]) == 0
    assert outputs[0].read_text() == outputs[1].read_text()


def test_identifiers_that_are_not_as_many_as_the_examples(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = linked(data, tmp_path / "task", "ids")
    (other / "ids").mkdir()
    names = (data / "ids" / "valid.txt").read_text().split()
    for found in (names[:-1], [*names, "99"]):
        (other / "ids" / "valid.txt").write_text("".join(f"{name}\n" for name in found))
        out = tmp_path / "out.tsv"
        message = fails(capsys, checkpoint, other, "--out", out)
        assert f"ids/valid.txt: {len(found)} lines for 30 examples; prepare the task again" in message
        assert not out.exists()


def test_identifiers_that_are_lost(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = linked(data, tmp_path / "task", "ids")
    damage(model := Path(shutil.copy(checkpoint, tmp_path)))  # said before the work, that of reading it
    assert says(fails(capsys, model, other), other / "ids" / "valid.txt", "no such file", "prepare the task again")


def test_a_released_model_knows_its_dictionaries(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release(checkpoint, data, tmp_path / "model")
    assert cli.main(["evaluate", str(tmp_path / "model"), str(data), "--device", "cpu"]) == 0
    capsys.readouterr()
    other = shutil.copytree(data, tmp_path / "other")
    lines = (other / "input0" / "dict.txt").read_text().split("\n")
    (other / "input0" / "dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]))
    theirs = tmp_path / "model" / "input0" / "dict.txt"
    assert f"was trained with {theirs}, which differs from" in fails(capsys, tmp_path / "model", other)


@pytest.mark.slow
def test_checkpoints_that_do_not_fit(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "absent.pt: no such file or folder" in fails(capsys, tmp_path / "absent.pt", data)
    (tmp_path / "junk.pt").write_bytes(b"junk")
    assert "junk.pt: cannot be read as a checkpoint" in fails(capsys, tmp_path / "junk.pt", data)

    pretrained = write_checkpoint(data, tmp_path / "pretrained.pt", task="masked_lm")
    assert "has no classification head (its task is masked_lm); finetune it first" in fails(capsys, pretrained, data)
    three = write_checkpoint(data, tmp_path / "three.pt", classes=3)
    assert "its head has 3 classes, but" in fails(capsys, three, data)
    state = torch.load(write_checkpoint(data, tmp_path / "roberta.pt"))
    del state["cfg"]["model"]["sharing"]  # what RoBERTa's options lack
    torch.save(state, tmp_path / "roberta.pt")
    message = fails(capsys, tmp_path / "roberta.pt", data, "--compile-encoder")
    assert "only a Linformer's encoder can be compiled" in message
    state["cfg"]["model"]["sharing"] = "none"
    torch.save(state, tmp_path / "unfit.pt")
    assert "unfit.pt: does not fit its own options" in fails(capsys, tmp_path / "unfit.pt", data)
    damaged = write_checkpoint(data, tmp_path / "damaged.pt")
    writing.write_checkpoint(torch.load(damaged), str(damaged))
    damage(damaged)
    message = fails(capsys, damaged, data)
    assert f"{damaged}: cannot be read as a checkpoint: its bytes do not match the SHA-256 stored in it" in message
    regression = write_checkpoint(data, tmp_path / "numbers.pt", "--regression-target")
    assert "was trained to predict numbers" in fails(capsys, regression, data)

    other = qqp(tmp_path / "other", make_gpt2(tmp_path / "gpt2"))
    gpt2 = write_checkpoint(other, tmp_path / "gpt2.pt")
    message = fails(capsys, gpt2, data)
    assert re.search(r"was trained with a dictionary of \d+ symbols, but .*input0/dict.txt makes \d+", message)
    # As many symbols, but others: seen where the training data is still there.
    lines = (other / "input0" / "dict.txt").read_text().split("\n")
    (other / "input0" / "dict.txt").write_text("\n".join([lines[1], lines[0], *lines[2:]]))
    (other / "moved").symlink_to(other)
    third = qqp(tmp_path / "third", tmp_path / "gpt2")
    assert f"was trained with {other / 'input0' / 'dict.txt'}, which differs from" in fails(capsys, gpt2, third)


def test_data_that_does_not_fit(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "input0/dict.txt: no such file; expected a task" in fails(capsys, checkpoint, tmp_path)
    text = tmp_path / "some text"  # of a pretraining
    text.mkdir()
    shutil.copy(data / "input0" / "dict.txt", text)
    command = shlex.join(["fairseq-validate", str(text), "--path", str(checkpoint)])
    assert says(fails(capsys, checkpoint, text), f"{text}:", "linformer data task", f"{command} --user-dir")
    shutil.copytree(data / "input0", text / "0")
    assert f"fairseq-validate {shlex.quote(str(text / '0'))} --path " in fails(capsys, checkpoint, text)
    message = fails(capsys, checkpoint, data, "--split", "dev")
    assert "no split 'dev'; it has: test, train, valid" in message
    short = write_checkpoint(data, tmp_path / "short.pt", "--max-positions", "16")
    out = tmp_path / "out.tsv"
    message = fails(capsys, short, data, "--out", out)
    assert re.search(r"\d+ of 30 examples of valid are longer than the 16 positions of the model", message)
    assert "prepare the task with --max-positions 16" in message and not out.exists()
    assert "--device nonsense: " in fails(capsys, checkpoint, data, "--device", "nonsense")
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert f"{blocked}" in fails(capsys, checkpoint, data, "--out", blocked / "x.tsv")


def test_a_full_disk_names_the_file_that_was_not_written(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.tsv"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        status = cli.main(["evaluate", str(checkpoint), str(data), "--out", str(out)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert status == 1
    assert capsys.readouterr().err == f"linformer evaluate: error: {out}: File too large\n"
    assert list(tmp_path.iterdir()) == []


def test_a_checkpoint_that_cuts_by_itself_is_evaluated(data: Path, tmp_path: Path) -> None:
    short = write_checkpoint(data, tmp_path / "short.pt", "--max-positions", "16", "--shorten-method", "truncate")
    assert cli.main(["evaluate", str(short), str(data)]) == 0


def test_scores() -> None:
    predicted, targets = np.array([1, 1, 0, 0, 1]), np.array([1, 0, 0, 1, 0])
    assert f1(predicted, targets, 1) == pytest.approx(100 * 2 * (1 / 3) * (1 / 2) / (1 / 3 + 1 / 2))
    assert f1(np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64), 1) == 0
    assert majority(targets) == (0, 60)


@pytest.mark.slow
@pytest.mark.parametrize("program", ["fairseq-train", "fairseq-hydra-train"])
def test_the_score_is_that_of_fairseqs_own_validation(
    data: Path,
    finetuning_settings: dict[str, Any],
    train: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    program: str,
) -> None:
    settings = {
        **finetuning_settings,
        "common.log_format": "json",
        "task.data": str(data),
        "task.num_classes": 2,
        "task.separator_token": 2,
        "task.max_positions": 512,
        "criterion.report_acc_and_f1": True,
        "dataset.batch_size": 4,
        "dataset.required_batch_size_multiple": 1,
        "optimization.lr": [0.01],
        "optimization.max_update": 20,
    }
    output = train(program, settings, tmp_path)
    logged = json.loads([line[line.index("{") :] for line in output.splitlines() if '"valid_accuracy"' in line][-1])
    assert cli.main(["evaluate", str(tmp_path / "checkpoint_last.pt"), str(data)]) == 0
    said = capsys.readouterr().out
    accuracy, score = (float(found) for found in re.findall(r"^(?:accuracy|F1 of 1) ([\d.]+) %", said, re.MULTILINE))
    assert accuracy == pytest.approx(float(logged["valid_accuracy"]), abs=0.06), "fairseq rounds to one digit"
    assert score == pytest.approx(float(logged["valid_f1"]), abs=0.06)

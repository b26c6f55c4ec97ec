"""`linformer predict`: classes of texts in a file, what cannot be read, and what does not go together."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq import cli
from linformer_fairseq.checkpoints.released_folder import known_inputs, training_data
from linformer_fairseq.files.task_inputs import TaskInputs, read_inputs
from linformer_fairseq.models import LinformerRobertaModel
from tests.conftest import REPOSITORY
from tests.data_prep.small_tokenizers import lines as some_lines
from tests.messages import says
from tests.models import make_classifier, write_checkpoint
from tests.results.examples import record

N = 256
TEXTS = some_lines(50)

Predict = Callable[..., list[list[str]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """task: prepared pairs; checkpoint.pt: a classifier; model: what is released of it."""
    return make_classifier(tmp_path_factory.mktemp("predict"), N).parent


@pytest.fixture
def predict(folder: Path, tmp_path: Path) -> Predict:
    """Runs the command; returns the rows of its table without the header."""

    def run(*words: object, status: int = 0, checkpoint: str = "model") -> list[list[str]]:
        out = tmp_path / "out.tsv"
        words = ("predict", folder / checkpoint, *words, "--device", "cpu", "--out", out)
        assert cli.main(list(map(str, words))) == status
        header, *rows = out.read_text().splitlines()
        assert header.split("\t")[:3] == ["id", "label", "probability"]
        return [row.split("\t") for row in rows]

    return run


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"{line}\n" for line in TEXTS))
    return path


def test_predictions_are_those_of_evaluate(folder: Path, tmp_path: Path, predict: Predict) -> None:
    """GLUE's file of the same pairs that `evaluate` reads in fairseq's format."""
    found = predict(folder / "QQP" / "dev.tsv", "--field", "question1", "--field", "question2")
    expected = tmp_path / "expected.tsv"
    words = ["evaluate", str(folder / "model"), str(folder / "task"), "--device", "cpu", "--out", str(expected)]
    assert cli.main(words) == 0
    rows = [line.split("\t") for line in expected.read_text().splitlines()[1:]]
    assert [row[1] for row in found] == [row[1] for row in rows]
    assert [float(row[2]) for row in found] == pytest.approx([float(row[3]) for row in rows], abs=1e-4)
    assert [row[0] for row in found] == [str(number) for number in range(2, 32)], "numbers of the lines"


def test_neither_batches_nor_the_kind_of_checkpoint_change_anything(
    lines: Path, folder: Path, predict: Predict
) -> None:
    expected = predict(lines)
    assert [row[0] for row in expected] == [str(number) for number in range(1, 51)]
    assert {row[1] for row in expected} == {"0", "1"}, "this model would show nothing"
    runs = [
        (1e-5, predict(lines, "--batch-tokens", "1")),
        (1e-5, predict(lines, "--batch-tokens", "100")),
        (0.01, predict(lines, checkpoint="checkpoint.pt")),  # a released model has half precision
        (0.01, predict(lines, "--data", folder / "task", checkpoint="checkpoint.pt")),
    ]
    for tolerance, found in runs:
        assert [row[:2] for row in found] == [row[:2] for row in expected]
        assert [float(row[2]) for row in found] == pytest.approx([float(row[2]) for row in expected], abs=tolerance)


def test_scores_and_json_lines(lines: Path, folder: Path, predict: Predict, capsys: pytest.CaptureFixture[str]) -> None:
    table = predict(lines, "--scores")
    for _, label, probability, *scores in table:
        assert float(scores[int(label)]) == float(probability) == max(map(float, scores))
        assert sum(map(float, scores)) == pytest.approx(1, abs=1e-5)
    assert cli.main(["predict", str(folder / "model"), str(lines), "--device", "cpu", "--jsonl"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [[one["id"], one["label"], f"{one['probability']:.6f}"] for one in found] == [row[:3] for row in table]
    assert all(f"{one['scores']['1']:.6f}" == row[4] for one, row in zip(found, table, strict=True))


def test_a_bad_line_is_reported_and_the_others_are_classified(
    tmp_path: Path, lines: Path, folder: Path, predict: Predict, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.txt"
    content = lines.read_bytes().splitlines()
    bad.write_bytes(b"\n".join([*content[:2], b"\xff", b"", *content[2:]]))
    found = predict(bad, status=1)
    assert [row[1:] for row in found if row[1]] == [row[1:] for row in predict(lines)]
    assert found[2:4] == [["3", "", ""], ["4", "", ""]]
    said = capsys.readouterr().err
    assert says(said, f"{bad}, line 3: ", "0xff") and says(said, f"{bad}, line 4: no text")
    assert says(said, "2 of 52 texts")
    assert cli.main(["predict", str(folder / "model"), str(bad), "--device", "cpu", "--jsonl"]) == 1
    third = json.loads(capsys.readouterr().out.splitlines()[2])
    assert third["id"] == "3" and "0xff" in third["error"]


def test_pairs_that_nobody_asked_for_are_said(
    tmp_path: Path, predict: Predict, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.tsv"
    path.write_text("number\ttext\n1\ta text\n")
    predict(path)
    assert says(capsys.readouterr().err, "2 of 2 lines have two columns", "pairs", "--field")
    for words in (("--field", "text"), ("--field", "number", "--field", "text")):
        predict(path, *words)
        assert "--field" not in capsys.readouterr().err


def test_inputs_unlike_those_of_the_training_are_said(
    folder: Path, tmp_path: Path, predict: Predict, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.tsv"
    path.write_text("a text\nanother\nfirst\tsecond\n\n")
    predict(path, status=1)  # the folder's task has pairs
    assert says(capsys.readouterr().err, "2 of 4 texts", "single texts", "finetuned on pairs")
    model = tmp_path / "model"
    shutil.copytree(folder / "model", model)
    for task, said in (("sst2", "1 of 4 texts are pairs"), ("tsv", "")):
        (model / "manifest.json").write_text(json.dumps({"task": task}))
        predict(path, checkpoint=str(model), status=1)
        err = capsys.readouterr().err
        assert said in err and ("finetuned on" in err) == bool(said)


def test_a_document_is_not_written_into_the_folder_that_is_read(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("a text")
    out = tmp_path / "inside" / "classes.tsv"
    assert cli.main(["predict", str(folder / "model"), str(tmp_path), "--out", str(out)]) == 1
    assert says(capsys.readouterr().err, f"--out {out}", "folder of the texts") and not out.parent.exists()
    (tmp_path / "link").symlink_to(".")  # to the folder, which has another name then
    assert cli.main(["predict", str(folder / "model"), str(tmp_path / "link"), "--out", str(out)]) == 1
    assert says(capsys.readouterr().err, f"--out {out}", "folder of the texts") and not out.parent.exists()


def test_a_file_whose_name_is_not_utf8(tmp_path: Path, predict: Predict) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / os.fsdecode(b"n\xff.txt")).write_text("a text")
    assert [row[0] for row in predict(documents)] == [r"n\\xff.txt"]  # backslashes are escaped


def test_long_documents_are_truncated_or_divided_and_it_is_said(
    tmp_path: Path, predict: Predict, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "documents"
    path.mkdir()
    (path / "long.txt").write_text("\n\n".join(TEXTS))
    (path / "short.txt").write_text(TEXTS[0][:50])
    found = {how: predict(path, "--long", how) for how in ("head", "tail", "windows")}
    said = [line for line in capsys.readouterr().err.splitlines() if "tokens" in line]
    for how, line in zip(("truncated (head)", "truncated (tail)", "windows"), said, strict=True):
        assert says(line, "1 of 2 texts", f"more than {N} tokens", how)
    assert len({rows[0][2] for rows in found.values()}) == 3
    assert len({rows[1][2] for rows in found.values()}) == 1
    assert [row[0] for row in found["head"]] == ["long.txt", "short.txt"]


@pytest.mark.parametrize("cut", ["tail", "head+tail"])
def test_long_texts_are_truncated_as_those_of_the_training_were(
    folder: Path, tmp_path: Path, predict: Predict, capsys: pytest.CaptureFixture[str], cut: str
) -> None:
    long = tmp_path / "long.txt"
    long.write_text(" ".join(TEXTS) + "\n")
    task = tmp_path / "task"
    shutil.copytree(folder / "task", task)
    manifest = task / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "options": {"cut": cut}}))
    expected = {
        (name, how): predict(long, "--long", how, checkpoint=name)
        for name in ("model", "checkpoint.pt")
        for how in ("head", cut)
    }
    assert expected["model", "head"] != expected["model", cut]
    assert predict(long) == expected["model", "head"]  # the texts of its task are not truncated
    assert predict(long, "--data", task, checkpoint="checkpoint.pt") == expected["checkpoint.pt", cut]
    released = tmp_path / "released"
    words = ["checkpoint", "release", folder / "checkpoint.pt", "--data", task, "--out", released]
    assert cli.main(list(map(str, words))) == 0
    capsys.readouterr()
    assert predict(long, checkpoint=str(released)) == expected["model", cut]
    assert says(capsys.readouterr().err, f"truncated ({cut})")
    hub = LinformerRobertaModel.from_pretrained(released)
    first, second = (next(iter(hub.classify([" ".join(TEXTS)], long=how))) for how in (None, cut))
    assert first.probability == second.probability
    manifest.write_text('{"task": "qqp", "options": {"cut": "middle"}}')
    assert cli.main(["predict", str(folder / "checkpoint.pt"), str(long), "--data", str(task)]) == 1
    assert says(capsys.readouterr().err, str(manifest), "middle", "head+tail")
    manifest.write_text('{"task": "qqp", "options": []}')
    assert cli.main(["predict", str(folder / "checkpoint.pt"), str(long), "--data", str(task)]) == 1
    assert says(capsys.readouterr().err, str(manifest), "options", "[]")


def test_no_text_is_longer_than_those_of_the_training_were(
    folder: Path, tmp_path: Path, predict: Predict, capsys: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / "long.txt"
    long.write_text(" ".join(TEXTS) + "\n")
    model = tmp_path / "model"
    shutil.copytree(folder / "model", model)
    whole = predict(long, checkpoint=str(model))
    (model / "manifest.json").write_text('{"task": "qqp", "options": {"max_positions": 20, "cut": "head"}}')
    capsys.readouterr()
    assert predict(long, checkpoint=str(model)) != whole
    assert says(capsys.readouterr().err, "more than 20 tokens")
    hub: Any = LinformerRobertaModel.from_pretrained(model)
    assert hub.longest == 20
    tokens = hub.encode(" ".join(TEXTS))
    (found,) = hub.classify([" ".join(TEXTS)])
    expected = hub.eval().predict("sentence_classification_head", torch.cat([tokens[:19], tokens[-1:]]))
    torch.testing.assert_close(torch.from_numpy(found.probabilities), expected[0].detach().exp())


def test_line_breaks_of_imdb_are_blanks_as_in_training(folder: Path, tmp_path: Path, predict: Predict) -> None:
    path = tmp_path / "texts.txt"
    path.write_text("a good film.<br /><br />The end\na good film. The end\n")
    model = tmp_path / "model"
    shutil.copytree(folder / "model", model)
    with_break, without = predict(path, checkpoint=str(model))
    assert with_break[1:] != without[1:]
    (model / "manifest.json").write_text('{"task": "imdb", "options": {}}')
    with_break, same = predict(path, checkpoint=str(model))
    assert with_break[1:] == same[1:] == without[1:]


def test_what_the_run_was_trained_on_counts_not_what_the_task_is_now(folder: Path, tmp_path: Path) -> None:
    recorded = TaskInputs("imdb", 100, "tail")
    assert known_inputs(folder / "checkpoint.pt", folder / "task") == read_inputs(folder / "task") != recorded
    shutil.copyfile(folder / "checkpoint.pt", tmp_path / "checkpoint_best.pt")
    (tmp_path / "run.json").write_text(json.dumps(record(inputs=asdict(recorded))))
    assert known_inputs(tmp_path / "checkpoint_best.pt", folder / "task") == recorded


def test_standard_input_to_standard_output(
    lines: Path, folder: Path, predict: Predict, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.read_bytes())))
    assert cli.main(["predict", str(folder / "model"), "--device", "cpu"]) == 0
    assert [line.split("\t") for line in capsys.readouterr().out.splitlines()[1:]] == predict(lines)


def test_standard_input_is_not_replaced(
    lines: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = lines.read_bytes()
    with lines.open() as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        assert cli.main(["predict", str(folder / "model"), "--out", str(lines), "--device", "cpu"]) == 1
    assert says(capsys.readouterr().err, f"--out {lines}", "this file is read") and lines.read_bytes() == before


@pytest.mark.parametrize("name", ["stdin", "stdout"])
def test_a_stream_that_the_caller_closed_is_named(
    lines: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setattr(sys, name, None)
    assert cli.main(["predict", str(folder / "model"), *([str(lines)] if name == "stdout" else [])]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and says(said, "standard", name.removeprefix("std"), "is closed")


def test_an_encoding_that_lacks_a_character_is_named(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "你.txt").write_text("a text")  # its name is the id
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert cli.main(["predict", str(folder / "model"), str(tmp_path), "--device", "cpu"]) == 1
    assert says(capsys.readouterr().err, "latin-1", r"\u4f60", "--out")


def test_the_checkpoint_is_not_overwritten(lines: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = tmp_path / "model.pt"
    weights.write_bytes(b"weights")
    for given in (weights, tmp_path):  # the file, and the folder
        assert cli.main(["predict", str(given), str(lines), "--out", str(weights)]) == 1
        assert says(capsys.readouterr().err, f"--out {weights}", "this file is read")
        assert weights.read_bytes() == b"weights"


@pytest.mark.parametrize("name", ["sentencepiece.bpe.model", "input0/dict.txt", "label/dict.txt", "manifest.json"])
@pytest.mark.parametrize("checkpoint", ["model", "checkpoint.pt"])
def test_neither_are_dictionaries_tokenizer_and_manifest(
    folder: Path, lines: Path, capsys: pytest.CaptureFixture[str], checkpoint: str, name: str
) -> None:
    model = folder / "model" if checkpoint == "model" else training_data(folder / checkpoint)
    before = (model / name).read_bytes()
    assert cli.main(["predict", str(folder / checkpoint), str(lines), "--out", str(model / name)]) == 1
    assert says(capsys.readouterr().err, f"--out {model / name}", "this file is read")
    assert (model / name).read_bytes() == before


def test_no_texts_are_said(tmp_path: Path, predict: Predict, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "documents").mkdir()
    for name in ("empty.txt", "documents"):
        assert predict(tmp_path / name) == []
        assert capsys.readouterr().err == f"{tmp_path / name}: no texts in it\n"


def test_a_released_model_does_not_look_into_the_current_folder(
    lines: Path, tmp_path: Path, predict: Predict, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has "." in place of the folder of its training data."""
    expected = predict(lines)
    (tmp_path / "label").mkdir()
    (tmp_path / "label" / "dict.txt").write_text("of 1\nanother 1\ntask 1\n")
    monkeypatch.chdir(tmp_path)
    assert predict(lines) == expected


@pytest.mark.parametrize("option", ["--bf16", "--int8"])
def test_less_precision_is_close(lines: Path, predict: Predict, option: str) -> None:
    exact, rounded = predict(lines), predict(lines, option)
    assert rounded != exact
    assert sum(a[1] == b[1] for a, b in zip(exact, rounded, strict=True)) > 40


def test_what_cannot_be_done_is_said(
    lines: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(folder / "model" / "model.safetensors", alone)
    (tmp_path / "texts.csv").write_text("text\n")
    pretrained = write_checkpoint(folder / "tokenizer", tmp_path / "pretrained.pt", task="masked_lm")
    task = ["--data", str(folder / "task")]
    cases = [
        ([folder / "absent", lines], "absent: no such file or folder", "linformer-small"),
        ([folder / "task", lines], "task: a folder without model.safetensors, model.pt, checkpoint_best.pt"),
        ([alone, lines], f"{alone}: no dict.txt", "--data"),
        ([folder / "model", tmp_path / "absent.txt"], "absent.txt: no such file"),
        ([folder / "model", tmp_path / "texts.csv"], "texts.csv: CSV cannot be read"),
        ([folder / "model", lines, "--device", "gpu"], "--device gpu: expected cpu, cuda, or cuda:N"),
        ([folder / "model", lines, "--device", "cuda:99"], "--device cuda:99: cannot be used here"),
        ([pretrained, lines, *task], "pretrained.pt: has no classification head"),
        (["linformer-small", lines], "linformer-small", "no classification head", "finetune", "fill-mask", "embed"),
        ([folder / "model", lines, "--int8", "--bf16"], "--int8: needs --device cpu"),
    ]
    for words, *expected in cases:
        assert cli.main(["predict", *map(str, words)]) == 1
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and says(said, "linformer predict: error:", *expected), said


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(folder: Path, tmp_path: Path) -> None:
    """Peak memory of a process for 2 MB and for 16 MB of text; half of it is in lines of half a MB."""
    peaks = []
    for megabytes in (2, 16):
        path = tmp_path / f"{megabytes}.txt"
        with path.open("w") as stream:
            for _ in range(megabytes):
                stream.write(" ".join(TEXTS * 150)[: 1 << 19] + "\n")
                stream.writelines(f"{line}\n" for line in (TEXTS * 150)[:5000])
        program = (
            "import re, sys; from linformer_fairseq import cli; status = cli.main(sys.argv[1:]); "
            # not getrusage's, which a process inherits
            "peak = re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]; "
            "print(peak, file=sys.stderr); sys.exit(status)"
        )
        words = ["predict", str(folder / "model"), str(path), "--device", "cpu", "--out", str(tmp_path / "out.tsv")]
        done = subprocess.run([sys.executable, "-c", program, *words], cwd=REPOSITORY, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        peaks.append(int(done.stderr.splitlines()[-1]) / 1024)
    assert peaks[1] < peaks[0] + 10, f"MiB: {peaks}"

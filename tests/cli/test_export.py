"""`linformer export` and `linformer import`: from the arguments to a folder that the other commands take."""

from __future__ import annotations

import json
import logging
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch
from safetensors.torch import load_file

from linformer_fairseq import cli
from linformer_fairseq.checkpoints.released_folder import ONNX, PROGRAM
from tests.data_prep.small_tokenizers import make_sentencepiece, text
from tests.messages import says
from tests.models import write_checkpoint
from tests.prepared_task import qqp

N = 256


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """task: prepared pairs; checkpoint.pt: a classifier; hf: exported from it; back: imported from that."""
    folder = tmp_path_factory.mktemp("export")
    task = qqp(folder, make_sentencepiece(folder / "tokenizer"))
    write_checkpoint(task, folder / "run" / "checkpoint.pt", "--max-positions", str(N))
    words = ["export", "hf", str(folder / "run" / "checkpoint.pt"), str(folder / "hf")]  # it names its data
    assert cli.main(words) == 0
    assert cli.main(["import", "hf", str(folder / "hf"), str(folder / "back")]) == 0
    return folder


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that a command says."""
    assert cli.main(list(map(str, words))) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def test_what_is_written_is_printed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "hf"
    assert cli.main(["export", "hf", str(folder / "back"), str(out)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: {path.stat().st_size:,} bytes" for path in sorted(out.iterdir())
    ]
    config = json.loads((out / "config.json").read_text())
    assert (config["max_position_embeddings"], config["id2label"]) == (N, {"0": "0", "1": "1"})
    found, expected = (load_file(path / "model.safetensors") for path in (out, folder / "hf"))
    assert found.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in found.items())


def test_an_imported_classifier_predicts_and_embeds(folder: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(text(30))
    outs = []
    for name, checkpoint in (("before", folder / "run" / "checkpoint.pt"), ("after", folder / "back")):
        outs.append(tmp_path / f"{name}.tsv")
        words = ["predict", str(checkpoint), str(texts), "--device", "cpu", "--out", str(outs[-1])]
        assert cli.main(words) == int("\n\n" in texts.read_text())
    assert outs[0].read_text() == outs[1].read_text() != ""
    words = ["evaluate", str(folder / "back"), str(folder / "task"), "--device", "cpu"]
    assert cli.main(words) == 0


def test_a_folder_of_transformers_is_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, texts = tmp_path / "out", tmp_path / "texts.txt"
    texts.write_text("a text\n")
    for words in (
        ["export", "hf", folder / "hf", out],
        ["predict", folder / "hf", texts],
        ["evaluate", folder / "hf", folder / "task"],
    ):
        expected = (f"linformer {words[0]}: error: {folder / 'hf'}", "transformers", "import hf", "linformer convert")
        assert says(refusal(capsys, *words), *expected)
    weights = folder / "hf" / "model.safetensors"
    assert says(refusal(capsys, "export", "hf", weights, out), weights, "'pt'", "import hf")
    assert not out.exists()


def test_commands_to_copy_have_quoted_paths(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = tmp_path / "the model's folder"
    shutil.copytree(folder / "hf", named)
    said = refusal(capsys, "export", "hf", named, tmp_path / "out")
    commands = [shlex.split(command) for command in said.split("`")[1::2]]
    assert commands == [
        ["linformer", "import", "hf", str(named), "OUT"],
        ["linformer", "convert", str(named), "OUT", "--projected-dim", "K"],
    ]


@pytest.mark.parametrize("graph", [ONNX, PROGRAM])
def test_a_graph_is_not_read_back(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], graph: str) -> None:
    shutil.copyfile(folder / "hf" / "config.json", tmp_path / "config.json")
    (tmp_path / graph).touch()
    (tmp_path / "texts.txt").write_text("a text\n")
    for model in (tmp_path, tmp_path / graph):
        said = refusal(capsys, "predict", model, tmp_path / "texts.txt")
        assert says(said, model, "exported graph", graph, "cannot be read back", "give the checkpoint")
        assert "import hf" not in said


def test_errors_leave_nothing(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "out"
    assert says(refusal(capsys, "export", "hf", tmp_path / "absent", out), "absent: no such file or folder")
    assert says(refusal(capsys, "import", "hf", tmp_path, out), f"{tmp_path / 'config.json'}: no such file")
    assert says(refusal(capsys, "import", "hf", folder / "back", out), folder / "back" / "config.json", "no import")
    shutil.copytree(folder / "hf", tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"damaged")
    assert says(refusal(capsys, "import", "hf", tmp_path / "damaged", out), "model.safetensors: damaged")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["damaged"]
    out.mkdir(parents=True)
    for command in ("export", "import"):
        source = folder / ("back" if command == "export" else "hf")
        assert says(refusal(capsys, command, "hf", source, out), f"{out}: already exists")


@pytest.fixture(scope="module")
def graphs(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """program and onnx: exported from back; errors.txt: what was printed apart from the files."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    out = tmp_path_factory.mktemp("graphs")
    with (out / "errors.txt").open("w") as errors:
        for words in (["torch", folder / "back", out / "program"], ["onnx", folder / "back", out / "onnx", "--int8"]):
            command = [sys.executable, "-m", "linformer_fairseq.cli", "export", *map(str, words)]
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=errors, timeout=300, check=True)
    return out


@pytest.mark.slow
def test_graphs(graphs: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    program = torch.export.load(graphs / "program" / PROGRAM).module()
    tokens, mask = torch.tensor([[0, 5, 6, 7, 2], [0, 8, 2, 1, 1]]), torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
    expected = program(tokens, mask)
    assert expected.shape == (2, 2)
    inputs = {"input_ids": tokens.numpy(), "attention_mask": mask.numpy()}
    for name, tolerance in ((ONNX, 1e-4), ("model_int8.onnx", 0.5)):
        session = runtime.InferenceSession(graphs / "onnx" / name)
        (found,) = session.run(None, inputs)
        torch.testing.assert_close(torch.from_numpy(found), expected.detach(), atol=tolerance, rtol=0)
        assert {one.name: one.shape for one in (*session.get_inputs(), *session.get_outputs())} == {
            "input_ids": ["batch", "length"],
            "attention_mask": ["batch", "length"],
            "logits": ["batch", 2],
        }


@pytest.mark.slow
def test_graphs_have_no_path_of_this_machine(folder: Path, graphs: Path) -> None:
    source, libraries = Path(cli.__file__).parents[1], Path(torch.__file__).parent
    paths = [source, libraries, sysconfig.get_path("stdlib"), Path.home(), folder, graphs]
    files = [*(graphs / "program").iterdir(), *(graphs / "onnx").iterdir()]
    assert {ONNX, "model_int8.onnx", PROGRAM} <= {path.name for path in files}
    for file in files:
        content = file.read_bytes()
        assert not [path for path in paths if str(path).encode() in content], file


@pytest.mark.slow
def test_libraries_say_nothing_of_an_export(graphs: Path) -> None:
    assert (graphs / "errors.txt").read_text() == ""


@pytest.mark.slow
def test_libraries_do_not_tell_every_step() -> None:
    """Importing fairseq sets the root logger to DEBUG, and onnxscript then prints thousands of lines."""
    words = ["export", "torch", "no_such_model", "out"]
    code = f"import logging; from linformer_fairseq import cli; cli.main({words}); print(logging.getLogger().level)"
    command = [sys.executable, "-c", f"{code}; import fairseq; print(logging.getLogger().level)"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [str(logging.WARNING)] * 2 and "no_such_model" in done.stderr

"""The models that come with the package: they load by name, know something, and are what the model card says."""

from __future__ import annotations

import re
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import pytest
import torch

from linformer_fairseq import cli
from linformer_fairseq.files.provenance import sha256
from linformer_fairseq.files.shipped import shipped_folder, shipped_models
from linformer_fairseq.models import LinformerHubInterface, LinformerRobertaModel
from tests.conftest import REPOSITORY

PRETRAINED = "linformer-small"
CLASSIFIER = "linformer-small-sst2"


def load(name: str) -> LinformerHubInterface:
    return LinformerRobertaModel.from_pretrained(name).eval()


def test_there_are_two() -> None:
    assert shipped_models() == [PRETRAINED, CLASSIFIER]
    files = [file for name in shipped_models() for file in shipped_folder(name).rglob("*") if file.is_file()]
    assert sum(file.stat().st_size for file in files) < 30e6


@pytest.mark.parametrize(
    ("text", "token"),
    [
        ("He opened the <mask> and walked into the room.", " door"),
        ("The film was directed <mask> John Ford.", " by"),
        ("The book was first <mask> in 1920.", " published"),
    ],
)
def test_it_fills_masks_with_words_that_fit(text: str, token: str) -> None:
    assert load(PRETRAINED).fill_mask(text, topk=1)[0][2] == token


def test_tokens_of_several_types_keep_their_values() -> None:
    short, long = torch.tensor([0, 5, 2], dtype=torch.uint8), torch.tensor([0, 1500, 300, 2])
    assert load(PRETRAINED).batch([short, long])[1].tolist() == long.tolist()


def test_a_copy_is_a_model_of_its_own() -> None:
    model = load(CLASSIFIER)
    text = ["a gorgeous film"]
    (before,) = model.classify(text)
    copy = deepcopy(model)
    assert next(iter(copy.classify(text))).probability == before.probability
    with torch.no_grad():
        for weights in copy.model.parameters():
            weights.zero_()
    assert next(iter(copy.classify(text))).probability == pytest.approx(0.5)
    (after,) = model.classify(text)
    assert after.probability == before.probability


def test_it_tells_good_from_bad(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    texts = ["a gorgeous , witty and moving film", "the plot is a mess", "this movie was terrible ."]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    assert cli.main(["predict", CLASSIFIER, str(tmp_path / "texts.txt")]) == 0
    labels = [line.split("\t")[1] for line in capsys.readouterr().out.splitlines()]
    assert labels == ["label", "1", "0", "0"]


@pytest.mark.slow
def test_a_program_that_imports_the_models_only_loads_the_classifier() -> None:
    """The task that the checkpoint names is registered by another part of the package."""
    lines = [
        "from linformer_fairseq.models import LinformerRobertaModel",
        f"model = LinformerRobertaModel.from_pretrained({CLASSIFIER!r}).eval()",
        "print([found.label for found in model.classify(['a gorgeous , witty and moving film', 'dull'])])",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['1', '0']"


def test_the_model_card_has_the_checksums_of_the_files() -> None:
    weights = shipped_folder(PRETRAINED).parent
    said = dict(re.findall(r"^\| `([^`]+)` \| `([0-9a-f]{64})` \|$", (weights / "README.md").read_text(), re.MULTILINE))
    assert set(said) >= {f"{name}/model.safetensors" for name in (PRETRAINED, CLASSIFIER)}
    assert said == {name: sha256(Path(weights / name)) for name in said}


def test_a_name_stands_for_its_data_too() -> None:
    hub = LinformerRobertaModel.from_pretrained(str(shipped_folder(PRETRAINED)), data_name_or_path=PRETRAINED)
    assert len(hub.task.source_dictionary) == len(load(PRETRAINED).task.source_dictionary)

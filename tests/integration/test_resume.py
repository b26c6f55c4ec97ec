"""Saving and resuming through fairseq's real command lines."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.files import dictionary
from tests.checkpoint_files import same

Train = Callable[..., str]
Settings = dict[str, Any]


def _updates(checkpoint: dict[str, Any]) -> int:
    return int(checkpoint["optimizer_history"][-1]["num_updates"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "programs", [("fairseq-train", "fairseq-hydra-train"), ("fairseq-hydra-train", "fairseq-train")]
)
def test_each_entry_point_resumes_the_others_checkpoint(
    train: Train, tiny_settings: Settings, tmp_path: Path, programs: tuple[str, str]
) -> None:
    for updates, program in enumerate(programs, start=1):
        output = train(program, {**tiny_settings, "optimization.max_update": updates}, tmp_path)
        assert _updates(read_checkpoint(tmp_path / "checkpoint_last.pt")) == updates
    assert f"Loaded checkpoint {tmp_path}/checkpoint_last.pt (epoch 1 @ 1 updates)" in output

    models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(tmp_path / "checkpoint_last.pt")])
    stored = read_checkpoint(tmp_path / "checkpoint_last.pt")["model"]
    loaded = models[0].state_dict()
    assert loaded.keys() == stored.keys()
    assert all(torch.equal(loaded[key], stored[key]) for key in stored)
    assert type(task).__name__ == "MaskedLMTask"


@pytest.mark.slow
def test_runs_with_and_without_a_padded_vocabulary_resume_each_other(
    train: Train, tiny_settings: Settings, tiny_corpus: Path, tmp_path: Path
) -> None:
    """Optimizer state and all: plain, then padded data and model, then plain again."""
    padded = tmp_path / "padded"
    shutil.copytree(tiny_corpus, padded)
    dictionary.pad(padded / "dict.txt")
    kinds = [{}, {"task.data": str(padded), "model.pad_vocabulary": True}, {}]
    for updates, kind in enumerate(kinds, start=1):
        program = ("fairseq-train", "fairseq-hydra-train")[updates % 2]
        output = train(program, {**tiny_settings, **kind, "optimization.max_update": updates}, tmp_path / "run")
        found = read_checkpoint(tmp_path / "run" / "checkpoint_last.pt")
        assert _updates(found) == updates
        assert (f"Loaded checkpoint {tmp_path}/run/checkpoint_last.pt" in output) == (updates > 1)
        assert found["model"]["encoder.sentence_encoder.embed_tokens.weight"].shape[0] == 65
        state = found["last_optimizer_state"]["state"]
        assert {value["exp_avg"].shape[0] for value in state.values() if value["exp_avg"].dim() == 2} >= {65}
        assert 72 not in {value["exp_avg"].shape[0] for value in state.values()}


_SPY = '''
"""A user's own plugin on top of ours: writes down every block that fairseq's task trains on."""
import json, os
import linformer_fairseq.models
from fairseq.tasks.masked_lm import MaskedLMTask

_train_step = MaskedLMTask.train_step

def train_step(self, sample, *args, **kwargs):
    rows = zip(sample["id"].tolist(), sample["net_input"]["src_tokens"].tolist(), sample["target"].tolist())
    with open(os.environ["SEEN"], "a") as file:
        for row in rows:
            file.write(json.dumps(row) + "\\n")
    return _train_step(self, sample, *args, **kwargs)

MaskedLMTask.train_step = train_step
'''


@pytest.fixture
def spy(tmp_path: Path) -> Path:
    folder = tmp_path / "spy_on_masks"
    folder.mkdir()
    (folder / "__init__.py").write_text(_SPY)
    return folder


@pytest.mark.slow
def test_stopped_twice_is_as_if_never_stopped(train: Train, tiny_settings: Settings, tmp_path: Path, spy: Path) -> None:
    settings = {
        **tiny_settings,
        "common.user_dir": str(spy),
        "dataset.num_workers": 2,
        "optimization.max_epoch": 3,
    }
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train("fairseq-hydra-train", settings, whole, environment={"SEEN": str(tmp_path / "whole.jsonl")})
    expected = read_checkpoint(whole / "checkpoint_last.pt")
    per_epoch = _updates(expected) // 3
    assert _updates(expected) == 3 * per_epoch and per_epoch > 4

    # in the middle of epoch 1, in the middle of epoch 2, then to the end
    for stop in (3, per_epoch + 2, 3 * per_epoch):
        settings["optimization.max_update"] = stop
        train("fairseq-hydra-train", settings, parts, environment={"SEEN": str(tmp_path / "parts.jsonl")})
        found = read_checkpoint(parts / "checkpoint_last.pt")
        assert _updates(found) == stop
    for part in ("model", "last_optimizer_state"):
        assert same(found[part], expected[part]), part
    assert not same(found["model"], read_checkpoint(whole / "checkpoint1.pt")["model"])

    seen = [json.loads(line) for line in (tmp_path / "whole.jsonl").read_text().splitlines()]
    assert [json.loads(line) for line in (tmp_path / "parts.jsonl").read_text().splitlines()] == seen
    blocks = len(seen) // 3
    epochs = [{row[0]: row[1:] for row in seen[i * blocks : (i + 1) * blocks]} for i in range(3)]
    assert len(epochs[0]) == blocks > 40
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert epochs[one].keys() == epochs[other].keys()
        assert [block for block in epochs[one] if epochs[one][block] == epochs[other][block]] == []


@pytest.mark.slow
def test_what_the_user_of_a_bad_file_sees(train: Train, tiny_settings: Settings, tmp_path: Path) -> None:
    settings = {**tiny_settings, "optimization.max_update": 1}
    train("fairseq-train", settings, tmp_path)
    path = tmp_path / "checkpoint_last.pt"

    wider = {**settings, "model.encoder_ffn_embed_dim": 96}
    output = train("fairseq-train", wider, tmp_path, status=1)
    error = output[output.rindex("CheckpointError: ") :]
    assert f"{path}: its parameters do not fit the model" in error and "size mismatch" in error

    for damaged in tmp_path.glob("checkpoint*.pt"):  # with a sound one left, the run would go on from that
        damaged.write_bytes(damaged.read_bytes()[:1000])
    for program in ("fairseq-train", "fairseq-hydra-train"):
        output = train(program, settings, tmp_path, status=1)
        error = output.splitlines()[-1]
        assert f"CheckpointError: no valid checkpoint in {tmp_path} to resume from" in error
        assert f"{path}: it is truncated" in error

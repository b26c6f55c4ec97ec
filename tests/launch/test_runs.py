"""`linformer pretrain` and `linformer finetune` on real, tiny data: from one command to a run folder."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch

from linformer_fairseq import cli
from linformer_fairseq.checkpoints.folder import State, examine
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import open_dataset
from linformer_fairseq.files.task_inputs import TaskInputs
from linformer_fairseq.launch import application, config_dir
from tests.forked import Forked

Linformer = Callable[..., str]
Start = Callable[..., Forked]
Words = Callable[[int], Sequence[str]]
NAME = "linformer_base_n32_k8_layerwise_s1"


def record(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "run.json").read_text())
    return found


def attempts(folder: Path) -> list[dict[str, object]]:
    return list(record(folder)["attempts"])  # type: ignore[call-overload]


def weights(file: Path) -> dict[str, torch.Tensor]:
    return dict(torch.load(file, weights_only=False)["model"])


def updates_in(folder: Path) -> int:
    log = folder / "train.log"
    return log.read_text().count('"num_updates"') if log.exists() else 0


def wait_for_updates(process: Forked, folder: Path, updates: int) -> None:
    deadline = time.monotonic() + 300
    while updates_in(folder) < updates:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "it did not train"
        time.sleep(0.02)


def signal_after(process: Forked, folder: Path, updates: int, number: signal.Signals) -> str:
    """Send a signal to the command once it has trained; returns what it printed."""
    wait_for_updates(process, folder, updates)
    process.send_signal(number)
    return process.communicate(timeout=300)[0]


@pytest.mark.slow
def test_a_run_folder_holds_what_a_result_needs(pretrained: Path) -> None:
    run = record(pretrained)
    assert (run["stage"], run["name"], run["seed"], run["max_update"]) == ("pretraining", NAME, 1, 3)
    assert run["parameters"] == sum(
        tensor.numel()
        for name, tensor in weights(pretrained / "checkpoint_last.pt").items()
        if not name.endswith(("signature", "version")) and name != "encoder.lm_head.weight"
    )
    assert "optimization.max_update=3" in run["overrides"]  # type: ignore[operator]
    assert run["versions"]["torch"] and run["commit"]  # type: ignore[index]
    (only,) = attempts(pretrained)
    assert (only["status"], only["updates_at_start"], only["updates_at_end"], only["world_size"]) == (
        "finished",
        0,
        3,
        1,
    )
    assert str(only["start"]) <= str(only["end"]) and only["hardware"]["processor"]  # type: ignore[index]
    config = (pretrained / "config.yaml").read_text()
    assert "max_update: 3" in config and "tokens_per_update: 512" in config
    assert any((pretrained / "tensorboard").rglob("events.out.tfevents.*"))
    assert '"valid_ppl"' in (pretrained / "train.log").read_text()
    assert "done training" in (pretrained / "console.log").read_text()
    # a checkpoint of fairseq's own kind, which fairseq alone can read
    assert "run" not in torch.load(pretrained / "checkpoint_last.pt", weights_only=False)["cfg"]


@pytest.mark.slow
def test_a_finished_run_is_not_trained_again(linformer: Linformer, pretraining: Words, pretrained: Path) -> None:
    before = (pretrained / "checkpoint_last.pt").stat().st_mtime_ns
    output = linformer(*pretraining(3), cwd=pretrained.parents[1])
    assert "already finished, after 3 updates" in output
    assert (pretrained / "checkpoint_last.pt").stat().st_mtime_ns == before and len(attempts(pretrained)) == 1


@pytest.mark.slow
def test_a_finished_run_without_its_checkpoints_is_no_success(
    linformer: Linformer, pretraining: Words, pretrained: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(pretrained, tmp_path / "runs" / NAME))
    for file in folder.glob("checkpoint*.pt"):
        file.unlink()
    output = linformer(*pretraining(3), cwd=tmp_path, status=1)
    assert f"{folder}: " in output and "missing" in output and len(attempts(folder)) == 1


@pytest.mark.slow
def test_another_run_does_not_pass_for_a_finished_one(
    linformer: Linformer, pretraining: Words, pretrained: Path
) -> None:
    output = linformer(*pretraining(3), "optimization.lr=[0.1]", cwd=pretrained.parents[1], status=1)
    assert "holds a run with lr 0.0005, but this one has 0.1" in output and "Traceback" not in output
    assert len(attempts(pretrained)) == 1


@pytest.mark.slow
def test_a_checkpoint_of_another_model_is_refused_where_nothing_is_recorded(
    pretraining: Words, pretrained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written: a record of the other model would then refuse the right one."""
    folder = Path(shutil.copytree(pretrained, tmp_path / "runs" / "here"))
    (folder / "run.json").unlink()
    monkeypatch.chdir(tmp_path)

    def check(*words: str) -> None:
        application.check("pretraining", [*pretraining(5)[1:], "run.name=here", *words], sweep=False)

    check("model.dropout=0.3")
    for words, said in {
        ("model.projected_dim=4",): "model.projected_dim 8, but this run has 4; choose another run.name",
        ("task.tokens_per_sample=64",): "model.max_positions 32, but this run has 64",
    }.items():
        with pytest.raises(UserError, match=re.escape(f"{Path('runs/here/checkpoint_last.pt')} has {said}")):
            check(*words)
    roberta = [word for word in pretraining(5)[1:] if not word.startswith("model.")]
    with pytest.raises(UserError, match="has model._name 'linformer_roberta_tiny', but this run has 'roberta_base'"):
        application.check("pretraining", [*roberta, "run.name=here", "model=roberta_base"], sweep=False)
    assert not (folder / "run.json").exists()
    check("model.projected_dim=4", f"checkpoint.restore_file={pretrained / 'checkpoint_last.pt'}")  # the user's choice
    (folder / "checkpoint_last.pt").write_bytes(b"damaged")  # is passed over, or said, when the run resumes
    check("model.projected_dim=4")


def test_the_folder_of_configs_is_recorded(pretraining: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(config_dir(), "own")
    recorded: list[Sequence[str]] = []
    monkeypatch.setattr(application, "train", lambda config, rank, overrides: recorded.append(overrides))
    words = pretraining(3)[1:]
    for folder in (None, Path("own")):
        assert application.launch("pretraining", words, sweep=False, folder=folder) == 0
    assert recorded == [[*words], ["--config-dir=own", *words]]


@pytest.mark.slow
def test_one_run_at_a_time_in_a_folder(linformer: Linformer, pretraining: Words, tmp_path: Path) -> None:
    from linformer_fairseq.launch.run_folder import RunFolder

    held = RunFolder(tmp_path / "runs" / NAME)
    output = linformer(*pretraining(3), cwd=tmp_path, status=1)
    assert f"runs/{NAME}: another process is writing to this folder (process " in output and "Traceback" not in output
    del held


@pytest.mark.slow
@pytest.mark.parametrize(("number", "processes"), [(signal.SIGUSR1, 1), (signal.SIGTERM, 2)])
def test_a_stopped_run_goes_on_bit_for_bit(
    linformer: Linformer,
    start_linformer: Start,
    pretraining: Words,
    tmp_path: Path,
    number: signal.Signals,
    processes: int,
) -> None:
    """As the run of one process; two of them make its update of two batches by one batch each, without dropout."""
    words = [*pretraining(60), *(["model.dropout=0", "model.attention_dropout=0"] if processes == 2 else [])]
    linformer(*words, "run.runs=whole", cwd=tmp_path)
    folder = tmp_path / "stopped" / NAME
    words += [f"distributed_training.distributed_world_size={processes}", "run.runs=stopped"]
    output = signal_after(process := start_linformer(*words, cwd=tmp_path), folder, 5, number)
    assert process.returncode == 85, output[-3000:]
    assert "stopped after update" in output and "the same command resumes from it" in output
    assert attempts(folder)[-1]["status"] == "stopped"
    done = attempts(folder)[-1]["updates_at_end"]
    assert isinstance(done, int) and 5 <= done < 60
    assert not list(folder.glob("checkpoint_?_*.pt"))  # saved because of the signal, not by the interval

    output = linformer(*words, cwd=tmp_path)
    assert ("2 of 2 processes joined" in output) == (processes == 2)
    assert [(a["status"], a["updates_at_start"]) for a in attempts(folder)] == [("stopped", 0), ("finished", done)]
    assert attempts(folder)[-1]["world_size"] == processes
    ours, theirs = (weights(tmp_path / runs / NAME / "checkpoint_last.pt") for runs in ("stopped", "whole"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[key], theirs[key]) for key in ours)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_is_said_and_the_run_goes_on(
    linformer: Linformer, start_linformer: Start, pretraining: Words, tmp_path: Path, processes: int
) -> None:
    words = [*pretraining(30), f"distributed_training.distributed_world_size={processes}"]
    words += ["run.tokens_per_batch=128", "checkpoint.save_interval_updates=4"]
    folder = tmp_path / "runs" / NAME
    output = signal_after(start_linformer(*words, cwd=tmp_path), folder, 6, signal.SIGINT)
    assert output.endswith("stopped by Ctrl-C; the same command goes on from the last checkpoint, if there is one\n"), (
        output[-2000:]
    )
    assert (attempts(folder)[-1]["status"], attempts(folder)[-1]["error"]) == ("stopped", "Ctrl-C")
    if processes == 2:  # their folder is like that of one
        assert examine(folder / "checkpoint_last.pt").state is State.SOUND
        return
    linformer(*words, cwd=tmp_path)
    assert attempts(folder)[-1]["status"] == "finished" and attempts(folder)[-1]["updates_at_start"]


@pytest.mark.slow
def test_a_signal_before_the_first_update(start_linformer: Start, pretraining: Words, tmp_path: Path) -> None:
    words = [*pretraining(5), "run.join_timeout=600"]
    folder = tmp_path / "runs" / NAME
    process = start_linformer(*words, cwd=tmp_path)
    deadline = time.monotonic() + 300
    while not (folder / "run.json").exists():  # written before the data and the model are made
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 143, output[-2000:]  # not 85: nothing was saved
    assert "SIGTERM: stopped before update 1" in output
    assert attempts(folder)[-1]["status"] == "stopped"


@pytest.mark.slow
def test_a_sweep_ends_with_the_run_that_was_stopped(start_linformer: Start, pretraining: Words, tmp_path: Path) -> None:
    process = start_linformer(*pretraining(200), "--multirun", "common.seed=1,2", cwd=tmp_path)
    output = signal_after(process, tmp_path / "runs" / NAME, 3, signal.SIGTERM)
    assert process.returncode == 85, output[-2000:]
    assert "==> run 1 of 2" in output and "==> run 2 of 2" not in output
    assert not (tmp_path / "runs" / NAME.replace("_s1", "_s2")).exists()


@pytest.mark.slow
def test_a_signal_to_data_workers_as_well_does_no_harm(
    start_linformer: Start, pretraining: Words, tmp_path: Path
) -> None:
    folder = tmp_path / "runs" / NAME
    process = start_linformer(*pretraining(60), "dataset.num_workers=2", cwd=tmp_path)
    wait_for_updates(process, folder, 3)
    os.killpg(process.pid, signal.SIGTERM)  # as SLURM does
    output = process.communicate(timeout=300)[0]
    assert process.returncode == 85, output[-3000:]
    assert "DataLoader worker" not in output
    assert attempts(folder)[-1]["status"] == "stopped"
    assert examine(folder / "checkpoint_last.pt").state is State.SOUND


@pytest.mark.slow
def test_unequal_batches_do_not_hang_two_processes(linformer: Linformer, pretraining: Words, tmp_path: Path) -> None:
    # 53 blocks in batches of 8: seven, the last one of five rows, so one process has a batch more than the other
    words = ["run.tokens_per_update=null", "optimization.update_freq=[1]"]
    linformer(
        *pretraining(0), *words, "optimization.max_epoch=2", "lr_scheduler.total_num_update=100",
        "distributed_training.distributed_world_size=2", cwd=tmp_path,
    )  # fmt: skip
    assert attempts(tmp_path / "runs" / NAME)[-1]["updates_at_end"] == 8


@pytest.mark.slow
def test_a_sweep_of_finetunings(linformer: Linformer, pretrained: Path, task_data: Path, tmp_path: Path) -> None:
    inputs, data = TaskInputs("sst2", 64, "tail"), tmp_path / "data"
    shutil.copytree(task_data, data)
    inputs.write(data)
    words = [
        *("finetune", "task=sst2", "run_config=cpu", f"task.data={data}", "optimization.max_update=3"),
        *(f"pretrained={pretrained / 'checkpoint_best.pt'}", "lr_scheduler.warmup_updates=1"),
    ]
    output = linformer(*words, "--multirun", "lr=1e-5", "common.seed=1,2", cwd=tmp_path)
    assert re.search("^==> run 2 of 2: .*lr=1e-05 common.seed=2$", output, re.MULTILINE)
    folders = sorted((tmp_path / "runs" / NAME).iterdir())
    assert [folder.name for folder in folders] == [f"sst2_lr1e-05_s{seed}" for seed in (1, 2)]
    for folder in folders:
        run = record(folder)
        assert run["task"] == "sst2" and run["pretrained"] == str(pretrained / "checkpoint_best.pt")
        assert run["inputs"] == asdict(inputs)
        assert attempts(folder)[-1]["status"] == "finished"
        assert (folder / "train.log").read_text().count('"valid_accuracy"') >= 1
    seeds = [weights(folder / "checkpoint_last.pt")["classification_heads.sentence_classification_head.dense.weight"]
             for folder in folders]  # fmt: skip
    assert not torch.equal(seeds[0], seeds[1])


@pytest.mark.slow
def test_soft_labels_are_learned(linformer: Linformer, pretrained: Path, task_data: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(task_data, tmp_path / "data"))
    examples = len(open_dataset(data / "label" / "train").sizes)
    words = [
        *("finetune", "task=sst2", "run_config=cpu", f"task.data={data}", "optimization.max_update=100", "lr=0.01"),
        *(f"pretrained={pretrained / 'checkpoint_best.pt'}", "lr_scheduler.warmup_updates=1", "run.name=soft"),
        *("criterion._name=soft_sentence_prediction", "criterion.label_weight=0"),
    ]
    refused = linformer(*words, cwd=tmp_path, status=1)
    assert "soft_labels/train.npy: no such file" in refused and not (tmp_path / "runs").exists()
    (data / "soft_labels").mkdir()
    np.save(data / "soft_labels" / "train.npy", np.tile(np.float32([0.1, 0.6, 0.3]), (examples, 1)))
    assert "criterion.label_weight=2.0: expected" in linformer(
        *words, "criterion.label_weight=2", cwd=tmp_path, status=1
    )
    assert "train_subset=valid" in linformer(*words, "dataset.train_subset=valid", cwd=tmp_path, status=1)
    linformer(*words, cwd=tmp_path)
    others = linformer(*words, "criterion.label_weight=0.5", cwd=tmp_path, status=1)
    assert "holds a run with label_weight 0.0, but this one has 0.5" in others
    np.save(data / "soft_labels" / "train.npy", np.tile(np.float32([0.1, 0.3, 0.6]), (examples, 1)))
    assert "holds a run with soft_labels '" in linformer(*words, cwd=tmp_path, status=1)
    out = tmp_path / "scores.tsv"
    assert cli.main(["evaluate", str(tmp_path / "runs" / "soft"), str(data), "--scores", "--out", str(out)]) == 0
    for row in out.read_text().splitlines()[1:]:
        np.testing.assert_allclose([float(cell) for cell in row.split("\t")[4:]], [0.1, 0.6, 0.3], atol=0.1)


@pytest.mark.slow
def test_a_finetuning_may_count_its_updates_anew(
    linformer: Linformer, pretrained: Path, task_data: Path, tmp_path: Path
) -> None:
    """What messages advise for a run in another precision, or from a checkpoint without the optimizer's state."""
    words = [
        *("finetune", "task=sst2", "run_config=cpu", f"task.data={task_data}", "run.name=sst2"),
        *(f"pretrained={pretrained / 'checkpoint_best.pt'}", "lr_scheduler.warmup_updates=1"),
        "checkpoint.reset_optimizer=true",
    ]
    for updates in (2, 3):  # from the pretrained model, and then from its own checkpoint
        output = linformer(*words, f"optimization.max_update={updates}", cwd=tmp_path)
        assert ("loading pretrained model from" in output) == (updates == 2)
    made = [(one["updates_at_start"], one["updates_at_end"]) for one in attempts(tmp_path / "runs" / "sst2")]
    assert made == [(0, 2), (0, 3)]
    assert "checkpoint_best.pt" in (tmp_path / "runs" / "sst2" / "config.yaml").read_text()


@pytest.mark.slow
def test_a_finished_finetuning_is_none_of_later_weights(
    linformer: Linformer, pretrained: Path, task_data: Path, tmp_path: Path
) -> None:
    start = tmp_path / "best.pt"
    shutil.copy(pretrained / "checkpoint_best.pt", start)
    words = [
        *("finetune", "task=sst2", "run_config=cpu", f"task.data={task_data}", "run.name=sst2"),
        *(f"pretrained={start}", "lr_scheduler.warmup_updates=1"),
    ]
    linformer(*words, "optimization.max_update=2", cwd=tmp_path)
    before = record(tmp_path / "runs" / "sst2")["pretrained_weights"]
    state = torch.load(start, weights_only=False)
    torch.save(state, start)
    assert "already finished" in linformer(*words, "optimization.max_update=2", cwd=tmp_path), "the same weights"
    state["model"]["encoder.sentence_encoder.embed_tokens.weight"][5] += 1
    torch.save(state, start)
    for option in ((), ("--dry-run",)):
        output = linformer(*words, "optimization.max_update=2", *option, cwd=tmp_path, status=1)
        assert f"sst2 holds a finished run that started from {start} when it had other weights" in output
    run_json = tmp_path / "runs" / "sst2" / "run.json"
    killed = json.loads(run_json.read_text())
    killed["attempts"][0].update(status="running", updates_at_end=None, end=None)
    run_json.write_text(json.dumps(killed))
    linformer(*words, "optimization.max_update=3", cwd=tmp_path)  # from its own checkpoint
    assert attempts(tmp_path / "runs" / "sst2")[-1]["updates_at_start"] == 2
    assert record(tmp_path / "runs" / "sst2")["pretrained_weights"] == before


@pytest.mark.slow
def test_a_requeued_job_goes_on_although_its_command_begins_anew(
    linformer: Linformer, pretraining: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    for updates, restarts in ((3, "0"), (4, "0"), (5, "1")):
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
        linformer(*pretraining(updates), "checkpoint.reset_optimizer=true", cwd=tmp_path)
    made = [(one["updates_at_start"], one["updates_at_end"]) for one in attempts(tmp_path / "runs" / NAME)]
    assert made == [(0, 3), (0, 4), (4, 5)]


@pytest.mark.slow
def test_a_run_without_updates_is_a_failure(linformer: Linformer, pretraining: Words, tmp_path: Path) -> None:
    # fairseq itself ends with status 0 here
    output = linformer(*pretraining(3), "optimization.stop_min_lr=1", cwd=tmp_path, status=1)
    assert "linformer pretrain: error: no update happened" in output and "Traceback" not in output
    assert attempts(tmp_path / "runs" / NAME)[-1]["status"] == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("option", ["restore_file", "continue_once"])
def test_nothing_left_to_do_in_another_runs_checkpoint_is_a_failure(
    option: str, linformer: Linformer, pretraining: Words, pretrained: Path, tmp_path: Path
) -> None:
    start = pretrained / "checkpoint_last.pt"
    words = (*pretraining(1), "lr_scheduler.warmup_updates=0", f"checkpoint.{option}={start}")
    output = linformer(*words, cwd=tmp_path, status=1)
    assert f"no update happened: {start} has 3 updates" in output and "checkpoint.reset_optimizer=true" in output
    assert attempts(tmp_path / "runs" / NAME)[-1]["status"] == "failed"


@pytest.mark.slow
def test_the_failed_runs_of_a_sweep_are_named_with_their_logs(
    pretraining: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(application, "_child", lambda command, environment: (1, 0))
    log = tmp_path / "runs" / NAME / "console.log"  # of the first; the second did not get so far
    log.parent.mkdir(parents=True)
    log.touch()
    assert application.launch("pretraining", [*pretraining(3)[1:], "common.seed=1,2"], sweep=True) == 1
    first, second = capsys.readouterr().err.splitlines()[-2:]
    assert first.startswith("failed: ") and first.endswith(f"common.seed=1 (status 1; see {log})")
    assert second.startswith("failed: ") and second.endswith("common.seed=2 (status 1)")


def test_a_wrong_word_is_said_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["pretrain", "task.data=absent", "run_config=cpu"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("linformer pretrain: error: task.data: ") and "no such folder" in said
    assert not (tmp_path / "runs").exists()
    with pytest.raises(SystemExit, match="2"):
        cli.main(["pretrain", "--speed"])
    assert "unrecognized arguments: --speed" in capsys.readouterr().err


def test_the_options_may_stand_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["pretrain", "task.data=absent", "--multirun", "common.seed=1,2"]) == 1
    said = capsys.readouterr().err
    assert "absent: no such folder" in said and "(in the run with task.data=absent common.seed=1)" in said

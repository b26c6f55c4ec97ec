"""A process finds out its rank, and a wrong number of processes is refused."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig
from torch.distributed import run as torch_run

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import application, compose, train
from linformer_fairseq.launch.processes import ALONE, detect_rank, first_host, torchrun_command

TORCHRUN = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"}
SRUN = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
}


def test_alone() -> None:
    assert detect_rank({}, 1) == ALONE


def test_torchrun() -> None:
    info = detect_rank(TORCHRUN, 4)
    assert info is not None
    assert (info.rank, info.world_size, info.local_rank, info.init_method) == (3, 4, 1, "env://")


def test_srun() -> None:
    info = detect_rank(SRUN, 4)
    assert info is not None
    assert (info.rank, info.world_size, info.local_rank) == (2, 4, 1)
    assert info.init_method == "tcp://gpu07:20017"
    another = detect_rank({**SRUN, "SLURM_JOB_ID": "1234567"}, 4)
    assert another is not None and another.init_method == "tcp://gpu07:30567"
    given = detect_rank({**SRUN, "MASTER_ADDR": "head", "MASTER_PORT": "4000"}, 4)
    assert given is not None and given.init_method == "tcp://head:4000"


def test_a_batch_script_is_not_a_task() -> None:
    batch = {key: value for key, value in SRUN.items() if "STEP" not in key}
    assert detect_rank(batch, 1) == ALONE


def test_the_shell_of_salloc_is_not_a_task() -> None:
    shell = {**SRUN, "SLURM_STEP_ID": "4294967290", "SLURM_STEP_NUM_TASKS": "1"}
    assert detect_rank(shell, 1) == ALONE
    assert detect_rank(shell, 4) is None
    # without a number of tasks, its job has no SLURM_NTASKS, and neither have the steps in it
    step = {key: value for key, value in SRUN.items() if key != "SLURM_NTASKS"}
    assert detect_rank({**step, "SLURM_STEP_NUM_TASKS": "1"}, 1) == ALONE
    info = detect_rank(step, 4)
    assert info is not None and info.world_size == 4


def test_many_are_wanted_and_nothing_started_them() -> None:
    assert detect_rank({}, 2) is None
    # a shell inside `srun --pty`
    assert detect_rank({**SRUN, "SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1"}, 8) is None


@pytest.fixture(scope="module")
def composed() -> DictConfig:
    return compose("pretraining", ["task.data=x", "run_config=gpu"])


@pytest.mark.parametrize(("environment", "own"), [(TORCHRUN, False), (SRUN, True)])
def test_only_slurm_shows_each_process_its_own_gpu(
    composed: DictConfig, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], own: bool
) -> None:
    monkeypatch.setattr(train.torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(train.torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(train, "join", lambda *_: ["a", "b"])
    config = composed.copy()
    rank = detect_rank(environment, 4)
    assert rank is not None and rank.local_rank == 1
    if own:
        assert train._meet(config, rank) == ["a", "b"] and config.distributed_training.device_id == 0
    else:
        with pytest.raises(UserError, match="process 1 of this machine finds 1 GPU;"):
            train._meet(config, rank)


@pytest.mark.parametrize("environment", [TORCHRUN, SRUN])
def test_each_process_has_a_gpu_of_its_own(
    composed: DictConfig, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    monkeypatch.setattr(train.torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(train.torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(train, "join", lambda *_: ["a", "b"])
    config = composed.copy()
    rank = detect_rank(environment, 4)
    assert rank is not None
    train._meet(config, rank)
    assert config.distributed_training.device_id == rank.local_rank == 1


@pytest.mark.parametrize(
    ("environment", "world_size", "message"),
    [
        (TORCHRUN, 1, "torchrun .* started 4 processes, but the config is for 1.*4 copies would train independently"),
        (TORCHRUN, 8, "started 4 processes, but the config is for 8.*would wait for each other"),
        (SRUN, 1, "srun .* started 4 processes, but the config is for 1"),
        ({**SRUN, "SLURM_STEP_NUM_TASKS": "1"}, 4, "srun .* started 1 processes, but the config is for 4"),
    ],
)
def test_another_number_is_refused(environment: dict[str, str], world_size: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        detect_rank(environment, world_size)


@pytest.mark.parametrize(
    ("nodes", "host"),
    [
        ("one", "one"),
        ("a1,a2", "a1"),
        ("gpu[07-09,12],other", "gpu07"),
        ("gpu[3],x", "gpu3"),
        ("127.0.0.[1-2]", "127.0.0.1"),
        ("[01-04]", "01"),
        ("rack[1-2]-node[5]", None),
        ("gpu[1[2]", None),
        ("broken[1-", None),
        ("", None),
    ],
)
def test_the_first_of_slurms_hosts(nodes: str, host: str | None) -> None:
    if host is not None:
        assert first_host(nodes) == host
        return
    with pytest.raises(UserError, match="cannot be read; set MASTER_ADDR=HOST"):
        first_host(nodes)


def test_torchrun_is_started_with_the_same_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    command, environment = torchrun_command(4, ["pretrain", "task.data=x"])
    assert command[1:3] == ["-m", "torch.distributed.run"] and "--nproc-per-node=4" in command
    assert command[-4:] == ["--module", "linformer_fairseq.cli", "pretrain", "task.data=x"]
    assert environment == {"PYTHONSAFEPATH": "1"}
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert torchrun_command(4, [])[1] == {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize("known", [True, False])
def test_torchrun_waits_for_its_processes_to_save_where_it_can(monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    """Releases of torch without the option refuse it."""
    parser = argparse.ArgumentParser()
    if known:
        parser.add_argument("--shutdown-timeout")
    monkeypatch.setattr(torch_run, "get_args_parser", lambda: parser)
    command, _ = torchrun_command(2, [])
    assert [word for word in command if "shutdown" in word] == ["--shutdown-timeout=600"] * known


def _send_when(ready: Path, number: signal.Signals) -> threading.Thread:
    def wait() -> None:
        for _ in range(600):
            if ready.exists():
                break
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


_SLEEPER = """
import signal, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: sys.exit(85))
Path(sys.argv[1]).touch()
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("handler", "seconds", "expected"), [(signal.SIG_DFL, 60, (85, signal.SIGHUP)), (signal.SIG_IGN, 1, (0, 0))]
)
def test_a_closed_terminal_stops_the_run_as_sigterm_does_unless_nohup_has_it_ignored(
    handler: signal.Handlers, seconds: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    """The run has a session of its own, so nobody else tells it."""
    before = signal.signal(signal.SIGHUP, handler)
    try:
        thread = _send_when(tmp_path / "ready", signal.SIGHUP)
        command = [sys.executable, "-c", _SLEEPER, str(tmp_path / "ready"), str(seconds)]
        assert application._child(command, {}) == expected
        thread.join()
        assert signal.getsignal(signal.SIGHUP) == handler
    finally:
        signal.signal(signal.SIGHUP, before)


_TELLING = """
import signal, sys, time
from pathlib import Path
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, frame: sys.exit(number))
Path(sys.argv[1]).touch()
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("number", "torchrun", "arrives"),
    [
        (signal.SIGUSR1, False, signal.SIGUSR1),
        (signal.SIGUSR1, True, signal.SIGTERM),  # torchrun would end without telling its workers
        (signal.SIGUSR2, True, signal.SIGTERM),
        (signal.SIGINT, True, signal.SIGINT),
    ],
)
def test_a_signal_is_forwarded_as_one_that_torchrun_forwards(
    number: signal.Signals, torchrun: bool, arrives: signal.Signals, tmp_path: Path
) -> None:
    thread = _send_when(tmp_path / "ready", number)
    command = [sys.executable, "-c", _TELLING, str(tmp_path / "ready")]
    assert application._child(command, {}, torchrun=torchrun) == (arrives, number)
    thread.join()


def test_a_signal_while_the_run_is_started_is_forwarded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Signalled(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(application.subprocess, "Popen", Signalled)
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        assert application._child(["sleep", "5"], {}) == (128 + signal.SIGTERM, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


_STUBBORN = """
import signal, subprocess, sys, time
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: Path(sys.argv[2]).touch())
worker = subprocess.Popen(["sleep", "600"], start_new_session=True)  # as torchrun starts its workers
Path(sys.argv[1]).write_text(str(worker.pid))
while True:
    time.sleep(0.05)
"""


def test_ctrl_c_after_another_signal_kills_all_processes(tmp_path: Path) -> None:
    started, told = tmp_path / "started", tmp_path / "told"

    def send() -> None:
        for number, path in ((signal.SIGTERM, started), (signal.SIGINT, told)):
            for _ in range(600):
                if path.exists() and (path != started or path.read_text()):
                    break
                time.sleep(0.05)
            os.kill(os.getpid(), number)

    thread = threading.Thread(target=send)
    thread.start()
    command = [sys.executable, "-c", _STUBBORN, str(started), str(told)]
    assert application._child(command, {}, torchrun=True) == (128 + signal.SIGKILL, signal.SIGTERM)
    thread.join()
    stat = Path(f"/proc/{started.read_text()}/stat")
    for _ in range(200):  # a killed process still ends, and nobody may have waited for it yet
        if not stat.exists() or stat.read_text().split()[2] in "ZX":
            return
        time.sleep(0.05)
    raise AssertionError("the worker runs on")


@pytest.mark.slow
def test_modules_in_the_current_folder_do_not_hide_ours(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise SystemExit('the wrong torch')")
    command, environment = torchrun_command(1, ["--version"])
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""A SLURM for all tests here, started at the first that wants it, and a tiny pretraining whose end is known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.slurm.cluster import clean_environment, lacking
from tests.slurm.queue import Queue

UPDATES = 60
NODES = 6


@pytest.fixture(scope="session")
def slurm_conf() -> Iterator[Path]:
    """slurm.conf of a SLURM with six nodes on this machine."""
    if missing := lacking():
        pytest.skip(f"no SLURM on this machine ({', '.join(missing)} missing): apt-get install slurm-wlm munge")
    with subprocess.Popen(
        [sys.executable, "-m", "tests.slurm.cluster", f"--nodes={NODES}"],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for pytest; the cluster ends with its input
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        conf = process.stdout.readline().strip()
        if not conf:
            pytest.fail(process.stderr.read())
        yield Path(conf)
        process.stdin.close()
        process.wait(300)


@pytest.fixture
def unannounced(slurm_conf: Path) -> Iterator[None]:
    """As on many clusters, a job whose nodes another one takes does not get the signal that it asked for: its step gets
    SIGTERM."""
    text = slurm_conf.read_text()

    def configure(found: str) -> None:
        slurm_conf.write_text(found)
        subprocess.run(["scontrol", "reconfigure"], env=clean_environment(slurm_conf), check=True)

    without = text.replace("SlurmctldParameters=preempt_send_user_signal\n", "")
    assert without != text
    configure(without)
    yield
    configure(text)


@pytest.fixture(scope="module")
def user(slurm_conf: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Queue]]:
    """``user()`` is someone in a new folder; all jobs end with the module."""
    queues: list[Queue] = []

    def make() -> Queue:
        queues.append(Queue(slurm_conf, tmp_path_factory.mktemp("user")))
        return queues[-1]

    yield make
    for queue in queues:
        queue.close()
        nodes = ["sinfo", "--noheader", "--partition=main", "--states=idle", "--format=%D"]
        queue.until(lambda: queue.run(*nodes).stdout.strip() == str(NODES), "the nodes did not become free")  # noqa: B023


@pytest.fixture
def queue(user: Callable[[], Queue]) -> Queue:
    """A user for one test."""
    return user()


@pytest.fixture(scope="session")
def keys(fairseq: None, tiny_corpus: Path) -> list[str]:
    """A pretraining of a tiny model on CPU; on two processes an update takes one batch of each, on one two batches."""
    return [
        *("common.cpu=true", "run.precision=fp32", "dataset.num_workers=0", f"task.data={tiny_corpus}"),
        *("model._name=linformer_roberta_tiny", "model.projected_dim=8", "task.tokens_per_sample=32"),
        *("model.dropout=0", "model.attention_dropout=0", "run.tokens_per_batch=256", "run.tokens_per_update=512"),
        *("lr_scheduler.warmup_updates=5", "checkpoint.save_interval_updates=20", "common.log_interval=1"),
        *(f"optimization.max_update={UPDATES}", "run.name=tiny", "run.join_timeout=120"),
    ]


@pytest.fixture(scope="session")
def undisturbed(keys: list[str], run_fairseq: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Last checkpoint of that pretraining in one process, without a SLURM."""
    folder = tmp_path_factory.mktemp("undisturbed")
    run_fairseq("linformer", "pretrain", *keys, "run_config=cpu", cwd=folder)
    return folder / "runs" / "tiny" / "checkpoint_last.pt"

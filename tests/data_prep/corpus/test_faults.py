"""Building a corpus and training a vocabulary, killed, interrupted and out of space."""

import os
import random
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from data_prep import build_corpus, train_sentencepiece
from data_prep.corpus.text_shards import shard_files
from tests.data_prep.documents import make_documents, write
from tests.data_prep.processes import bytes_of, kill_at_random, saved_state, start, wait_for, wait_for_empty_group

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 MB of text."""
    return write(tmp_path_factory.mktemp("source") / "a.txt", make_documents(30_000, seed=4))


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an uninterrupted run in one process makes."""
    out = tmp_path_factory.mktemp("whole") / "text"
    build_corpus.main(["--out", str(out), "--workers", "1", str(source)])
    return bytes_of(out)


@pytest.fixture
def small_saves(tmp_path: Path) -> dict[str, Any]:
    """Makes the programs save their place every 200 kB, in the processes that are started."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.path.insert(0, '.')\n"
        "import data_prep.corpus.run as corpus\ncorpus._BLOCK_CHARACTERS = 50_000\ncorpus._SAVE_CHARACTERS = 200_000\n"
    )
    return {"env": {**os.environ, "PYTHONPATH": str(tmp_path)}}


def test_killed_at_random_and_run_again(
    source: Path, whole: dict[str, bytes], tmp_path: Path, small_saves: dict[str, Any]
) -> None:
    out = tmp_path / "text"

    def begin(number: int) -> "subprocess.Popen[str]":
        return start("build_corpus", "--out", out, "--workers", 1 + number % 3, source, **small_saves)

    kill_at_random(begin, out, 10, 6, 0.05, 0.5)
    process = start("build_corpus", "--out", out, "--workers", 2, source, **small_saves)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert bytes_of(out) == whole


@pytest.mark.parametrize("damage", ["shorter", "missing", "no table"])
def test_work_that_is_not_all_there_is_not_carried_on(
    source: Path,
    whole: dict[str, bytes],
    tmp_path: Path,
    small_saves: dict[str, Any],
    damage: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As after a crash of the machine, when the last writes were lost."""
    out = tmp_path / "text"
    process = start("build_corpus", "--out", out, "--workers", 1, source, **small_saves)
    wait_for(lambda: saved_state(out), process)
    process.kill()
    process.communicate()
    assert saved_state(out)
    train = out / ".unfinished" / "outputs" / "train" / "00000.txt"
    if damage == "shorter":
        os.truncate(train, 1000)
    else:
        (train if damage == "missing" else out / ".unfinished" / "seen.sqlite").unlink()
    build_corpus.main(["--out", str(out), "--workers", "1", str(source)])
    assert "unfinished work is not all there" in capsys.readouterr().out
    assert bytes_of(out) == whole


def test_ctrl_c_is_a_clean_stop(
    source: Path, whole: dict[str, bytes], tmp_path: Path, small_saves: dict[str, Any]
) -> None:
    out = tmp_path / "text"
    process = start("build_corpus", "--out", out, "--workers", 2, source, **small_saves)
    wait_for(lambda: saved_state(out), process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 130, output
    assert output.splitlines()[-1] == "stopped by Ctrl-C" and "Traceback" not in output
    wait_for_empty_group(process.pid)
    assert not (out / "manifest.json").exists()
    build_corpus.main(["--out", str(out), "--workers", "1", str(source)])
    assert bytes_of(out) == whole


def test_no_space_left(source: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "text"

    def little_space() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    process = start("build_corpus", "--out", out, "--workers", 1, source, preexec_fn=little_space)
    output = process.communicate()[0]
    assert process.returncode == 1 and "Traceback" not in output, output
    assert output.splitlines()[-1].startswith("error: ")
    assert not (out / "manifest.json").exists() and not shard_files(out / "train")
    build_corpus.main(["--out", str(out), "--workers", "1", str(source)])
    assert bytes_of(out) == whole


def test_a_vocabulary_that_was_killed_is_trained_again(whole: dict[str, bytes], tmp_path: Path) -> None:
    text = tmp_path / "train.txt"
    text.write_bytes(b"\n".join(whole["train/00000.txt"].split(b"\n")[:8000]))
    options = train_sentencepiece.TrainingOptions(vocab_size=500)
    train_sentencepiece.train([text], tmp_path / "whole", options)
    generator, out, hits, number = random.Random(7), tmp_path / "killed", 0, 0
    while hits < 10:
        assert number < 100, "it ends before it can be killed"
        process = start("train_sentencepiece", "--out", out, "--vocab-size", 500, text)
        wait_for(lambda: (out / ".unfinished").is_dir(), process)
        time.sleep(generator.uniform(0, 0.3))
        process.kill()
        process.communicate()
        number += 1
        if (out / "manifest.json").exists():  # it was quicker: once more from the beginning
            shutil.rmtree(out)
            continue
        hits += 1
    train_sentencepiece.train([text], out, options)
    assert bytes_of(out) == bytes_of(tmp_path / "whole")

"""The folder appears whole or not at all, whatever happens."""

import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from data_prep import prepare_task
from data_prep.support.step import Step
from linformer_fairseq.files.errors import UserError
from tests.data_prep.processes import bytes_of
from tests.messages import says

Prepare = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[3]


def command(tokenizer_folder: Path, source: Path, out: Path) -> list[str]:
    words = ["-m", "data_prep.prepare_task", "sst2", "--from", source, "--tokenizer", tokenizer_folder, "--out", out]
    return [sys.executable, *map(str, words)]


def test_other_files_are_left_alone(prepare: Prepare, sst2: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("x")
    with pytest.raises(UserError, match="this folder holds other files"):
        prepare("sst2", sst2, out=out)
    (out / "thesis.tex").unlink()
    prepare("sst2", sst2, out=out)
    (out / "input0" / "notes.txt").write_text("x")
    with pytest.raises(UserError, match="input0/notes.txt"):
        prepare("sst2", sst2, out=out)
    with pytest.raises(NotADirectoryError, match="is a file"):
        prepare("sst2", sst2, out=out / "manifest.json")
    assert (out / "input0" / "notes.txt").read_text() == "x"


def test_the_same_task_is_replaced_and_another_is_not(
    prepare: Prepare, glue: Callable[..., Path], sst2: Path, tmp_path: Path
) -> None:
    folder = prepare("sst2", sst2)
    first = bytes_of(folder)
    prepare("sst2", sst2)
    assert bytes_of(folder) == first, "equal input, equal bytes"
    glue("SST-2", dev="sentence\tlabel\nwhy\t0\n")
    prepare("sst2", sst2, options=("--max-positions", 5))
    second = bytes_of(folder)
    assert second != first
    rows = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t1\t2\tgood\tbad\t0\n"
    with pytest.raises(UserError, match="holds finished data of other inputs or options"):
        prepare("qqp", glue("QQP", train=rows, dev=rows))
    glue("SST-2", dev="broken\n")
    with pytest.raises(UserError, match="wrong header"):
        prepare("sst2", sst2)
    assert bytes_of(folder) == second, "a failed run leaves the earlier result"
    assert {path.name for path in tmp_path.iterdir()} == {"glue", "task"}


def test_what_a_killed_run_left_is_replaced(prepare: Prepare, sst2: Path, tmp_path: Path) -> None:
    expected = bytes_of(prepare("sst2", sst2))
    part = tmp_path / "task" / ".unfinished" / "outputs" / "input0"
    part.mkdir(parents=True)
    (part / "old.bin").write_text("x")
    assert bytes_of(prepare("sst2", sst2)) == expected


def test_two_runs_at_once(prepare: Prepare, sst2: Path, tmp_path: Path) -> None:
    with (
        Step(tmp_path / "task", {"program": "p"}),
        pytest.raises(UserError, match="another process is writing to this folder"),
    ):
        prepare("sst2", sst2)


def test_an_error_while_writing_leaves_nothing(
    prepare: Prepare, sst2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from data_prep.tasks import prepare as module

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "describe", fail)
    with pytest.raises(KeyboardInterrupt):
        prepare("sst2", sst2)
    assert {path.name for path in tmp_path.iterdir()} == {"glue"}


@pytest.mark.slow
def test_no_space_left(glue: Callable[..., Path], sst2: Path, tokenizer_folder: Path, tmp_path: Path) -> None:
    glue("SST-2", train="sentence\tlabel\n" + "good film\t1\nbad film\t0\n" * 20_000)

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    words = command(tokenizer_folder, sst2, tmp_path / "task")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, preexec_fn=small_disk)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and says(
        done.stderr, "error: ", tmp_path / "task", "File too large", "make room"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"glue"}
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)


def test_interrupt(glue: Callable[..., Path], sst2: Path, tokenizer_folder: Path, tmp_path: Path) -> None:
    words = command(tokenizer_folder, sst2, tmp_path / "task")
    glue("SST-2", dev="sentence\tlabel\n" + "good film\t1\nbad film\t0\n" * 200_000)
    with subprocess.Popen(words, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while process.poll() is None and not _is_reading(process.pid, sst2 / "SST-2" / "dev.tsv"):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert (process.returncode, said) == (130, "stopped by Ctrl-C\n")
    assert {path.name for path in tmp_path.iterdir()} == {"glue"}


def _is_reading(process: int, path: Path) -> bool:
    """Whether the process has the file open."""
    try:
        return any(link.samefile(path) for link in Path(f"/proc/{process}/fd").iterdir())
    except OSError:
        return False


@pytest.mark.slow
def test_killed_at_five_moments_and_run_again(
    glue: Callable[..., Path], sst2: Path, tokenizer_folder: Path, tmp_path: Path
) -> None:
    glue("SST-2", train="sentence\tlabel\n" + "good film of the list\t1\nbad film\t0\n" * 50_000)
    words = command(tokenizer_folder, sst2, tmp_path / "task")
    started = time.monotonic()
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    took = time.monotonic() - started
    expected = bytes_of(tmp_path / "task")
    generator = random.Random(5)
    killed = number = 0
    while killed < 5:
        number += 1
        assert number < 100, "it ends before it can be killed"
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            try:
                process.wait(timeout=generator.uniform(0.4, 1) * took)
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
        finished = {name: data for name, data in bytes_of(tmp_path / "task").items() if name[0] != "."}
        assert finished == expected or "manifest.json" not in finished
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    assert bytes_of(tmp_path / "task") == expected
    assert {path.name for path in tmp_path.iterdir()} == {"glue", "task"}


def test_help_names_every_task(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        prepare_task.main(["--help"])
    assert caught.value.code == 0
    assert "{sst2,qnli,qqp,imdb,tsv}" in capsys.readouterr().out

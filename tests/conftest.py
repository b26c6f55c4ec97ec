"""Fixtures for everybody: a tiny binarised corpus, and console commands as processes."""

import errno
import gc
import importlib.util
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq.files.dictionary import EOS, FIRST
from tests import without_fairseq
from tests.binarised import write_items, write_labels
from tests.browser import PROGRAMS, Browser, find_chromium
from tests.forked import Forked

REPOSITORY = Path(__file__).resolve().parent.parent
_WORDS = 60
_COUNTS = {"train": 120, "valid": 16}


_OF_A_JOB = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_", "SLURM_")
"""Variables of torchrun and SLURM begin with these; with them, a test would be a process of that job."""


def pytest_configure(config: pytest.Config) -> None:
    """Programs that tests start can be interrupted, also where a shell put the tests in the background."""
    if importlib.util.find_spec("fairseq") is None:
        config.pluginmanager.register(without_fairseq)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in filter(lambda name: name.startswith(_OF_A_JOB), list(os.environ)):
        del os.environ[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole programs first, which take minutes: in the end, no process waits for one of them alone."""
    items.sort(key=lambda item: item.path.parent.name not in ("slurm", "scripts", "integration"))


def pytest_collection_finish() -> None:
    """Take what the imports made out of garbage collection, which would go through it again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in ``tmp_path`` that cannot be listed; permissions would not do, for root lists any folder."""
    folder = tmp_path / "not_readable"
    folder.mkdir()

    def refuse(path: str | Path, listed: Callable[..., Any]) -> Any:
        if Path(path).name == folder.name:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", partial(refuse, listed=os.scandir))
    monkeypatch.setattr(os, "listdir", partial(refuse, listed=os.listdir))
    return folder


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as fairseq's masked_lm reads it: 60 words, 120 training sentences of 5 to 20 words."""
    folder = tmp_path_factory.mktemp("tiny_corpus")
    (folder / "dict.txt").write_text("".join(f"word{number} 10\n" for number in range(_WORDS)))
    generator = random.Random(1)
    ids = range(FIRST, FIRST + _WORDS)
    for split, count in _COUNTS.items():
        sentences = [generator.choices(ids[: 10 + i % 50], k=generator.randint(5, 20)) for i in range(count)]
        write_items(folder / split, [[*sentence, EOS] for sentence in sentences])
    return folder


@pytest.fixture(scope="session")
def task_data(tiny_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny corpus as sentences with a class (three, as a dataset) and a number (two, as text) each."""
    folder = tmp_path_factory.mktemp("task")
    shutil.copytree(tiny_corpus, folder / "input0")
    classes = {split: [i % 3 for i in range(count)] for split, count in _COUNTS.items()}
    write_labels(folder, ("one", "two", "three"), classes)
    for split, count in _COUNTS.items():
        numbers = "".join(f"{i / count:.3f} {-i / count:.3f}\n" for i in range(count))
        (folder / "label" / f"{split}.label").write_text(numbers)
    return folder


@pytest.fixture(scope="session")
def tiny_settings(tiny_corpus: Path, user_dir: Path) -> dict[str, Any]:
    """A short masked_lm pretraining on one CPU thread, by Hydra's names; see ``train`` for both entry points."""
    return {
        "common.cpu": True,
        "common.log_format": "simple",
        "common.no_progress_bar": True,
        "common.user_dir": str(user_dir),
        "task._name": "masked_lm",
        "task.data": str(tiny_corpus),
        "task.tokens_per_sample": 32,
        "task.sample_break_mode": "complete",  # rows of different lengths: padding occurs
        "criterion._name": "masked_lm",
        "dataset.batch_size": 8,
        "dataset.num_workers": 0,
        "optimizer._name": "adam",
        "lr_scheduler._name": "polynomial_decay",
        "lr_scheduler.total_num_update": "100",
        "optimization.lr": [0.001],
        "model._name": "linformer_roberta_tiny",
        "model.projected_dim": 8,
    }


@pytest.fixture(scope="session")
def finetuning_settings(tiny_settings: dict[str, Any], task_data: Path) -> dict[str, Any]:
    """The same as a finetuning on the three classes of ``task_data``, by fairseq's sentence_prediction."""
    return {
        **{key: value for key, value in tiny_settings.items() if not key.startswith(("task.", "criterion."))},
        "task._name": "sentence_prediction",
        "task.data": str(task_data),
        "task.num_classes": 3,
        "task.init_token": 0,
        "task.max_positions": 32,
        "criterion._name": "sentence_prediction",
    }


def _as_options(settings: Mapping[str, Any]) -> list[str]:
    """The settings as fairseq-train's command line has them."""
    components = {"model": "arch"}
    words = [str(settings["task.data"])]
    for key, value in settings.items():
        group, name = key.split(".")
        option = components.get(group, group) if name == "_name" else name
        flag = "--" + option.replace("_", "-")
        if key == "task.data" or value is False:
            continue
        if value is True:
            words.append(flag)
        else:
            words += [flag, ",".join(map(str, value)) if isinstance(value, list) else str(value)]
    return words


def _as_config(settings: Mapping[str, Any], folder: Path) -> list[str]:
    """The settings as a config file for fairseq-hydra-train; returns its command line."""
    tree: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        group, name = key.split(".")
        tree.setdefault(group, {})[name] = value
    folder.mkdir(parents=True, exist_ok=True)
    # JSON is YAML; the first line is what fairseq's own configs begin with
    (folder / "run.yaml").write_text("# @package _group_\n" + json.dumps(tree, indent=1))
    return ["--config-dir", str(folder), "--config-name", "run"]


@pytest.fixture(scope="session")
def fairseq() -> None:
    """For tests whose programs need it: they are skipped where it is missing."""
    importlib.import_module("fairseq")


@pytest.fixture(scope="session")
def start_fairseq(fairseq: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Forked]]:
    """``start_fairseq(program, *words, cwd=folder)`` starts fairseq-train, linformer, ... of this environment.

    ``environment`` may have variables for it alone.
    """
    outputs, started = tmp_path_factory.mktemp("outputs"), list[Forked]()

    def start(program: str, *words: object, cwd: Path, environment: Mapping[str, str] | None = None) -> Forked:
        script = Path(sys.executable).parent / program
        output = outputs / str(len(started))
        started.append(Forked(script, [*map(str, words)], cwd, environment or {}, output))
        return started[-1]

    yield start
    for process in started:  # Python would wait for the end of those that a failed test left
        process.kill()


@pytest.fixture(scope="session")
def run_fairseq(start_fairseq: Callable[..., Forked]) -> Callable[..., str]:
    """``run_fairseq(program, *words, cwd=folder, status=0)`` runs it to its end and returns what it printed.

    The test fails with that output if the program ends with another status.
    """

    def run(program: str, *words: object, cwd: Path, status: int = 0, **more: Any) -> str:
        with start_fairseq(program, *words, cwd=cwd, **more) as process:
            output = process.communicate(timeout=600)[0]
        if process.returncode != status:
            pytest.fail(f"{program} ended with {process.returncode}:\n{output[-4000:]}")
        return output

    return run


@pytest.fixture(scope="session")
def train_words() -> Callable[..., list[str]]:
    """``train_words("fairseq-train" or "fairseq-hydra-train", settings, save_dir)``: its command line."""

    def words(program: str, settings: Mapping[str, Any], save_dir: Path) -> list[str]:
        settings = {**settings, "checkpoint.save_dir": str(save_dir)}
        hydra = program == "fairseq-hydra-train"
        return _as_config(settings, save_dir / "config") if hydra else _as_options(settings)

    return words


@pytest.fixture(scope="session")
def train(train_words: Callable[..., list[str]], run_fairseq: Callable[..., str]) -> Callable[..., str]:
    """``train(program, settings, save_dir)`` runs the same training by either entry point."""

    def run(program: str, settings: Mapping[str, Any], save_dir: Path, **more: Any) -> str:
        save_dir.mkdir(parents=True, exist_ok=True)
        return run_fairseq(program, *train_words(program, settings, save_dir), cwd=save_dir, **more)

    return run


@pytest.fixture(scope="session")
def user_dir() -> Path:
    """What --user-dir is given: the package, by its absolute path."""
    return REPOSITORY / "linformer_fairseq"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A headless Chromium; tests that need one are skipped where there is none."""
    program = find_chromium()
    if program is None:
        pytest.skip(f"no Chromium on this machine (looked for {', '.join(PROGRAMS)}): apt-get install chromium")
    with Browser(program, tmp_path_factory.mktemp("profile")) as found:
        yield found

"""Fixtures for everybody: a tiny binarised corpus and fairseq's two command lines as subprocesses."""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
_WORDS = [f"word{i}" for i in range(60)]

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def _binarise(folder: Path, split: str, sentences: Sequence[str]) -> None:
    from fairseq.data import Dictionary, indexed_dataset

    dictionary = Dictionary.load(str(folder / "dict.txt"))
    builder = indexed_dataset.make_builder(str(folder / f"{split}.bin"), impl="mmap", vocab_size=len(dictionary))
    for sentence in sentences:
        builder.add_item(dictionary.encode_line(sentence, add_if_not_exist=False).long())
    builder.finalize(str(folder / f"{split}.idx"))


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as fairseq's masked_lm reads it: 60 words, 120 training sentences of 5 to 20 words."""
    pytest.importorskip("fairseq")
    folder = tmp_path_factory.mktemp("tiny_corpus")
    (folder / "dict.txt").write_text("".join(f"{word} 10\n" for word in _WORDS))
    generator = random.Random(1)
    for split, count in (("train", 120), ("valid", 16)):
        sentences = [
            " ".join(generator.choices(_WORDS[: 10 + i % 50], k=generator.randint(5, 20))) for i in range(count)
        ]
        _binarise(folder, split, sentences)
    return folder


def _environment(threads: int) -> dict[str, str]:
    environment = dict(os.environ)
    # One thread, and no GPU: results are the same bit for bit, and tests do not fight over cores.
    environment |= {"OMP_NUM_THREADS": str(threads), "CUDA_VISIBLE_DEVICES": "", "HYDRA_FULL_ERROR": "1"}
    return environment


@pytest.fixture(scope="session")
def start_fairseq() -> Callable[..., "subprocess.Popen[str]"]:
    """``start_fairseq(program, *arguments)`` starts fairseq-train, fairseq-hydra-train, ... of this venv."""
    pytest.importorskip("fairseq")

    def start(program: str, *arguments: object, cwd: Path, threads: int = 1) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(Path(sys.executable).parent / program), *map(str, arguments)],
            cwd=cwd,
            env=_environment(threads),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    return start


@pytest.fixture(scope="session")
def run_fairseq(start_fairseq: Callable[..., "subprocess.Popen[str]"]) -> Run:
    """``run_fairseq(program, *arguments, cwd=...)`` runs it to its end; fails with its output if it fails."""

    def run(
        program: str, *arguments: object, cwd: Path, threads: int = 1, fails: bool = False
    ) -> "subprocess.CompletedProcess[str]":
        with start_fairseq(program, *arguments, cwd=cwd, threads=threads) as process:
            output = process.communicate()[0]
        if (process.returncode != 0) != fails:
            pytest.fail(f"{program} ended with {process.returncode}:\n{output[-4000:]}")
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    return run


@pytest.fixture(scope="session")
def user_dir() -> Path:
    """What --user-dir is given: the package, by its absolute path."""
    return REPOSITORY / "linformer_fairseq"

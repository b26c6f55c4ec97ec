"""A tokenizer, small GLUE files, and what fairseq reads of the result."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_prep import prepare_task
from data_prep.tokenizers import load_tokenizer
from tests.data_prep.small_tokenizers import make_sentencepiece


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentencepiece model with byte fallback."""
    pytest.importorskip("sentencepiece")
    return make_sentencepiece(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="session")
def encode(tokenizer_folder: Path) -> Callable[[str], list[int]]:
    """Ids of a text, </s> at the end."""
    tokenizer = load_tokenizer(tokenizer_folder)
    return lambda text: [*tokenizer.encode(text).tolist(), 2]


@pytest.fixture
def prepare(tokenizer_folder: Path, tmp_path: Path) -> Callable[..., Path]:
    """``prepare("sst2", path, option...)`` runs the program; the folder that it wrote."""

    def run(task: str, *source: object, options: tuple[object, ...] = (), out: Path | None = None) -> Path:
        folder = out or tmp_path / "task"
        words = [task, "--from", *source, "--tokenizer", tokenizer_folder, "--out", folder, *options]
        prepare_task.main(list(map(str, words)))
        return folder

    return run


@pytest.fixture
def glue(tmp_path: Path) -> Callable[..., Path]:
    """``glue("SST-2", train=..., dev=..., test=...)`` writes the tables; the folder around theirs."""

    def write(name: str, **tables: str | bytes) -> Path:
        folder = tmp_path / "glue" / name
        folder.mkdir(parents=True, exist_ok=True)
        for table, content in tables.items():
            (folder / f"{table}.tsv").write_bytes(content.encode() if isinstance(content, str) else content)
        return folder.parent

    return write


@pytest.fixture
def sst2(glue: Callable[..., Path]) -> Path:
    """A GLUE folder with a small SST-2."""
    return glue(
        "SST-2",
        train='sentence\tlabel\nthe film is good \t1\nwhy "oh why\t0\na bad , bad film \t0\n',
        dev="sentence\tlabel\nnot good\t0\ngood\t1\n",
        test="index\tsentence\n0\twhat a film\n1\tis it\n",
    )


@pytest.fixture
def read_back() -> Callable[..., list[dict[str, Any]]]:
    """``read_back(folder, split, classes)``: what fairseq's sentence_prediction makes of a split, in order."""
    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

    def read(folder: Path, split: str, classes: int = 2) -> list[dict[str, Any]]:
        task = SentencePredictionTask.setup_task(
            SentencePredictionConfig(
                data=str(folder),
                num_classes=classes,
                init_token=0,
                separator_token=2,
                no_shuffle=True,
                regression_target=False,
                seed=1,
            )
        )
        dataset = task.load_dataset(split)
        return [
            {
                "tokens": row["net_input.src_tokens"].tolist(),
                "label": int(row["target"]) if "target" in row else None,
            }
            for row in (dataset[i] for i in range(len(dataset)))
        ]

    return read

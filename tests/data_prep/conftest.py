"""A small text of ours, large enough to train a tiny sentencepiece model on."""

import random
from pathlib import Path

import pytest

_WORDS = [
    *("the", "a", "value", "list", "string", "returns", "raises", "error", "when", "given"),
    *("index", "of", "key", "object", "and", "is", "not", "empty", "file"),
]


@pytest.fixture(scope="session")
def own_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A UTF-8 file of 400 blocks of one to three lines, a few of them twice, with non-Latin letters."""
    generator = random.Random(7)
    blocks = []
    for number in range(400):
        lines = [
            " ".join(generator.choices(_WORDS, k=generator.randint(6, 20))) for _ in range(generator.randint(1, 3))
        ]
        blocks.append(f"Block {number}: naïve Ω " + "\n".join(lines))
    path = tmp_path_factory.mktemp("own text") / "mine.txt"
    path.write_text("\n\n".join([*blocks, *blocks[:20]]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def corpus(own_text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.txt and valid.txt of ``own_text``."""
    from data_prep import build_corpus

    folder = tmp_path_factory.mktemp("corpus")
    build_corpus.main(["--out", str(folder), "--text", str(own_text), "--valid-share", "0.1"])
    return folder


@pytest.fixture(scope="session")
def model(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentencepiece model of ``corpus``, its dict.txt beside it."""
    pytest.importorskip("sentencepiece")
    from data_prep import train_sentencepiece

    folder = tmp_path_factory.mktemp("tokenizer")
    train_sentencepiece.train([corpus / "train.txt"], folder, vocab_size=450)
    return folder / "sentencepiece.bpe.model"

"""scripts/prepare_pretraining.sh: the order of its steps, what is refused before them, and all on a small text."""

import json
import subprocess
from pathlib import Path

import pytest

from data_prep.train_sentencepiece import MAXIMUM_VOCABULARY, MINIMUM_VOCABULARY
from tests.conftest import REPOSITORY
from tests.data_prep.documents import make_documents, write
from tests.data_prep.processes import bytes_of


def run(checkout: Path, *words: object, cwd: str = "/") -> "subprocess.CompletedProcess[str]":
    command = ["bash", str(checkout / "scripts" / "prepare_pretraining.sh"), *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


def test_the_steps_and_what_they_get(checkout: Path) -> None:
    done = run(
        checkout, "--out", "a b", "--vocab-size", 500, "--workers", 3, "--shards", 2, "x.txt,weight=2", "my *.gz"
    )
    assert done.stdout.splitlines() == [
        "-m|data_prep.build_corpus|--out|a b/text|--workers|3|x.txt,weight=2|my *.gz|",
        "-m|data_prep.train_sentencepiece|--out|a b/tokenizer|--vocab-size|500|a b/text|",
        "-m|data_prep.binarize|--tokenizer|a b/tokenizer|--out|a b/bin|--workers|3|--shards|2|a b/text|",
    ]
    assert done.stderr.startswith("$ python -m data_prep.build_corpus --out 'a b/text' --workers 3 ")


def test_gpt2_is_fetched_first_and_the_papers_corpus_is_the_default(checkout: Path) -> None:
    done = run(checkout, "--out", "x", "--tokenizer", "gpt2", "--pad-vocabulary", "--valid-share", 0.02)
    assert done.stdout.splitlines() == [
        "-m|data_prep.gpt2_bpe|--out|x/tokenizer|",
        "-m|data_prep.build_corpus|--out|x/text|--valid-share|0.02|hub:bookcorpus|hub:wikipedia|",
        "-m|data_prep.binarize|--tokenizer|x/tokenizer|--out|x/bin|--pad-vocabulary|x/text|",
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--out DIR is missing"),
        (("--out",), "--out: expected a value"),
        (("--out", "x", "--speed", "1"), "unknown argument: --speed"),
        (("--out", "x", "--tokenizer", "nowhere"), "--tokenizer nowhere: expected sentencepiece, gpt2 or a folder"),
        (("--out", "x", "--vocab-size", "many"), "--vocab-size many: expected a whole number above 0"),
        (("--out", "x", "--vocab-size", MINIMUM_VOCABULARY - 1), "--vocab-size 399: between 400 and 64,000 expected"),
        (("--out", "x", "--vocab-size", MAXIMUM_VOCABULARY + 1), "--vocab-size 64001: between 400 and 64,000 expected"),
        (("--out", "x", "--shards", "0"), "--shards 0: expected a whole number above 0"),
        (("--out", "x", "--tokenizer", "gpt2", "--vocab-size", 500), "--vocab-size: is for --tokenizer sentencepiece"),
    ],
)
def test_what_is_refused_before_anything_is_done(checkout: Path, words: tuple[object, ...], message: str) -> None:
    done = run(checkout, *words)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"error: {message}")


@pytest.mark.slow
def test_from_text_to_binary_data_and_again(tmp_path: Path) -> None:
    pytest.importorskip("fairseq")
    write(tmp_path / "a.txt", make_documents(300))
    words = ("--out", tmp_path / "out", "--vocab-size", 420, "--valid-share", 0.1, tmp_path / "a.txt")
    done = run(REPOSITORY, *words)
    assert done.returncode == 0, done.stderr
    first = bytes_of(tmp_path / "out")
    splits = json.loads(first["bin/manifest.json"])["splits"]
    assert splits["train"]["documents"] + splits["valid"]["documents"] == 300
    done = run(REPOSITORY, *words)
    assert done.returncode == 0 and bytes_of(tmp_path / "out") == first

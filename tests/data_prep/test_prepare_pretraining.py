"""`linformer data pretraining`: the order of its steps, what is refused before them, and all on a small text."""

import json
from pathlib import Path

import pytest

from data_prep import prepare_pretraining
from data_prep.train_sentencepiece import MAXIMUM_VOCABULARY, MINIMUM_VOCABULARY
from linformer_fairseq.files.errors import UserError
from tests.data_prep.documents import make_documents, write
from tests.data_prep.processes import bytes_of
from tests.data_prep.small_tokenizers import make_sentencepiece


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that are called, with their options; none of them runs."""
    words: list[str] = []
    for name in prepare_pretraining._PROGRAMS:
        monkeypatch.setitem(
            prepare_pretraining._PROGRAMS, name, lambda w, _, name=name: words.append(" ".join([name, *w]))
        )
    return words


def test_the_steps_and_what_they_get(called: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--vocab-size", "500", "--workers", "3", "--shards", "2", "x.txt,weight=2"]
    prepare_pretraining.main(["--out", "a b", *words, "my *.gz"])
    assert called == [
        "corpus --out a b/text --workers 3 --valid-share 0.01 --test-share 0.0 --errors strict x.txt,weight=2 my *.gz",
        "vocabulary --out a b/tokenizer --vocab-size 500 a b/text",
        "binarize --tokenizer a b/tokenizer --out a b/bin --workers 3 --shards 2 a b/text",
    ]
    assert capsys.readouterr().err.startswith("$ linformer data corpus --out 'a b/text' --workers 3 ")


def test_no_path_is_taken_for_an_option(called: list[str]) -> None:
    prepare_pretraining.main(["--out=-x", "--workers", "1", "--", "-a.txt,weight=2"])
    assert "corpus --out ./-x/text" in called[0] and called[0].endswith(" ./-a.txt,weight=2")
    assert called[1] == "vocabulary --out ./-x/tokenizer ./-x/text"
    assert called[2].startswith("binarize --tokenizer ./-x/tokenizer --out ./-x/bin ")


def test_gpt2_is_fetched_first_and_the_papers_corpus_is_the_default(called: list[str]) -> None:
    words = "--out x --tokenizer gpt2 --pad-vocabulary --valid-share 0.02 --workers 1"
    prepare_pretraining.main(words.split())
    sources = "hub:bookcorpus hub:wikipedia"
    assert called == [
        "gpt2 --out x/tokenizer",
        f"corpus --out x/text --workers 1 --valid-share 0.02 --test-share 0.0 --errors strict {sources}",
        "binarize --tokenizer x/tokenizer --out x/bin --workers 1 --shards 1 --pad-vocabulary x/text",
    ]


def test_a_tokenizer_that_is_there_is_taken(called: list[str], tmp_path: Path) -> None:
    words = ["--out", "x", "--tokenizer", str(tmp_path), "--workers", "1", "a.txt"]
    with pytest.raises(UserError, match=f"{tmp_path}: no tokenizer"):
        prepare_pretraining.main(words)
    assert called == []
    make_sentencepiece(tmp_path)
    prepare_pretraining.main(words)
    assert [line.split()[0] for line in called] == ["corpus", "binarize"]
    assert f"--tokenizer {tmp_path} " in called[1]


def test_a_folder_with_the_name_of_a_model_is_passed_on_as_that(
    called: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_sentencepiece(tmp_path / "linformer-small")
    prepare_pretraining.main(["--out", "x", "--tokenizer", "./linformer-small", "a.txt"])
    assert "--tokenizer ./linformer-small " in called[1]


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("--tokenizer nowhere", "--tokenizer nowhere"),
        (f"--vocab-size {MINIMUM_VOCABULARY - 1}", "399"),
        (f"--vocab-size {MAXIMUM_VOCABULARY + 1}", "64001"),
        ("--out a:b", "a:b: "),
        ("--shards 0", "--shards 0"),
        ("--shards 1001", "--shards 1001"),
        ("--workers 0", "--workers 0"),
        ("--workers 1001", "--workers 1001"),
        ("--tokenizer gpt2 --vocab-size 500", "--vocab-size"),
    ],
)
def test_what_is_refused_before_anything_is_done(called: list[str], words: str, value: str) -> None:
    with pytest.raises(UserError, match=value):
        prepare_pretraining.main(["--out", "x", *words.split()])
    assert called == []


def test_from_text_to_binary_data_and_again(tmp_path: Path) -> None:
    write(tmp_path / "a.txt", make_documents(300))
    words = ["--out", str(tmp_path / "out"), "--vocab-size", "420", "--valid-share", "0.1", "--workers", "2"]
    prepare_pretraining.main([*words, str(tmp_path / "a.txt")])
    first = bytes_of(tmp_path / "out")
    splits = json.loads(first["bin/manifest.json"])["splits"]
    assert splits["train"]["documents"] + splits["valid"]["documents"] == 300
    prepare_pretraining.main([*words, str(tmp_path / "a.txt")])
    assert bytes_of(tmp_path / "out") == first

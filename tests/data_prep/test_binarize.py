"""Tokenizer and binarising, read back through fairseq's own loaders and tasks."""

from pathlib import Path

import pytest

pytest.importorskip("fairseq")

import numpy as np

from data_prep import binarize, binarize_task, mmap_dataset, train_sentencepiece
from data_prep.errors import DataError
from data_prep.tokenizer import EOS, UNK, Tokenizer


def test_training_again_gives_the_same_bytes(corpus: Path, model: Path, tmp_path: Path) -> None:
    train_sentencepiece.train([corpus / "train.txt"], tmp_path, vocab_size=450)
    for name in (model.name, "dict.txt"):
        assert (tmp_path / name).read_bytes() == (model.parent / name).read_bytes()


def test_ids_are_those_of_fairseqs_dictionary(model: Path) -> None:
    import sentencepiece
    from fairseq.data import Dictionary

    dictionary = Dictionary.load(str(model.parent / "dict.txt"))
    tokenizer = Tokenizer(model)
    assert len(dictionary) == len(tokenizer)
    text = "the value of naïve Ω is not given: 漢字 €"
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(model)).encode(text, out_type=str)
    expected = dictionary.encode_line(" ".join(pieces), add_if_not_exist=False, append_eos=False)
    assert tokenizer.encode(text).tolist() == expected.tolist()
    assert UNK not in expected.tolist()  # rare characters fall back to bytes
    assert "<mask>" not in dictionary.indices


def test_masked_lm_reads_the_folder(corpus: Path, model: Path, tmp_path: Path) -> None:
    import sentencepiece
    from fairseq.data import data_utils
    from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

    files = [corpus / "train.txt", corpus / "valid.txt"]
    binarize.main([*map(str, files), "--model", str(model), "--out", str(tmp_path)])
    assert (tmp_path / model.name).read_bytes() == model.read_bytes()
    task = MaskedLMTask.setup_task(MaskedLMConfig(data=str(tmp_path), tokens_per_sample=64, seed=1))
    processor = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / model.name))
    for path in files:
        dataset = data_utils.load_indexed_dataset(str(tmp_path / path.stem), task.source_dictionary)
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
        assert len(dataset) == len(lines) == len(dataset.sizes)
        for item, size, line in zip(dataset, dataset.sizes, lines, strict=True):
            assert item[-1] == EOS and len(item) == size
            symbols = [task.source_dictionary[i] for i in item[:-1].tolist()]
            assert processor.decode(symbols) == line.replace("  ", " ")
    task.load_dataset("valid")
    assert all(len(row["net_input.src_tokens"]) <= 64 for row in task.dataset("valid"))


def test_sentence_prediction_reads_the_folder(model: Path, tmp_path: Path) -> None:
    from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

    train = [("b", "the value"), ("a", "an object is given"), ("b", "the file is empty")]
    valid = [("a", "the index of the list")]
    for name, rows in (("train", train), ("valid", valid)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    out = tmp_path / "bin"
    binarize_task.main(
        [str(tmp_path / "train.tsv"), str(tmp_path / "valid.tsv"), "--model", str(model), "--out", str(out)]
    )
    assert (out / "label" / "dict.txt").read_text() == "a 1\nb 2\n"
    for folder in (out, out / "input0"):
        assert (folder / model.name).read_bytes() == model.read_bytes()
    task = SentencePredictionTask.setup_task(
        SentencePredictionConfig(
            data=str(out), num_classes=2, init_token=0, no_shuffle=True, regression_target=False, seed=1
        )
    )
    tokenizer = Tokenizer(model)
    for name, rows in (("train", train), ("valid", valid)):
        dataset = task.load_dataset(name)
        assert len(dataset) == len(rows)
        for row, (label, text) in zip(dataset, rows, strict=True):
            assert row["target"].tolist() == ["ab".index(label)]
            assert row["net_input.src_tokens"].tolist() == [0, *tokenizer.encode(text).tolist(), EOS]


@pytest.mark.parametrize(("vocabulary", "dtype"), [(60_000, np.uint16), (70_000, np.int32)])
def test_element_type_holds_the_ids(tmp_path: Path, vocabulary: int, dtype: type) -> None:
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    items = [np.array([vocabulary - 1, 4, EOS]), np.array([EOS])]
    assert mmap_dataset.write(tmp_path / "x", items, vocabulary) == (2, 4)
    dataset = MMapIndexedDataset(str(tmp_path / "x"))
    assert [dataset[i].tolist() for i in range(2)] == [[vocabulary - 1, 4, EOS], [EOS]]
    assert dataset._index.dtype == dtype


def test_an_interrupted_write_leaves_no_files(tmp_path: Path) -> None:
    def items():  # type: ignore[no-untyped-def]
        yield np.array([4, EOS])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mmap_dataset.write(tmp_path / "x", items(), 100)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("train", "valid", "expected"),
    [
        ("a\tx\nb y\n", "a\tz\n", "train.tsv, line 2: expected a label, one tab and a text, found 'b y'"),
        ("a\tx\tb\n", "a\tz\n", "train.tsv, line 1: expected"),
        ("a\t \n", "a\tz\n", "train.tsv, line 1: expected"),
        ("a\tx\nb\ty\n", "a\tw\nc\tz\n", "valid.tsv, line 2: label 'c' is not in"),
        ("a\tx\nb\ty\n", "a\tz\nb\tx\n", "valid.tsv, line 2: this text is also in"),
    ],
)
def test_bad_rows_are_refused(model: Path, tmp_path: Path, train: str, valid: str, expected: str) -> None:
    files = [tmp_path / "train.tsv", tmp_path / "valid.tsv"]
    for path, content in zip(files, (train, valid), strict=True):
        path.write_text(content)
    with pytest.raises(DataError) as caught:
        binarize_task.binarize_task(files, model, tmp_path / "bin")
    assert expected in str(caught.value)


def test_bad_models_and_options_are_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        Tokenizer(tmp_path / "absent.model")
    (tmp_path / "junk.model").write_bytes(b"junk")
    with pytest.raises(DataError, match="not a sentencepiece model"):
        Tokenizer(tmp_path / "junk.model")
    with pytest.raises(DataError, match="--vocab-size 10"):
        train_sentencepiece.train([corpus / "train.txt"], tmp_path, vocab_size=10)
    with pytest.raises(DataError, match="not distinct"):
        binarize.binarize([corpus / "train.txt", tmp_path / "train.txt"], tmp_path / "junk.model", tmp_path)


def test_long_texts_keep_their_beginning_and_are_counted(model: Path, tmp_path: Path) -> None:
    from fairseq.data import Dictionary, data_utils

    texts = ["the value of the list is returned", "the value"]
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"a\t{text}\n" for text in texts))
    whole = [Tokenizer(model).encode(text).tolist() for text in texts]
    limit = len(whole[1]) + 1
    counts = binarize_task.binarize_task([path], model, tmp_path / "bin", max_tokens=limit)
    assert counts == {"train": binarize_task.Count(examples=2, cut=1)}
    stored = data_utils.load_indexed_dataset(str(tmp_path / "bin" / "input0" / "train"), Dictionary())
    assert [item.tolist() for item in stored] == [[*whole[0][: limit - 1], EOS], [*whole[1], EOS]]
    with pytest.raises(DataError, match="--max-tokens is 1: expected at least 2"):
        binarize_task.binarize_task([path], model, tmp_path / "bin", max_tokens=1)

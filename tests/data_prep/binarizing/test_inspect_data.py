"""`linformer data inspect` on whole and on damaged data."""

import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from data_prep.binarize import binarize
from data_prep.binarizing import data_folder
from data_prep.tokenizers import load_tokenizer
from linformer_fairseq import cli
from linformer_fairseq.files import mmap_check, mmap_dataset
from linformer_fairseq.files.dictionary import EOS
from tests.data_prep.small_tokenizers import make_gpt2, make_sentencepiece, text

pytestmark = pytest.mark.usefixtures("fairseq")  # where it is missing, the program does without its tokenizers


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_gpt2(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def data(tokenizer: Path, tmp_path: Path) -> Path:
    """A folder with 11 documents for training and two for validation."""
    (tmp_path / "train.txt").write_text("the value is a list\n\n" + text(10), encoding="utf-8")
    (tmp_path / "valid.txt").write_text(text(2, seed=2), encoding="utf-8")
    binarize([tmp_path / "train.txt", tmp_path / "valid.txt"], tokenizer, tmp_path / "bin", workers=1)
    return tmp_path / "bin"


def inspect(*words: object) -> int:
    try:
        return cli.main(["data", "inspect", *map(str, words)])
    except SystemExit as stop:
        return int(stop.code or 0)


def test_counts_lengths_and_samples(data: Path, tokenizer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (data.parent / "train.txt").read_text(encoding="utf-8").splitlines()
    ids = [len(load_tokenizer(tokenizer).encode(line)) for line in lines]
    assert inspect(data, "--samples", 3) == 0
    out = capsys.readouterr().out
    assert f"train  11 documents, {len(lines):,} items, {sum(ids) + len(ids):,} tokens, vocabulary 273, uint16\n" in out
    assert "train, item 0: the value is a list\n" in out
    samples = [line.partition(": ")[2] for line in out.splitlines() if line.startswith("  train, item ")]
    assert len(samples) == 3 and all(sample in lines for sample in samples)
    bars = {line.split()[0]: int(line.split()[-1]) for line in out.splitlines() if "#" in line}
    assert bars["0"] == 10 and bars["64-127"] == sum(64 <= count <= 127 for count in ids)
    assert sum(bars.values()) == len(lines)
    assert "every .idx fits its .bin" in out
    assert inspect(data, "--samples", 10 * len(lines)) == 0  # all that there are
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  train, item ")]
    assert len(shown) == len(list(filter(None, lines)))


def test_bytes_are_shown_as_characters(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = make_sentencepiece(tmp_path / "tokenizer")
    (tmp_path / "train.txt").write_text("the value is ☃\n", encoding="utf-8")
    binarize([tmp_path / "train.txt"], tokenizer, tmp_path / "bin", workers=1)
    assert inspect(tmp_path / "bin", "--samples", 1) == 0
    assert "train, item 0: the value is ☃\n" in capsys.readouterr().out


def test_another_split(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(data, "--split", "valid", "--samples", 1) == 0
    assert "valid, item 0: " in capsys.readouterr().out
    assert inspect(data, "--split", "test") == 1
    assert "no split 'test' (--split); there are: train, valid" in capsys.readouterr().err


def test_without_a_split_called_train_the_first_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = make_sentencepiece(tmp_path / "tokenizer")
    (tmp_path / "book.txt").write_text("the value is\n")
    binarize([tmp_path / "book.txt"], tokenizer, tmp_path / "bin", workers=1)
    assert inspect(tmp_path / "bin", "--samples", 1) == 0
    assert "book, item 0: the value is\n" in capsys.readouterr().out


def test_shards_are_one_and_shared_files_are_read_once(
    data: Path, tokenizer: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "shards"
    binarize([data.parent / "train.txt", data.parent / "valid.txt"], tokenizer, out, workers=1, shards=2)
    assert inspect(out) == 0
    printed = capsys.readouterr().out
    assert "0/train  " in printed and "1/train  " in printed
    assert "1/valid  the same file as 0/valid" in printed
    assert printed.count("lengths in train,") == 1


def test_a_task_shows_inputs_with_their_label(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = load_tokenizer(make_sentencepiece(tmp_path / "task"))
    for name in ("input0", "input1"):
        texts = [f"{name} is a list", "the value"]
        ids = (np.append(tokenizer.encode(line), EOS) for line in texts)
        mmap_dataset.write_dataset(tmp_path / "task" / name / "train", ids, len(tokenizer))
        (tmp_path / "task" / name / "dict.txt").write_bytes((tmp_path / "task" / "dict.txt").read_bytes())
    mmap_dataset.write_dataset(tmp_path / "task" / "label" / "train", (np.array([label, EOS]) for label in (5, 4)), 6)
    (tmp_path / "task" / "label" / "dict.txt").write_text("no 1\nyes 1\n")
    assert inspect(tmp_path / "task", "--samples", 1) == 0
    out = capsys.readouterr().out
    for line in ("input0/train, item 0: input0 is a list", "input1/train, item 0: input1 is a list"):
        assert line in out
    assert "label/train, item 0: yes\n" in out
    mmap_dataset.write_dataset(tmp_path / "task" / "label" / "train", [np.array([4, EOS])], 6)
    assert inspect(tmp_path / "task") == 1
    assert "unequal numbers of items: input0/train 2, input1/train 2, label/train 1" in capsys.readouterr().err
    for suffix in (".bin", ".idx"):
        (tmp_path / "task" / "input1" / f"train{suffix}").unlink()
    assert inspect(tmp_path / "task") == 1
    assert f"{tmp_path}/task/input1/train: missing, while there is input0/train" in capsys.readouterr().err


def test_training_examples_without_labels_are_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for prefix in ("input0/train", "input0/valid", "input0/test", "label/valid"):
        mmap_dataset.write_dataset(tmp_path / prefix, [np.array([4, EOS])], 6)
    assert inspect(tmp_path) == 1
    err = capsys.readouterr().err
    assert f"{tmp_path}/label/train: missing" in err and "label/test" not in err


def test_copies_of_the_valid_split_in_shards_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shard in "012":
        for split in ("train", "valid"):
            mmap_dataset.write_dataset(tmp_path / shard / split, [np.array([4, EOS])] * 5, 6)
    for split, count in (("train", "15"), ("valid", "5")):
        assert inspect(tmp_path, "--split", split) == 0
        bars = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if "#" in line]
        assert bars == [count]


def test_a_shard_that_cannot_be_read_is_an_error(
    data: Path, capsys: pytest.CaptureFixture[str], unreadable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable.rename(data / unreadable.name)
    assert inspect(data) == 0, "no shard"
    monkeypatch.setattr(data_folder, "_PART", re.compile(unreadable.name))
    assert inspect(data) == 1
    assert f"{data / unreadable.name}: Permission denied" in capsys.readouterr().err


def test_the_folder_of_the_inputs_itself(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data.rename(data.parent / "input0")
    (data.parent / "input0" / "encoder.json").rename(data.parent / "encoder.json")
    (data.parent / "input0" / "vocab.bpe").rename(data.parent / "vocab.bpe")
    monkeypatch.chdir(data.parent / "input0")
    assert inspect(".") == 0
    assert "train, item 0: the value is a list\n" in capsys.readouterr().out


def test_the_names_of_splits_may_have_dots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """fairseq's for the texts of two languages have some behind the split's."""
    for folder in ("input0", "label"):
        for split, items in (("valid", 2), ("valid.hard", 1)):
            mmap_dataset.write_dataset(tmp_path / "task" / folder / split, [np.array([4, EOS])] * items, 6)
    assert inspect(tmp_path / "task", "--split", "valid.hard") == 0
    out = capsys.readouterr().out
    assert "lengths in input0/valid.hard," in out and "lengths in input0/valid," not in out
    for language in ("de", "en"):
        mmap_dataset.write_dataset(tmp_path / "pairs" / f"valid.hard.de-en.{language}", [np.array([4, EOS])], 6)
    assert inspect(tmp_path / "pairs", "--split", "valid.hard") == 0


def test_data_of_fairseqs_own_making(tiny_corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(tiny_corpus, "--samples", 1) == 0
    out = capsys.readouterr().out
    assert "train  120 items, " in out and "vocabulary 64, uint16" in out
    assert "train, item 0: word" in out  # there is no tokenizer: fairseq's symbols


def _cut(path: Path, count: int = 3) -> None:
    path.write_bytes(path.read_bytes()[:-count])


def _patch(path: Path, offset: int, content: bytes) -> None:
    raw = path.read_bytes()
    path.write_bytes(raw[:offset] + content + raw[offset + len(content) :])


def _swap(data: Path) -> None:
    (data / "train.bin").rename(data / "x")
    (data / "valid.bin").rename(data / "train.bin")
    (data / "x").rename(data / "valid.bin")


def _move_item(data: Path) -> None:
    offset = 26 + 4 * mmap_dataset.open_dataset(data / "train").items + 8 * 3
    _patch(data / "train.idx", offset, struct.pack("<q", 2))


def _move_border(data: Path) -> None:
    """Sizes and offsets agree with each other and with the length of the .bin, but not with its </s>."""
    sizes = mmap_dataset.open_dataset(data / "train").sizes.copy()
    sizes[2] += 1
    sizes[3] -= 1
    mmap_dataset.write_index(data / "train.idx", sizes, np.dtype(np.uint16))


def _make_signed(data: Path) -> None:
    """With an id that is negative then."""
    _patch(data / "train.bin", 2, b"\xfe\xff")
    _patch(data / "train.idx", 17, b"\3")


def _patch_item_1(data: Path) -> None:
    """Its first id."""
    _patch(data / "train.bin", int(mmap_dataset.open_dataset(data / "train").offsets[1]), b"\x11\1")


DAMAGES = {
    "truncated bin": (lambda data: _cut(data / "train.bin"), r"train.bin: [\d,]+ bytes long, while its .idx needs"),
    "truncated idx": (lambda data: _cut(data / "train.idx"), r"train.idx: [\d,]+ bytes long, while its [\d,]+ items"),
    "header alone": (lambda data: (data / "train.idx").write_bytes(b"MMIDIDX\0\0\1"), "train.idx: cut off after 10"),
    "empty idx": (lambda data: (data / "train.idx").write_bytes(b""), "train.idx: not an index of fairseq's mmap"),
    "other format": (lambda data: _patch(data / "train.idx", 0, b"TNTIDX"), "train.idx: not an index of fairseq's"),
    "version": (lambda data: _patch(data / "train.idx", 9, b"\2"), "train.idx: version 2"),
    "type": (lambda data: _patch(data / "train.idx", 17, b"\4"), r"train.idx: item 1 is said to begin at .*int32"),
    "float type": (lambda data: _patch(data / "train.idx", 17, b"\7"), "train.idx: element type 7"),
    "signed type": (_make_signed, "train.bin: id -2 at byte"),
    "swapped": (_swap, "train.bin: .* or of other data"),
    "missing bin": (lambda data: (data / "train.bin").unlink(), "train.bin: missing, while there is a train.idx"),
    "missing idx": (lambda data: (data / "train.idx").unlink(), "train.idx: missing, while there is a train.bin"),
    "offset": (_move_item, "train.idx: item 3 is said to begin at byte 2 of the .bin"),
    "size": (lambda data: _patch(data / "train.idx", 26, b"\0\0\0\0"), "train.idx: item 0 has 0 tokens"),
    "border": (_move_border, r"train.bin: item 2 ends with id \d+, not with </s> \(2\)"),
    "id": (lambda data: _patch(data / "train.bin", 4, b"\x11\1"), r"train.bin: id 273 at byte 4 \(item 0\).* 273 symb"),
    "first id": (_patch_item_1, r"train.bin: id 273 at byte \d+ \(item 1\).* 273 symb"),
    "dictionary": (lambda data: (data / "dict.txt").write_bytes(b"a 1\n"), r"train.bin: id \d+ at .* 5 symbols"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_named(data: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    damage, message = DAMAGES[name]
    damage(data)
    assert inspect(data) == 1
    captured = capsys.readouterr()
    assert re.search(f"^error: [12] of 2 datasets are damaged:\n  {data}/{message}", captured.err)
    assert "DAMAGED" in captured.out and "every .idx fits" not in captured.out


@pytest.mark.parametrize(
    ("kind", "name", "content", "said"),
    [
        ("sentencepiece", "sentencepiece.bpe.model", b"garbage", "damaged, or no tokenizer"),
        ("gpt2", "encoder.json", b'{"a": ', "damaged, or no tokenizer"),
        ("gpt2", "vocab.bpe", b"\xff\xfe", "damaged, or no tokenizer"),
        ("gpt2", "encoder.json", b"{}", "does not fit the dict.txt beside it"),
    ],
)
def test_a_damaged_tokenizer_is_named_after_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, name: str, content: bytes, said: str
) -> None:
    tokenizer = (make_gpt2 if kind == "gpt2" else make_sentencepiece)(tmp_path / "tokenizer")
    data = tmp_path / "bin"
    (tmp_path / "train.txt").write_text(text(3), encoding="utf-8")
    binarize([tmp_path / "train.txt"], tokenizer, data, workers=1)
    (data / name).write_bytes(content)
    assert inspect(data) == 1
    captured = capsys.readouterr()
    assert "train  3 documents" in captured.out and "every .idx fits its .bin" in captured.out
    assert captured.err.startswith("error: no samples: ") and captured.err.count("\n") == 1
    assert str(data / name) in captured.err and said in captured.err
    assert inspect(data, "--samples", 0) == 0
    capsys.readouterr()
    mmap_dataset.write_dataset(data / "valid", [np.array([4, EOS])], 273)
    _cut(data / "valid.bin", 1)
    assert inspect(data) == 1
    captured = capsys.readouterr()
    assert "1 of 2 datasets are damaged" in captured.err and str(data / name) in captured.err


@pytest.mark.parametrize("there", [False, True])
def test_a_tokenizers_library_that_does_not_load_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    """Where it is not installed, samples are symbols."""
    tokenizer = make_sentencepiece(tmp_path / "tokenizer")
    (tmp_path / "train.txt").write_text(text(3), encoding="utf-8")
    binarize([tmp_path / "train.txt"], tokenizer, tmp_path / "bin", workers=1)
    monkeypatch.delitem(sys.modules, "sentencepiece", raising=False)
    if there:
        (tmp_path / "sentencepiece.py").write_text("raise ImportError('libprotobuf.so.99')")
        monkeypatch.syspath_prepend(tmp_path)
    else:
        monkeypatch.setitem(sys.modules, "sentencepiece", None)
    assert inspect(tmp_path / "bin") == there
    captured = capsys.readouterr()
    assert ("\u2581" in captured.out, "libprotobuf.so.99" in captured.err) == (not there, there)


def test_chunks_do_not_matter(data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert inspect(data) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(mmap_check, "_ITEMS", 4)
    monkeypatch.setattr(mmap_check, "_TOKENS", 5)
    assert inspect(data) == 0
    assert capsys.readouterr().out == whole
    _move_border(data)
    assert inspect(data) == 1
    assert "item 2 ends with id" in capsys.readouterr().err


def test_what_is_no_data_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspect(tmp_path / "absent") == 1
    assert "no such folder" in capsys.readouterr().err
    assert inspect(tmp_path) == 1
    assert "no .idx and .bin there or one folder below" in capsys.readouterr().err
    (tmp_path / ".unfinished").mkdir()
    assert inspect(tmp_path) == 1
    assert "its making is unfinished" in capsys.readouterr().err
    assert inspect(tmp_path, "--samples", -1) == 1
    assert "--samples -1" in capsys.readouterr().err

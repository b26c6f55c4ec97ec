"""Training a vocabulary: the sample, the dictionary beside the model, the same bytes again, clear errors."""

import os
import signal
import threading
from pathlib import Path

import pytest

from data_prep import train_sentencepiece
from data_prep.train_sentencepiece import TrainingOptions, sample, train
from linformer_fairseq.files import dictionary, tokenizers
from linformer_fairseq.files.dictionary import EOS, UNK
from linformer_fairseq.files.errors import UserError
from tests.data_prep.documents import make_documents, write
from tests.data_prep.processes import bytes_of


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("text") / "a.txt", make_documents(900))


def options(**changes: object) -> TrainingOptions:
    return TrainingOptions(**{"vocab_size": 500, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
@pytest.mark.parametrize("normalization", ["nmt_nfkc", "identity"])
def test_dictionary_and_model_belong_together(text: Path, tmp_path: Path, algorithm: str, normalization: str) -> None:
    tokenizer = train([text], tmp_path, options(algorithm=algorithm, normalization=normalization))
    symbols = dictionary.read_symbols(tmp_path / "dict.txt")
    assert len(tokenizer) == 4 + len(symbols) and 450 < len(symbols) <= 500
    assert not set(symbols) & {*dictionary.SPECIAL, dictionary.MASK}
    counts = [int(line.rsplit(" ", 1)[1]) for line in (tmp_path / "dict.txt").read_text(encoding="utf-8").splitlines()]
    lines = [line for line in text.read_text(encoding="utf-8").split("\n") if line]
    assert sum(counts) == sum(len(ids) for ids in tokenizer.encode_lines(lines))
    ids = tokenizer.encode("ein Bär £ 🤖 ½")
    assert UNK not in ids and EOS not in ids  # bytes stand in for what is too rare
    expected = "ein Bär £ 🤖 ½" if normalization == "identity" else "ein Bär £ 🤖 1\N{FRACTION SLASH}2"
    assert tokenizer.decode(ids) == expected


def test_equal_text_gives_equal_bytes(text: Path, tmp_path: Path) -> None:
    train([text], tmp_path / "a", options())
    train([text], tmp_path / "b", options())
    assert bytes_of(tmp_path / "a") == bytes_of(tmp_path / "b")


def test_lines_with_the_character_of_sentencepiece_itself_count(tmp_path: Path) -> None:
    marked = write(tmp_path / "b.txt", [*make_documents(300), *["\u2585 quagga"] * 300])
    train([marked], tmp_path / "out", options())
    assert "\u2581quagga" in dictionary.read_symbols(tmp_path / "out" / "dict.txt")


@pytest.mark.parametrize("normalization", ["nmt_nfkc", "identity"])
def test_white_space_is_no_piece(tmp_path: Path, normalization: str) -> None:
    """fairseq would cut a line of dict.txt there; what is no piece is spelled in bytes."""
    text = write(tmp_path / "b.txt", [*make_documents(300), *["odd\x85next\xa0to\tthis\u2028end"] * 300])
    tokenizer = train([text], tmp_path / "out", options(normalization=normalization))
    assert tokenizer.decode(tokenizer.encode("odd\x85next")) == "odd\x85next"


def test_text_that_changes_meanwhile_is_refused(tmp_path: Path, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(text.read_bytes())

    def change(lines: list[str], _: TrainingOptions) -> bytes:
        path.write_text("another text\n")
        return model(lines, options())

    model = train_sentencepiece._train
    monkeypatch.setattr(train_sentencepiece, "_train", change)
    with pytest.raises(UserError, match="the text changed while it was read"):
        train([path], tmp_path / "out", options())
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_corpus_gives_its_train_alone(tmp_path: Path) -> None:
    for split, seed in (("train", 1), ("valid", 2)):
        (tmp_path / "corpus" / split).mkdir(parents=True)
        write(tmp_path / "corpus" / split / "00000.txt", make_documents(300, seed))
    train([tmp_path / "corpus"], tmp_path / "a", options())
    train([tmp_path / "corpus" / "train" / "00000.txt"], tmp_path / "b", options())
    model = tokenizers.SENTENCEPIECE
    assert (tmp_path / "a" / model).read_bytes() == (tmp_path / "b" / model).read_bytes()


def test_the_sample_is_seeded_and_each_line_is_drawn_by_itself(tmp_path: Path) -> None:
    lines = [f"line number {number} of the text" for number in range(4000)]
    path = write(tmp_path / "a.txt", lines)
    size = path.stat().st_size

    def drawn(path: Path, seed: int) -> list[str]:
        return list(sample([path], size // 4, seed))

    found = drawn(path, 1)
    assert 800 < len(found) < 1200 and found == drawn(path, 1)
    assert 150 < len(set(found) & set(drawn(path, 2))) < 350
    assert set(drawn(write(tmp_path / "b.txt", lines[::-1]), 1)) == set(found)
    assert list(sample([path], size, 1)) == lines  # all of it, where it is no more than asked for
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert list(sample([path], size + 3, 1)) == lines, "a byte order mark is no text"


def test_ctrl_c_does_not_wait_for_sentencepiece(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def outside_python(*arguments: object) -> bytes:
        assert threading.current_thread() is not threading.main_thread(), "Python handles signals in that one"
        os.kill(os.getpid(), signal.SIGINT)
        over.wait(60)
        return b""

    monkeypatch.setattr(train_sentencepiece, "_train", outside_python)
    with pytest.raises(KeyboardInterrupt):
        train([text], tmp_path / "out", options())
    over.set()
    monkeypatch.undo()
    train([text], tmp_path / "out", options())


@pytest.mark.slow
def test_long_lines_are_not_left_out(text: Path, tmp_path: Path) -> None:
    long = " ".join(text.read_text(encoding="utf-8").split() * 12)
    assert len(long) > 500_000
    (tmp_path / "long.txt").write_text(long + "\n", encoding="utf-8")
    tokenizer = train([tmp_path / "long.txt"], tmp_path / "out", options())
    assert tokenizer.encode("returns").size == 1


def test_cutting_a_very_long_line_takes_no_time_that_grows_with_its_square() -> None:
    class Line(str):
        """Counts the characters that are copied."""

        copied = 0

        def __getitem__(self, key: object) -> "Line":
            part = Line(super().__getitem__(key))  # type: ignore[index]
            Line.copied += len(part)
            return part

    line = Line("word " * 100_000 + "x" * 10_000)
    parts = list(train_sentencepiece._bearable(line))
    assert "".join(parts) == line and max(map(len, parts)) <= 1000
    assert Line.copied == len(line)


def test_files_of_the_same_name_in_two_folders(tmp_path: Path) -> None:
    files = [tmp_path / name / "train.txt" for name in ("a", "b")]
    for number, path in enumerate(files):
        path.parent.mkdir()
        write(path, make_documents(200, number))
    assert len(train(files, tmp_path / "out", options(vocab_size=420))) > 400


@pytest.mark.parametrize(
    ("content", "changes", "expected"),
    [
        ("".join(map(chr, range(0x4E00, 0x5500))).encode(), {}, "could not train 500 pieces on 1 lines"),
        (b"\n \n", {}, "no text to train on"),
        (b"good\nb\xe9d\n", {}, "a.txt, line 2: not UTF-8: byte 0xe9 at offset 6"),
        (b"good\nb\0d\n", {}, "a.txt, line 2: a zero byte at offset 6"),
        ("a\n".encode("utf-16"), {}, "a.txt: is UTF-16"),
        (None, {}, "no such file"),
        (b"x\n", {"vocab_size": 100}, "--vocab-size 100: between 400 and 64,000"),
        (b"x\n", {"seed": 10**9}, "--seed 1000000000: expected 0 to 999,999,999"),
        (b"x\n", {"sample_bytes": 0}, "--sample-mb 0"),
    ],
)
def test_what_cannot_be_trained_on_is_refused(
    tmp_path: Path, content: bytes | None, changes: dict[str, object], expected: str
) -> None:
    path = tmp_path / "a.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as caught:
        train([path], tmp_path / "out", options(**changes))
    assert expected in str(caught.value)
    assert not list((tmp_path / "out").glob("[a-z]*"))


def test_a_pipe_is_refused_instead_of_read_whole(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="pipe: not a regular file"):
        train([tmp_path / "pipe"], tmp_path / "out", options(sample_bytes=100))


@pytest.mark.parametrize("size", ["nan", "inf", "-1"])
def test_a_sample_of_no_size_is_refused(text: Path, tmp_path: Path, size: str) -> None:
    with pytest.raises(UserError, match=f"--sample-mb {size}"):
        train_sentencepiece.main(["--out", str(tmp_path / "out"), "--sample-mb", size, str(text)])
    assert not (tmp_path / "out").exists()


def test_a_smaller_vocabulary_is_said(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_sentencepiece.main(["--out", str(tmp_path), "--vocab-size", "60000", str(text)])
    assert "the text does not yield more" in capsys.readouterr().out

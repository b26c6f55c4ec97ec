"""Binarising that is killed, interrupted, out of space or fed with damaged files."""

import bz2
import gzip
import lzma
import os
import re
import resource
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_prep.binarize import binarize
from data_prep.binarizing import inputs, parts, plan
from linformer_fairseq.files.errors import UserError
from tests.data_prep import processes
from tests.data_prep.processes import bytes_of, kill_at_random, saved_state, wait_for, wait_for_empty_group
from tests.data_prep.small_tokenizers import make_gpt2, make_sentencepiece, text

Command = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_gpt2(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 MB of text in 16 parts."""
    folder = tmp_path_factory.mktemp("corpus")
    for split, documents in (("train", 6000), ("valid", 100)):
        (folder / split).mkdir()
        (folder / split / "00000.txt").write_text(text(documents), encoding="utf-8")
    return folder


@pytest.fixture
def start(corpus: Path, tokenizer: Path) -> Command:
    """``start(out, *options)`` starts the program in a process group of its own."""

    def start(out: Path, *options: object, data: Path = corpus, **more: Any) -> "subprocess.Popen[str]":
        words = ["--tokenizer", tokenizer, "--out", out, *options, data]
        return processes.start("binarize", *words, **more)

    return start


@pytest.fixture(scope="module")
def whole(corpus: Path, tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What an uninterrupted run in one process makes."""
    out = tmp_path_factory.mktemp("whole") / "bin"
    binarize([corpus], tokenizer, out, workers=1, shards=2)
    return bytes_of(out)


@pytest.mark.slow
def test_killed_at_random_and_run_again(start: Command, whole: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "bin"
    kill_at_random(lambda number: start(out, "--shards", 2, "--workers", 2 + number % 2), out, 10, 5, 0.06, 0.6)
    process = start(out, "--shards", 2, "--workers", 2)
    output = process.communicate()[0]
    assert process.returncode == 0, output
    assert bytes_of(out) == whole


class Killed(BaseException):
    """Stands for SIGKILL where the moment must be a certain one."""


@pytest.mark.slow
def test_killed_at_every_rename(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Renames are what makes something count: before and after each of them."""
    source = tmp_path / "train.txt"
    source.write_text(text(40), encoding="utf-8")
    monkeypatch.setattr(plan, "PARTS_PER_SHARD", 3)
    binarize([source], tokenizer, tmp_path / "whole", workers=1, shards=2)
    rename = Path.replace
    moments = 0
    while True:
        calls = 0

        def replace(self: Path, target: Path, moment: int = moments) -> Path:
            nonlocal calls
            calls += 1
            if calls == moment // 2 + 1 and moment % 2 == 0:
                raise Killed
            renamed = rename(self, target)
            if calls == moment // 2 + 1:
                raise Killed
            return renamed

        out = tmp_path / f"bin{moments}"
        monkeypatch.setattr(Path, "replace", replace)
        try:
            binarize([source], tokenizer, out, workers=1, shards=2)
            break
        except Killed:
            monkeypatch.setattr(Path, "replace", rename)
            complete = (out / ".unfinished" / "manifest.json").exists()
            for path in () if complete else out.glob(".unfinished/**/train.bin"):
                with path.open("ab") as stream:
                    stream.write(b"half of a part")
            binarize([source], tokenizer, out, workers=1, shards=2)
            assert bytes_of(out) == bytes_of(tmp_path / "whole"), f"killed at moment {moments}"
            moments += 1
    assert moments > 30
    assert "carrying on after 5 of 6 parts" in capsys.readouterr().out


def test_finished_parts_are_not_done_again(
    corpus: Path, tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from data_prep import binarize as program
    from data_prep.binarizing import encode

    done: list[int] = []

    def encode_part(part: Any, limit: int) -> Any:
        if len(done) == limit:
            raise KeyboardInterrupt
        done.append(part.start)
        return encode.encode_part(part)

    monkeypatch.setattr(program, "encode_part", lambda part: encode_part(part, 5))
    with pytest.raises(KeyboardInterrupt):
        binarize([corpus], tokenizer, tmp_path / "bin", workers=1)
    monkeypatch.setattr(program, "encode_part", lambda part: encode_part(part, -1))
    binarize([corpus], tokenizer, tmp_path / "bin", workers=1)
    binarize([corpus], tokenizer, tmp_path / "bin", workers=1)  # all is done
    assert len(done) == len(plan.make_plan(inputs.find_inputs([corpus]).splits, 1))


@pytest.mark.slow
def test_ctrl_c_is_a_clean_stop(start: Command, whole: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "bin"
    process = start(out, "--shards", 2, "--workers", 2)
    wait_for(lambda: saved_state(out), process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does it
    output = process.communicate(timeout=120)[0]
    assert process.returncode == 130, output
    assert output.splitlines()[-1] == "stopped by Ctrl-C" and "Traceback" not in output
    wait_for_empty_group(process.pid)
    assert not (out / "manifest.json").exists()
    process = start(out, "--shards", 2, "--workers", 3)
    output = process.communicate()[0]
    assert process.returncode == 0 and "carrying on after" in output
    assert bytes_of(out) == whole


@pytest.mark.slow
def test_no_space_left(start: Command, corpus: Path, tokenizer: Path, whole: dict[str, bytes], tmp_path: Path) -> None:
    """A limit on the size of files, which the system reports the same way as a full disk."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    out = tmp_path / "bin"
    for _ in range(2):  # it fails the same way again
        process = start(out, "--shards", 2, "--workers", 2, preexec_fn=limit)
        output = process.communicate()[0]
        assert process.returncode == 1
        assert re.search(r"^error: .*File too large", output.splitlines()[-1]), output
        assert "Traceback" not in output
        assert [path.name for path in out.iterdir()] == [".unfinished"]
    binarize([corpus], tokenizer, out, workers=1, shards=2)
    assert bytes_of(out) == whole


def test_a_second_run_at_the_same_time_is_refused(
    start: Command, corpus: Path, tokenizer: Path, tmp_path: Path
) -> None:
    out = tmp_path / "bin"
    process = start(out, "--workers", 2)
    wait_for(lambda: (out / ".unfinished").is_dir(), process)
    with pytest.raises(UserError, match="another process is writing to this folder"):
        binarize([corpus], tokenizer, out, workers=1)
    assert process.communicate() and process.returncode == 0


@pytest.mark.parametrize("change", ["text", "tokenizer", "option"])
def test_other_inputs_start_afresh(
    tokenizer: Path, tmp_path: Path, change: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, shards = tmp_path / "train.txt", tmp_path / "bin", 1
    source.write_text(text(40), encoding="utf-8")
    interrupt(monkeypatch, 5, [source], tokenizer, out)
    if change == "text":
        source.write_text(text(40, seed=2), encoding="utf-8")
    elif change == "tokenizer":
        tokenizer = make_sentencepiece(tmp_path / "other")
    else:
        shards = 2
    binarize([source], tokenizer, out, workers=1, shards=shards)
    assert "starting afresh" in capsys.readouterr().out
    binarize([source], tokenizer, tmp_path / "new", workers=1, shards=shards)
    assert bytes_of(out) == bytes_of(tmp_path / "new")
    source.write_text(text(40, seed=3), encoding="utf-8")
    with pytest.raises(UserError, match="holds finished data of other inputs"):
        binarize([source], tokenizer, out, workers=1, shards=shards)


def interrupt(monkeypatch: pytest.MonkeyPatch, parts: int, *arguments: Any) -> None:
    """Run ``binarize`` until so many parts are in."""
    from data_prep.binarizing.store import Store

    append = Store.append

    def stop(self: Store, *rest: Any) -> None:
        append(self, *rest)
        if self.parts == parts:
            raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Store, "append", stop)
        binarize(*arguments, workers=1)


def test_parts_that_were_cut_elsewhere_are_not_carried_on(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by an earlier version, with another rule for empty lines."""
    source, out = tmp_path / "train.txt", tmp_path / "bin"
    source.write_text(text(40), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(parts, "_EMPTY_LINE", re.compile(rb"never"))
        patch.setattr(parts, "DOCUMENT_SEARCH", 1)
        interrupt(monkeypatch, 5, [source], tokenizer, out)
    binarize([source], tokenizer, out, workers=1)
    assert "other parts; starting afresh" in capsys.readouterr().out
    binarize([source], tokenizer, tmp_path / "new", workers=1)
    assert bytes_of(out) == bytes_of(tmp_path / "new")


def test_files_that_became_shorter_are_not_carried_on(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a crash of the machine, when the last writes were lost."""
    source, out = tmp_path / "train.txt", tmp_path / "bin"
    source.write_text(text(40), encoding="utf-8")
    interrupt(monkeypatch, 5, [source], tokenizer, out)
    binary = out / ".unfinished" / "outputs" / "train.bin"
    os.truncate(binary, binary.stat().st_size - 1)
    binarize([source], tokenizer, out, workers=1)
    binarize([source], tokenizer, tmp_path / "new", workers=1)
    assert bytes_of(out) == bytes_of(tmp_path / "new")


def test_text_that_changes_meanwhile_is_refused(
    tokenizer: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from data_prep import binarize as program

    source = tmp_path / "train.txt"
    source.write_text(text(40), encoding="utf-8")
    encode = program.encode_part

    def change(part: Any) -> Any:
        encoded = encode(part)
        with source.open("a") as stream:
            stream.write("one more line\n")
        return encoded

    monkeypatch.setattr(program, "encode_part", change)
    with pytest.raises(UserError, match="the train text changed while it was read"):
        binarize([source], tokenizer, tmp_path / "bin", workers=1)
    monkeypatch.undo()
    binarize([source], tokenizer, tmp_path / "bin", workers=1)


@pytest.mark.parametrize("workers", [1, 2])
def test_invalid_utf8_is_shown_with_file_and_byte(tokenizer: Path, tmp_path: Path, workers: int) -> None:
    source = tmp_path / "train.txt"
    good = text(300).encode()
    line = good.index(b"\n", len(good) // 2) + 1
    source.write_bytes(good[:line] + b"caf\xe9\n" + good[line:])
    number = good.count(b"\n", 0, line) + 1
    with pytest.raises(UserError) as caught:
        binarize([source], tokenizer, tmp_path / "bin", workers=workers)
    assert f"{source}, line {number:,}: not UTF-8: byte 0xe9 at offset {line + 3:,};" in str(caught.value)
    source.write_bytes(good)
    binarize([source], tokenizer, tmp_path / "bin", workers=1)


def test_a_zero_byte_is_shown_with_file_and_line(tokenizer: Path, tmp_path: Path) -> None:
    """As in UTF-16 without a byte order mark, which is UTF-8 if it has ASCII letters only."""
    (tmp_path / "train.txt").write_bytes(b"good\nb\0d\n")
    with pytest.raises(UserError, match="train.txt, line 2: a zero byte at offset 6"):
        binarize([tmp_path / "train.txt"], tokenizer, tmp_path / "bin", workers=1)


@pytest.mark.parametrize("place", [b"caf\xe9.txt", b"caf\xe9/train.txt"])
def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path, place: bytes) -> None:
    source = tmp_path / os.fsdecode(place)
    source.parent.mkdir(exist_ok=True)
    source.write_text("text")
    with pytest.raises(UserError, match=r"caf\\xe9.* not UTF-8"):
        inputs.find_inputs([source])


@pytest.mark.parametrize("place", ["train.txt", "train/00000.txt"])
def test_utf16_is_told_as_that(tmp_path: Path, place: str) -> None:
    source = tmp_path / place
    source.parent.mkdir(exist_ok=True)
    source.write_bytes("text\n".encode("utf-16"))
    with pytest.raises(UserError, match=f"{source}: is UTF-16"):
        inputs.find_inputs([source if source.parent == tmp_path else tmp_path])


@pytest.mark.parametrize("name", ["train.txt", "train.txt.gz"])
@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "Zstandard"])
def test_compressed_text_is_told_as_that(tokenizer: Path, tmp_path: Path, kind: str, name: str) -> None:
    zstandard = pytest.importorskip("zstandard")
    compress = {"gzip": gzip.compress, "xz": lzma.compress, "Zstandard": zstandard.compress}
    compress["bzip2"] = lambda data: bz2.compress(data, 1)  # its level is in its first bytes
    source = tmp_path / name
    source.write_bytes(compress[kind](b"good text\n" * 100))
    with pytest.raises(UserError) as caught:
        binarize([source], tokenizer, tmp_path / "out")
    assert f"{source}: is compressed ({kind}), plain text was expected" in str(caught.value)
    assert "linformer data corpus, which reads .gz" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_pipe_is_refused_and_nothing_taken_from_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    try:
        os.write(writer, b"good text\n")
        with pytest.raises(UserError, match="pipe: not a regular file"):
            inputs.check_text_files([pipe])
        assert os.read(reader, 100) == b"good text\n"
    finally:
        os.close(reader)
        os.close(writer)


def test_a_dictionary_of_another_tokenizer_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    other = make_sentencepiece(tmp_path / "other")
    (other / "dict.txt").write_bytes((tokenizer / "dict.txt").read_bytes())
    (tmp_path / "train.txt").write_text("a")
    with pytest.raises(UserError, match="this dictionary does not fit the tokenizer"):
        binarize([tmp_path / "train.txt"], other, tmp_path / "bin", workers=1)


def test_a_folder_of_other_things_is_left_alone(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a")
    with pytest.raises(UserError, match="this folder holds other files"):
        binarize([tmp_path / "train.txt"], tokenizer, tmp_path, workers=1)
    assert [path.name for path in tmp_path.iterdir()] == ["train.txt"]


def test_a_word_without_end_is_shown_with_its_place(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("a line\n" + "x" * 1_200_000 + "\n")
    with pytest.raises(UserError, match=r"train.txt, in the lines from byte \d+ on: 1,200,000 characters without"):
        binarize([tmp_path / "train.txt"], tokenizer, tmp_path / "bin", workers=1)

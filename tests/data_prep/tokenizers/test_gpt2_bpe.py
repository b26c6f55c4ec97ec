"""python -m data_prep.gpt2_bpe: the files of GPT-2's BPE from a folder or from a hub."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from data_prep import gpt2_bpe
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.gpt2_bpe import byte_letters
from tests.data_prep.hub_server import HubServer, closed_port_endpoint, hub_environment
from tests.data_prep.processes import bytes_of
from tests.messages import says

REPOSITORY = Path(__file__).resolve().parents[3]
DATA = os.environ.get("LINFORMER_DATA")
GPT2 = "openai-community/gpt2@607a30d783dfa663caf39e06633721c8d4cfcd7e"
ROBERTA = "FacebookAI/roberta-base@e2da8e2f811d1448a5b465c236feacd80ffbac7b"

_TOKENS = [*byte_letters(), "th", "the"]
ENCODER = json.dumps({token: number for number, token in enumerate(_TOKENS)}).encode()
MERGES = b"#version: 0.2\nt h\nth e\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A BPE of our own with two merges, under the hub's names."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "vocab.json").write_bytes(ENCODER)
    (tmp_path / "mine" / "merges.txt").write_bytes(MERGES)
    return tmp_path / "mine"


def test_files_of_a_folder_without_a_dictionary(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    gpt2_bpe.main(["--out", str(out), "--from", str(folder)])
    said = capsys.readouterr()
    assert said.out == f"262 symbols in {out}/dict.txt\n"
    assert "not OpenAI's encoder.json: sha256" in said.err
    assert "not OpenAI's vocab.bpe: sha256" in said.err
    assert says(said.err, "no dict.txt", "258 ids", "RoBERTa's published weights")
    assert sorted(path.name for path in out.iterdir()) == ["dict.txt", "encoder.json", "vocab.bpe"]
    assert (out / "dict.txt").read_text() == "".join(f"{n} 0\n" for n in range(258))
    assert (out / "encoder.json").read_bytes() == ENCODER
    tokenizer, _ = gpt2_bpe.install(out, folder)
    assert tokenizer.encode("the").tolist() == [4 + 257]


def test_a_folder_that_is_complete_but_has_not_roberta_s_ids_is_said(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    gpt2_bpe.install(out, folder)
    digests = {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in gpt2_bpe.PUBLISHED}
    monkeypatch.setattr(gpt2_bpe, "PUBLISHED", digests)
    (note,) = gpt2_bpe.install(out)[1]
    assert says(note, out / "dict.txt", "numeric order")
    (out / "dict.txt").write_text("".join(f"{n} 0\n" for n in reversed(range(258))))
    assert gpt2_bpe.install(out)[1] == []


@pytest.mark.parametrize("content", [MERGES.removesuffix(b"\n"), MERGES.split(b"\n", 1)[1]])
def test_merges_are_written_as_fairseq_reads_them(content: bytes, folder: Path, tmp_path: Path) -> None:
    """Without the first line or the last line feed, fairseq leaves out a merge."""
    (folder / "merges.txt").write_bytes(content)
    gpt2_bpe.install(tmp_path / "out", folder)
    assert (tmp_path / "out" / "vocab.bpe").read_bytes() == MERGES


def test_a_dictionary_that_is_there_is_kept(folder: Path, tmp_path: Path) -> None:
    backwards = "".join(f"{n} 0\n" for n in reversed(range(258)))
    (folder / "dict.txt").write_text(backwards)
    tokenizer, notes = gpt2_bpe.install(tmp_path / "out", folder)
    assert (tmp_path / "out" / "dict.txt").read_text() == backwards
    assert tokenizer.encode("the").tolist() == [4]
    assert not any("dict.txt" in note for note in notes)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("merges.txt", None, "vocab.bpe: no such file, nor merges.txt there"),
        ("vocab.json", b'{"a": 1', "vocab.json: not JSON"),
        ("merges.txt", b"q u\n", "do not belong together"),
        ("dict.txt", b"0 1\n1 1\n", "dict.txt"),
    ],
)
def test_files_that_cannot_be_used_leave_nothing_behind(
    name: str, content: bytes | None, said: str, folder: Path, tmp_path: Path
) -> None:
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(UserError, match=said) as raised:
        gpt2_bpe.install(tmp_path / "out", folder)
    assert str(folder) in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_other_files_are_left_alone(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    gpt2_bpe.install(out, folder)
    gpt2_bpe.install(out, folder)  # the same
    before = bytes_of(out)
    (folder / "dict.txt").write_text("".join(f"{n} 0\n" for n in reversed(range(258))))
    with pytest.raises(UserError, match="dict.txt: is another one"):
        gpt2_bpe.install(out, folder)
    assert bytes_of(out) == before


_KILLED = """
import os, signal, sys
from pathlib import Path
from data_prep import gpt2_bpe
out, source, number = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
replace, done = Path.replace, []
def replaced(self, target):
    if target.parent == out:
        if len(done) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(target)
    return replace(self, target)
Path.replace = replaced
gpt2_bpe.install(out, source)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", range(3))
def test_killed_before_a_file_has_its_name_and_run_again(folder: Path, tmp_path: Path, number: int) -> None:
    gpt2_bpe.install(tmp_path / "whole", folder)
    expected, out = bytes_of(tmp_path / "whole"), tmp_path / "out"
    words = [sys.executable, "-c", _KILLED, str(out), str(folder), str(number)]
    assert subprocess.run(words, cwd=REPOSITORY).returncode == -signal.SIGKILL
    written = {name: data for name, data in bytes_of(out).items() if not name.startswith(".")}
    assert len(written) == number and written.items() <= expected.items()
    gpt2_bpe.install(out, folder)
    assert bytes_of(out) == expected


def _run(environment: dict[str, str], out: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "data_prep.gpt2_bpe", "--out", str(out)]
    return subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)


def test_what_a_killed_run_left_is_replaced(folder: Path, tmp_path: Path) -> None:
    for name in ("encoder.json", "vocab.bpe", "dict.txt"):
        (tmp_path / f".{name}.tmp").write_text("half of")
    gpt2_bpe.install(tmp_path, folder)
    gpt2_bpe.install(tmp_path / "whole", folder)
    assert bytes_of(tmp_path / "whole").keys() == {path.name for path in tmp_path.iterdir() if path.is_file()}


@pytest.mark.slow
def test_a_hub_out_of_reach_says_which_files_to_put_where(tmp_path: Path) -> None:
    done = _run(hub_environment(closed_port_endpoint(), tmp_path / "caches"), tmp_path / "out")
    assert done.returncode == 1
    assert done.stderr.startswith("error: GPT-2's BPE: openai-community/gpt2 at http://127.0.0.1:")
    assert done.stderr.count("\n") == 1
    for part in ("openai-community/gpt2/vocab.json", "FacebookAI/roberta-base/dict.txt", "--from FOLDER"):
        assert part in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_hub_with_other_files_is_refused(tmp_path: Path) -> None:
    with HubServer({GPT2: {"vocab.json": ENCODER, "merges.txt": MERGES}}) as hub:
        done = _run(hub.environment(tmp_path / "caches"), tmp_path / "out")
    assert done.returncode == 1
    assert "openai-community/gpt2/vocab.json of the hub: not OpenAI's encoder.json: sha256" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="LINFORMER_DATA is not set: OpenAI's files are in its bpe/")
@pytest.mark.parametrize("with_dictionary", [True, False])
def test_openai_s_files_from_a_hub(with_dictionary: bool, tmp_path: Path) -> None:
    assert DATA
    files = {path.name: path.read_bytes() for path in Path(DATA, "bpe").iterdir()}
    roberta = {"dict.txt": files["dict.txt"]} if with_dictionary else {"config.json": b"{}"}
    names = {"vocab.json": files["encoder.json"], "merges.txt": files["vocab.bpe"]}
    with HubServer({GPT2: names, ROBERTA: roberta}) as hub:
        done = _run(hub.environment(tmp_path / "caches"), tmp_path / "out")
        assert done.returncode == 0, done.stderr
        if with_dictionary:  # all is in the cache now
            asked = len(hub.requests)
            assert _run(hub.environment(tmp_path / "caches"), tmp_path / "again").returncode == 0
            assert len(hub.requests) == asked
    for name in files if with_dictionary else ("encoder.json", "vocab.bpe"):
        assert (tmp_path / "out" / name).read_bytes() == files[name]
    assert ("no dict.txt there" in done.stderr) is not with_dictionary
    assert "not OpenAI's" not in done.stderr

"""Checkpoints are read through fairseq's own function, and nothing but a checkpoint is."""

import argparse
import errno
import io
import os
import pickle
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from omegaconf import OmegaConf

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints import reading
from linformer_fairseq.checkpoints.allowed_globals import NumberType, allowed_globals, number
from linformer_fairseq.checkpoints.checksum import Bytes
from linformer_fairseq.checkpoints.folder import State, examine
from linformer_fairseq.checkpoints.reading import CheckpointError, unpickle
from tests.checkpoint_files import make_state

load = checkpoint_utils.load_checkpoint_to_cpu


class Writer:
    """A pickle of it creates a file when it is executed."""

    def __init__(self, target: Path, function: Callable[..., Any]) -> None:
        self.target, self.function = target, function

    def __reduce__(self) -> tuple[Any, ...]:
        if self.function is os.system:
            return os.system, (f"touch '{self.target}'",)
        if self.function is eval:
            return eval, (f"open({str(self.target)!r}, 'w')",)
        return self.function, (str(self.target), "w")


def test_namespace_and_tensors_load(checkpoint: Path) -> None:
    loaded = load(str(checkpoint))
    assert loaded["cfg"].model == argparse.Namespace(arch="roberta", encoder_layers=1)
    assert torch.equal(loaded["model"]["weight"], torch.arange(6.0).view(2, 3))


@pytest.mark.parametrize("value", [np.float64(0.8125), np.float32(0.1), np.int64(-3), np.bool_(True), 0.8125])
def test_best_metric_of_numpy_loads(tmp_path: Path, state: dict[str, Any], value: Any) -> None:
    state["extra_state"]["best"] = value
    torch.save(state, tmp_path / "c.pt")
    best = load(str(tmp_path / "c.pt"))["extra_state"]["best"]
    assert type(best) is type(value)
    assert best == value


def test_numpy_1_spelling_loads() -> None:
    buffer = io.BytesIO()
    torch.save({"best": np.float64(0.5)}, buffer)
    old = io.BytesIO(_in_every_pickle(buffer.getvalue(), b"cnumpy._core.multiarray", b"cnumpy.core.multiarray"))
    with allowed_globals():
        assert torch.load(old, weights_only=True) == {"best": 0.5}


def _in_every_pickle(archive: bytes, old: bytes, new: bytes) -> bytes:
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(result, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("data.pkl"):
                assert old in data
                data = data.replace(old, new)
            target.writestr(name, data)
    return result.getvalue()


def test_numbers_only() -> None:
    """The stand-ins for numpy's functions make no objects, structures or strings."""
    for code in ("O", "O8", "V8", "f8,O", "S3", "U2", ["f8"], "datetime64"):
        with pytest.raises(ValueError, match="only plain numbers"):
            NumberType(code)
    with pytest.raises(ValueError, match="only plain numbers"):
        number(np.dtype("O"), b"12345678")
    with pytest.raises(ValueError, match="expected 8 bytes"):
        number(NumberType("f8"), b"1")
    kind = NumberType("f8")
    with pytest.raises(ValueError, match="byte order 'x'"):
        kind.__setstate__((3, "x"))
    kind.__setstate__((3, ">"))
    assert number(kind, struct.pack(">d", 2.5)) == 2.5


def test_omegaconf_containers_load(tmp_path: Path, state: dict[str, Any]) -> None:
    state["cfg"] = OmegaConf.create({"model": {"_name": "roberta"}, "lr": [0.1, 0.2], "none": None})
    torch.save(state, tmp_path / "c.pt")
    assert load(str(tmp_path / "c.pt"))["cfg"] == state["cfg"]


def test_the_dictionary_of_a_task_loads(tmp_path: Path, state: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """That of audio_finetuning and others, which are in the state that fairseq saves."""
    dictionary = Dictionary()
    dictionary.add_symbol("one")
    state["task_state"] = {"target_dictionary": dictionary, "dictionaries": [dictionary]}
    torch.save(state, tmp_path / "c.pt")
    loaded = load(str(tmp_path / "c.pt"))["task_state"]
    assert type(loaded["target_dictionary"]) is Dictionary and loaded["dictionaries"] == [dictionary]
    assert vars(loaded["target_dictionary"]) == vars(dictionary)
    monkeypatch.delitem(sys.modules, "fairseq.data.dictionary")
    assert vars(load(str(tmp_path / "c.pt"))["task_state"]["target_dictionary"]) == vars(dictionary)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("function", [open, eval, os.system], ids=["open", "eval", "os.system"])
@pytest.mark.parametrize("forced", ["0", "1"], ids=["", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"])
def test_nothing_is_executed(
    tmp_path: Path,
    state: dict[str, Any],
    zipped: bool,
    function: Callable[..., Any],
    forced: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", forced)
    sign = tmp_path / "executed"
    path = tmp_path / "evil.pt"
    state["model"]["weight"] = Writer(sign, function)
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError) as error:
        load(str(path))
    named = {open: f"{open.__module__}.open", eval: "eval", os.system: f"{os.name}.system"}[function]
    assert str(path) in str(error.value)
    assert (
        f"asks for {named}, which is not among the types that fairseq's checkpoints contain; nothing of it was executed"
        in str(error.value)
    )
    assert not sign.exists()


def test_what_the_writer_would_do(tmp_path: Path) -> None:
    """The file of the tests above does create its sign when it is executed: they can fail."""
    sign = tmp_path / "executed"
    for function in (open, eval, os.system):
        pickle.loads(pickle.dumps(Writer(sign, function)))
        assert sign.exists()
        sign.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _text(path: Path) -> None:
    path.write_text("this is a text file, not a checkpoint\n")


def _markdown(path: Path) -> None:
    path.write_text("# A title\n\nA text.\n")


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _other_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")


def _pickled_text(path: Path) -> None:
    torch.save("hello", path)


def _weights(path: Path) -> None:
    torch.save({"weight": torch.zeros(2)}, path)


def _only_model(path: Path) -> None:
    torch.save({"model": {"weight": torch.zeros(2)}, "cfg": None}, path)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (_empty, "it is empty"),
        (_text, "cannot be read as a checkpoint: it does not begin and end like a file written by torch.save"),
        (_markdown, "cannot be read as a checkpoint: it does not begin and end like a file written by torch.save"),
        (_half, "truncated"),
        (_other_zip, "cannot be read as a checkpoint"),
        (_pickled_text, "holds a str"),
        (_weights, "it lacks model, cfg or args, .* [(]it has: weight[)]"),
        (_only_model, "it lacks cfg or args, optimizer_history or best_loss, extra_state or epoch"),
    ],
)
def test_damaged_or_foreign_file(checkpoint: Path, damage: Callable[[Path], None], says: str) -> None:
    damage(checkpoint)
    with pytest.raises(CheckpointError, match=says) as error:
        load(str(checkpoint))
    assert str(error.value).startswith(f"{checkpoint}: ")


def test_what_torch_says_is_one_sentence_in_brackets(checkpoint: Path) -> None:
    _other_zip(checkpoint)
    with pytest.raises(CheckpointError) as error:
        load(str(checkpoint))
    said = str(error.value)
    assert "it is damaged or was never one [" in said and "\n" not in said
    assert said.endswith(
        "]. If it was one, move it away and use another one (fairseq-train takes it with --restore-file)."
    )


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_every_truncation_names_the_file(tmp_path: Path, state: dict[str, Any], zipped: bool) -> None:
    """torch ends in "OSError: [Errno 22] Invalid argument" where a zip archive has less than some 65 kB left."""
    path = tmp_path / "cut.pt"
    torch.save(state, path, _use_new_zipfile_serialization=zipped)
    content = path.read_bytes()
    for length in (*range(0, 40), *range(40, len(content), 97), len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(CheckpointError) as error:
            load(str(path))
        assert str(error.value).startswith(f"{path}: cannot be read as a checkpoint: it ")


def test_other_bytes_in_a_tensor_are_refused_by_the_crc(checkpoint: Path, state: dict[str, Any]) -> None:
    content = bytearray(checkpoint.read_bytes())
    content[content.index(state["model"]["weight"].numpy().tobytes())] ^= 1
    checkpoint.write_bytes(content)
    assert torch.load(checkpoint, weights_only=False)["model"]["weight"][0, 0] != 0  # torch does not compare it
    with pytest.raises(
        CheckpointError, match=r"checkpoint_last\.pt: .* the CRC of 'checkpoint_last/data/0' .* is wrong"
    ):
        load(str(checkpoint))


def test_what_has_just_been_checked_is_not_read_for_that_again(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(checkpoint.parent)
    read: list[str] = []
    check = reading.check_bytes
    monkeypatch.setattr(reading, "check_bytes", lambda file: (read.append(file.name), check(file))[1])
    with reading.already_checked(checkpoint.name, Bytes.NO_CHECKSUM):
        load(str(checkpoint))
        assert read == []
    load(str(checkpoint))
    assert read == [str(checkpoint)]


def test_a_failing_disk_is_named_with_the_file(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(OSError, match="Input/output error") as error:
        load(str(checkpoint))
    assert (error.value.errno, error.value.filename) == (errno.EIO, str(checkpoint))


def test_what_fairseq_does_not_understand_is_named(checkpoint: Path, state: dict[str, Any]) -> None:
    del state["optimizer_history"][0]["lr_scheduler_state"]
    torch.save(state, checkpoint)
    with pytest.raises(CheckpointError, match=r"checkpoint_last\.pt: .*\[KeyError: 'best_loss'\]"):
        load(str(checkpoint))


def test_a_file_from_before_zip_comes_with_a_warning(
    tmp_path: Path, state: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "legacy.pt"
    torch.save(state, path, _use_new_zipfile_serialization=False)
    load(str(path))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert caplog.messages[0].startswith(f"{path}: written by torch before 1.6")


def test_a_long_reason_is_left_out(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("x " * 150)

    monkeypatch.setattr(torch, "load", fail)
    with pytest.raises(CheckpointError, match=r"or was never one\. If it was one"):
        load(str(checkpoint))


def test_the_first_byte_of_a_text_is_not_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "text.pt"
    path.write_text("Four score and seven years ago\n")
    with pytest.raises(CheckpointError, match=r"or was never one\. If it was one"):
        unpickle(str(path), str(path))


def test_half_of_a_legacy_file(tmp_path: Path, state: dict[str, Any]) -> None:
    path = tmp_path / "legacy.pt"
    state["model"]["weight"] = torch.zeros(10_000)  # the file ends in the midst of it
    torch.save(state, path, _use_new_zipfile_serialization=False)
    assert load(str(path))["optimizer_history"][0]["num_updates"] == 7
    _half(path)
    with pytest.raises(CheckpointError, match=r"legacy\.pt: cannot be read as a checkpoint: it is damaged"):
        load(str(path))


def test_upgrades_run_before_fairseq_looks(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_upgrades", [])

    def rename(state: dict[str, Any]) -> None:
        state["cfg"]["task"]["_name"] = "sentence_prediction"

    reading.register_upgrade(rename)
    reading.register_upgrade(rename)
    assert reading._upgrades == [rename]
    assert load(str(checkpoint))["cfg"].task._name == "sentence_prediction"


def test_upgrade_that_refuses_names_the_file(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(state: dict[str, Any]) -> None:
        raise ValueError("ratio 3 does not divide 512")

    monkeypatch.setattr(reading, "_upgrades", [refuse])
    with pytest.raises(CheckpointError, match=r"checkpoint_last\.pt: ratio 3 does not divide 512"):
        load(str(checkpoint))


def test_a_check_comes_after_the_upgrades_and_ends_with_its_block(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_upgrades", [lambda state: state.update(upgraded=True)])
    seen: list[bool] = []
    with reading.checked_by(lambda state: seen.append(state["upgraded"])):
        reading.read_checkpoint(checkpoint)
    reading.read_checkpoint(checkpoint)
    assert seen == [True]


def test_the_list_is_not_left_behind(checkpoint: Path) -> None:
    torch.serialization.add_safe_globals([argparse.Namespace])  # as a user may have done
    try:
        before = set(torch.serialization.get_safe_globals())
        load(str(checkpoint))
        assert set(torch.serialization.get_safe_globals()) == before
    finally:
        torch.serialization.clear_safe_globals()


def test_an_old_checkpoint_without_a_number_of_updates_is_not_damaged(tmp_path: Path) -> None:
    """torch wrote no CRCs before 1.6, and fairseq counts from 0 then."""
    state = make_state()
    del state["optimizer_history"][-1]["num_updates"]
    torch.save(state, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    found = examine(tmp_path / "old.pt")
    assert (found.state, found.updates) == (State.NO_CHECKSUM, 0)

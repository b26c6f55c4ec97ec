"""A checkpoint with random damage is loaded as it was, or refused by name: no other error, nothing different."""

from __future__ import annotations

import argparse
import collections
import resource
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints.folder import newest_usable
from linformer_fairseq.checkpoints.reading import CheckpointError, read_checkpoint
from linformer_fairseq.checkpoints.writing import write_checkpoint
from tests.checkpoint_files import make_state, same
from tests.mutations import damaged

Save = Callable[[dict[str, Any], Path], None]

SMALL, LARGE = 16, 512
"""Width of the weights: files of 12 kB and of 2 MB."""
MEMORY = 2**30
"""Bytes that loading may ask for, beside what the process has."""
UNSEEN = "damage may go unnoticed"
# What torch says of a file whose damage is there.
PROTOCOL = pytest.mark.filterwarnings("ignore:Detected pickle protocol:UserWarning")


def with_checksum(state: dict[str, Any], path: Path) -> None:
    write_checkpoint(state, str(path))


def without_checksum(state: dict[str, Any], path: Path) -> None:
    torch.save(state, path)


def before_zip(state: dict[str, Any], path: Path) -> None:
    torch.save(state, path, _use_new_zipfile_serialization=False)


WRITERS = (with_checksum, without_checksum, before_zip)


def trained(width: int) -> dict[str, Any]:
    """What a trainer saves: options, weights, Adam's state, meters."""
    generator = torch.Generator().manual_seed(1)
    shapes = {"embed_tokens.weight": (50, width), "fc1.weight": (width, width), "fc1.bias": (width,)}
    weights = {
        f"encoder.layers.{layer}.{name}": torch.randn(shape, generator=generator)
        for layer in range(2)
        for name, shape in shapes.items()
    }
    weights["encoder.half"] = torch.randn(width, generator=generator).bfloat16()
    cfg = {
        "_name": None,
        "common": {"seed": 1, "fp16": False, "user_dir": "linformer_fairseq"},
        "model": argparse.Namespace(arch="linformer_roberta_tiny", encoder_layers=2, dropout=0.1),
        "task": {"_name": "masked_lm", "data": "corpus", "tokens_per_sample": 512},
        "optimization": {"lr": [0.0005], "max_update": 1000},
    }
    return {
        **make_state(700, weights, cfg),
        "extra_state": {
            "train_iterator": {"epoch": 3, "iterations_in_epoch": 7, "shuffle": True},
            "val_loss": 2.5,
            "best": np.float64(2.25),
        },
        "last_optimizer_state": {"state": {0: {"step": 700, "exp_avg": torch.ones(width)}}, "param_groups": []},
    }


@pytest.fixture
def limited_memory() -> Iterator[None]:
    """Whoever asks for more than MEMORY gets an error."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def outcome(path: Path, expected: dict[str, Any], caplog: pytest.LogCaptureFixture) -> str:
    """What loading a file gives, in a few words."""
    caplog.clear()
    try:
        loaded = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    except CheckpointError as error:
        return "refused" if str(error).startswith(f"{path}: ") and "\n" not in str(error) else f"unnamed: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if same(loaded, expected):
        return "unharmed"
    return "altered, with a warning" if UNSEEN in caplog.text else "altered"


def outcomes(
    path: Path, state: dict[str, Any], save: Save, numbers: range, caplog: pytest.LogCaptureFixture
) -> tuple[collections.Counter[str], list[tuple[int, str, str]]]:
    """How often a file with damage of these numbers was loaded unharmed or refused, and all else that happened."""
    save(state, path)
    content = path.read_bytes()
    expected = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    counts: collections.Counter[str] = collections.Counter()
    wrong = []
    for number in numbers:
        with damaged(path, content, number) as kind:
            found = outcome(path, expected, caplog)
            counts[found] += 1
            # A run that goes on must agree, and end in nothing else either.
            if len(content) < 2**20 and found in ("unharmed", "refused") and _usable(path) != (found == "unharmed"):
                found = f"{found}, but not by a run that goes on"
        if found not in ("unharmed", "refused"):
            wrong.append((number, kind, found))
    assert path.read_bytes() == content, "the damage was not taken back"
    return counts, wrong


def _usable(path: Path) -> bool:
    return newest_usable([path])[0] is not None


# A file from before zip has neither checksum nor CRCs: other numbers in it cannot be seen, and a warning says so.
ALLOWED: dict[Save, set[str]] = {
    with_checksum: set(),
    without_checksum: set(),
    before_zip: {"altered, with a warning", "refused, but not by a run that goes on"},
}


@pytest.mark.slow
@pytest.mark.parametrize("save", WRITERS)
@pytest.mark.usefixtures("limited_memory")
@PROTOCOL
def test_hundreds_of_small_ones(tmp_path: Path, save: Save, caplog: pytest.LogCaptureFixture) -> None:
    counts, wrong = outcomes(tmp_path / "checkpoint.pt", trained(SMALL), save, range(300), caplog)
    assert [case for case in wrong if case[2] not in ALLOWED[save]] == []
    assert counts["refused"] > 150 and counts["unharmed"] > 0, counts


@pytest.mark.slow
@pytest.mark.parametrize("save", WRITERS)
@pytest.mark.parametrize(("width", "first", "last"), [(SMALL, 300, 2300), (LARGE, 0, 2000)], ids=["small", "large"])
@pytest.mark.usefixtures("limited_memory")
@PROTOCOL
def test_thousands(
    tmp_path: Path, save: Save, width: int, first: int, last: int, caplog: pytest.LogCaptureFixture
) -> None:
    # The three ways of saving share the 2,000.
    numbers = range(first + WRITERS.index(save), last, len(WRITERS))
    counts, wrong = outcomes(tmp_path / "checkpoint.pt", trained(width), save, numbers, caplog)
    assert [case for case in wrong if case[2] not in ALLOWED[save]] == []
    assert counts["refused"] > len(numbers) // 4, counts


def test_an_entry_that_is_marked_as_a_folder_is_refused(tmp_path: Path) -> None:
    """torch.load would leave its tensor uninitialized, though its CRC is right."""
    path = tmp_path / "a.pt"
    without_checksum(make_state(SMALL), path)
    good, entries = path.read_bytes(), 0
    with zipfile.ZipFile(path) as archive:
        at = archive.start_dir
    while good[at : at + 4] == b"PK\1\2":
        flipped = bytearray(good)
        flipped[at + 38] ^= 0x10
        path.write_bytes(flipped)
        with pytest.raises(CheckpointError, match="marked as a folder"):
            read_checkpoint(path)
        at += 46 + sum(struct.unpack_from("<HHH", good, at + 28))
        entries += 1
    assert entries > 5

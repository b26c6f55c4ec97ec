"""Memory of all processes together stays below 1 GB, whatever the text."""

import random
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measuring import run
from data_prep.tokenizers import load_tokenizer
from linformer_fairseq.files.dictionary import EOS
from linformer_fairseq.files.mmap_dataset import element_type
from tests.data_prep.small_tokenizers import WORDS, make_gpt2, make_sentencepiece

pytestmark = pytest.mark.slow

LIMIT = 1_000_000_000


def write_long_line(path: Path, size: int, seed: int) -> None:
    """``size`` bytes without a line feed, and a short line."""
    generator = random.Random(seed)
    block = (" ".join(generator.choices(WORDS, k=20_000)) + " ").encode()
    with path.open("wb") as stream:
        for _ in range(size // len(block) + 1):
            stream.write(block)
        stream.write(b"end\nthe value\n")


@pytest.mark.parametrize("make", [make_gpt2, make_sentencepiece])
def test_two_documents_of_50_mb_on_one_line_each(make: object, tmp_path: Path) -> None:
    """Both workers have one at the same time; the small vocabularies give a token for every two or three bytes."""
    tokenizer = make(tmp_path / "tokenizer")  # type: ignore[operator]
    files = [tmp_path / "train.txt", tmp_path / "valid.txt"]
    for seed, path in enumerate(files):
        write_long_line(path, 50_000_000, seed)
    out = tmp_path / "bin"
    measured = run(
        [sys.executable, "-m", "data_prep.binarize", "--tokenizer", tokenizer, "--out", out, "--workers", 2, *files]
    )
    print(f"{measured.peak_bytes / 1e6:.0f} MB in {measured.seconds:.0f} s")
    assert measured.peak_bytes < LIMIT
    loaded = load_tokenizer(tokenizer)
    ids = np.fromfile(out / "train.bin", element_type(len(loaded)))
    (first_end, second_end) = np.flatnonzero(ids == EOS)
    assert second_end == len(ids) - 1
    assert loaded.decode(ids[first_end + 1 :].tolist()) == "the value"
    with files[0].open("rb") as stream:
        beginning = stream.read(10_000).decode()
    assert loaded.decode(ids[:8_000].tolist())[:9_000] == beginning[:9_000]

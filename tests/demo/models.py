"""Tiny models that have learned nothing, for the demo."""

from __future__ import annotations

from pathlib import Path

from linformer_fairseq.checkpoints.released_folder import release
from tests.cli.test_evaluate import qqp, write_checkpoint
from tests.data_prep.small_tokenizers import make_sentencepiece, text

N, K = 64, 8
TEXTS = [line for line in text(40).split("\n") if line][:30]
LONG = " ".join(TEXTS[:8])


def make_pretrained(folder: Path, *flags: str) -> Path:
    """The folder of a released masked language model of 2 layers and 2 heads."""
    tokenizer = make_sentencepiece(folder / "tokenizer")
    sizes = ("--max-positions", str(N), "--tokens-per-sample", str(N))
    checkpoint = write_checkpoint(tokenizer, folder / "pretrained.pt", *sizes, *flags, task="masked_lm")
    release(checkpoint, tokenizer, folder / "pretrained")
    return folder / "pretrained"


def make_classifier(folder: Path) -> Path:
    """The folder of a released classifier of two classes, of texts and of pairs."""
    data = qqp(folder, make_sentencepiece(folder / "tokenizer_of_task"))
    release(write_checkpoint(data, folder / "finetuned.pt", "--max-positions", str(N)), data, folder / "classifier")
    return folder / "classifier"

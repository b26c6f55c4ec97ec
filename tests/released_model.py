"""A tiny pretrained model, released as those that come with the package are: their stand-in."""

from __future__ import annotations

from pathlib import Path

from linformer_fairseq.checkpoints.released_folder import release
from tests.cli.test_evaluate import write_checkpoint
from tests.data_prep.small_tokenizers import make_sentencepiece


def make_released(work: Path, out: Path) -> Path:
    """Release a model of 2 layers x 16 with n = 128 to ``out``.

    Args:
        work: folder for what it is made of.
        out: the model's folder, which must not exist.
    """
    tokenizer = make_sentencepiece(work / "tokenizer")
    sizes = ("--max-positions", "128", "--tokens-per-sample", "128")
    checkpoint = write_checkpoint(tokenizer, work / "pretrained.pt", *sizes, task="masked_lm")
    out.parent.mkdir(parents=True, exist_ok=True)
    release(checkpoint, tokenizer, out)
    return out

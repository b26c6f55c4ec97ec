"""The files of a tokenizer: their names, and which of them lie in a folder, in the words of fairseq's options."""

from collections.abc import Mapping, Sequence
from pathlib import Path

SENTENCEPIECE = "sentencepiece.bpe.model"
"""What fairseq's XLM-R and CamemBERT hubs, and this project's models, look for, whatever the algorithm."""
ENCODER, MERGES = "encoder.json", "vocab.bpe"
"""GPT-2's byte-level BPE: the number of each token, and the merges in order."""


def find_tokenizer(folders: Sequence[Path]) -> dict[str, str]:
    """fairseq's options for the first tokenizer found in ``folders``.

    Raises:
        FileNotFoundError: none of them has one.
    """
    folders = list(dict.fromkeys(folders))
    for folder in folders:
        sentencepiece, encoder, merges = (folder / name for name in (SENTENCEPIECE, ENCODER, MERGES))
        if sentencepiece.is_file():
            return {"bpe": "sentencepiece", "sentencepiece_model": str(sentencepiece)}
        if encoder.is_file() and merges.is_file():
            return {"bpe": "gpt2", "gpt2_encoder_json": str(encoder), "gpt2_vocab_bpe": str(merges)}
    looked = ", ".join(map(str, folders))
    raise FileNotFoundError(f"no tokenizer found in {looked}: expected {SENTENCEPIECE}, or {ENCODER} and {MERGES}")


def files_of(options: Mapping[str, str]) -> list[Path]:
    """The files that `find_tokenizer` found."""
    return [Path(value) for name, value in options.items() if name != "bpe"]

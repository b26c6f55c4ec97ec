"""Which tokenizer lies in a folder, in the words of fairseq's options."""

from collections.abc import Sequence
from pathlib import Path


def find_tokenizer(folders: Sequence[Path]) -> dict[str, str]:
    """fairseq's options for the first tokenizer found in ``folders``.

    Raises:
        FileNotFoundError: none of them has one.
    """
    folders = list(dict.fromkeys(folders))
    for folder in folders:
        sentencepiece = folder / "sentencepiece.bpe.model"
        if sentencepiece.is_file():
            return {"bpe": "sentencepiece", "sentencepiece_model": str(sentencepiece)}
        encoder, vocabulary = folder / "encoder.json", folder / "vocab.bpe"
        if encoder.is_file() and vocabulary.is_file():
            return {"bpe": "gpt2", "gpt2_encoder_json": str(encoder), "gpt2_vocab_bpe": str(vocabulary)}
    looked = ", ".join(map(str, folders))
    raise FileNotFoundError(
        f"no tokenizer found in {looked}: expected sentencepiece.bpe.model, or encoder.json and vocab.bpe. Give "
        "the data folder, which has them, as the third argument of from_pretrained, put them there, name another "
        "tokenizer with bpe=..., or pass bpe=None to work with token ids only"
    )

"""Finding out which tokenizer a folder holds, and putting one beside the data."""

import shutil
from pathlib import Path

from data_prep.support.errors import DataError
from data_prep.support.files import atomic_open
from data_prep.tokenizers import gpt2_bpe, sentencepiece_model
from data_prep.tokenizers.tokenizer import Tokenizer


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer in ``folder``, or in the folder of ``folder`` where that is one of its files.

    Raises:
        DataError: there is none, there are two, or its files are damaged or do not belong together.
    """
    given, folder = folder, folder if folder.is_dir() else folder.parent
    has_sentencepiece = (folder / sentencepiece_model.NAME).is_file()
    has_gpt2 = (folder / gpt2_bpe.ENCODER).is_file() or (folder / gpt2_bpe.MERGES).is_file()
    if has_sentencepiece and has_gpt2:
        raise DataError(
            f"{folder}: holds two tokenizers, {sentencepiece_model.NAME} and {gpt2_bpe.ENCODER}; "
            "keep each in a folder of its own"
        )
    if not given.exists() or not (has_sentencepiece or has_gpt2):
        raise DataError(
            f"{given}: no tokenizer; expected a folder with dict.txt and either {sentencepiece_model.NAME} "
            f"(python -m data_prep.train_sentencepiece makes one) or {gpt2_bpe.ENCODER} and {gpt2_bpe.MERGES} "
            "(python -m data_prep.gpt2_bpe gets RoBERTa's)"
        )
    return sentencepiece_model.SentencePieceTokenizer(folder) if has_sentencepiece else gpt2_bpe.GPT2Tokenizer(folder)


def copy_tokenizer(tokenizer: Tokenizer, out: Path) -> None:
    """Put the tokenizer's files into the data folder ``out``, where a trained model looks for them."""
    for source in tokenizer.files:
        target = out / source.name
        if target.exists() and target.samefile(source):
            continue
        with source.open("rb") as reader, atomic_open(target, "wb") as writer:
            shutil.copyfileobj(reader, writer)

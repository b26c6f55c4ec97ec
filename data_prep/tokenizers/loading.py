"""Loads the tokenizer in a folder, and copies tokenizers to data folders."""

import shutil
from pathlib import Path

from data_prep.tokenizers.gpt2_bpe import GPT2Tokenizer
from data_prep.tokenizers.sentencepiece_model import SentencePieceTokenizer
from data_prep.tokenizers.tokenizer import Tokenizer
from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.shipped import shipped_folder, shipped_models
from linformer_fairseq.files.tokenizers import ENCODER, MERGES, SENTENCEPIECE


def tokenizer_folder(name_or_path: str) -> Path:
    """Return the folder that an option names: of a model of the package by its name, otherwise as it is.

    Names take precedence, as for models; ``./NAME`` is the folder.
    """
    return shipped_folder(name_or_path) if name_or_path in shipped_models() else Path(name_or_path)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the tokenizer in ``folder``; ``folder`` may also be one of its files.

    Raises:
        UserError: there is no tokenizer, there are two, or its files are damaged or do not belong together.
    """
    given, folder = folder, folder if folder.is_dir() else folder.parent
    has_sentencepiece = (folder / SENTENCEPIECE).is_file()
    has_gpt2 = (folder / ENCODER).is_file() or (folder / MERGES).is_file()
    if has_sentencepiece and has_gpt2:
        raise UserError(
            f"{folder}: holds two tokenizers, {SENTENCEPIECE} and {ENCODER}; keep each in a folder of its own"
        )
    if not given.exists() or not (has_sentencepiece or has_gpt2):
        raise UserError(
            f"{given}: no tokenizer; expected a folder with dict.txt and either {SENTENCEPIECE} "
            f"(linformer data vocabulary makes one) or {ENCODER} and {MERGES} "
            f"(linformer data gpt2 gets RoBERTa's), or a model of the package: {', '.join(shipped_models())}"
        )
    return SentencePieceTokenizer(folder) if has_sentencepiece else GPT2Tokenizer(folder)


def copy_tokenizer(tokenizer: Tokenizer, out: Path) -> None:
    """Copy the tokenizer's files to the data folder ``out``, where a trained model looks for them."""
    for source in tokenizer.files:
        target = out / source.name
        if target.exists() and target.samefile(source):
            continue
        with source.open("rb") as reader, atomic_open(target, "wb") as writer:
            shutil.copyfileobj(reader, writer)

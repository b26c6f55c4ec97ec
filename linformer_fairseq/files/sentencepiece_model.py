"""Loading a sentencepiece model, with errors that name the file."""

from __future__ import annotations

from pathlib import Path

import sentencepiece

from linformer_fairseq.files.errors import UserError


def load_processor(model: Path) -> sentencepiece.SentencePieceProcessor:
    """sentencepiece's own object.

    Raises:
        UserError: no such file, or not a sentencepiece model.
    """
    if not model.is_file():
        raise UserError(f"{model}: no such file; make it with: linformer data vocabulary")
    content = model.read_bytes()
    if not content:  # which sentencepiece takes for "no model yet"
        raise UserError(f"{model}: not a sentencepiece model: the file is empty")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=content)
    except (RuntimeError, UnicodeDecodeError) as error:  # of its message, which has parts of the file
        raise UserError(f"{model}: not a sentencepiece model ({' '.join(str(error).split())})") from None

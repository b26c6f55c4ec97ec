"""A sentencepiece model, unigram or BPE."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import sentencepiece

from data_prep.tokenizers.tokenizer import Ids, Tokenizer
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.sentencepiece_model import load_processor
from linformer_fairseq.files.tokenizers import SENTENCEPIECE


def pieces_of(processor: sentencepiece.SentencePieceProcessor, model: Path) -> dict[int, str]:
    """What stands in dict.txt for a model: piece by sentencepiece's id, without its control pieces.

    Raises:
        UserError: a piece that fairseq's dictionary cannot hold.
    """
    pieces: dict[int, str] = {}
    for index in range(processor.get_piece_size()):
        if processor.is_control(index) or processor.is_unknown(index):
            continue
        try:
            piece = processor.id_to_piece(index)
        except UnicodeDecodeError as error:
            raise UserError(f"{model}: damaged: piece {index} is not UTF-8 ({error})") from None
        if piece in (*dictionary.SPECIAL, dictionary.MASK):
            raise UserError(f"{model}: its piece {piece!r} is a special symbol of fairseq's dictionary")
        if any(character.isspace() for character in piece):
            raise UserError(
                f"{model}: its piece {piece!r} holds white space, at which fairseq would cut it; "
                "train another model with `linformer data vocabulary`"
            )
        pieces[index] = piece
    return pieces


class SentencePieceTokenizer(Tokenizer):
    """Ids through a sentencepiece model and the dict.txt beside it."""

    kind: ClassVar[str] = "sentencepiece"

    def __init__(self, folder: Path) -> None:
        """Load ``folder``'s model and dict.txt.

        Raises:
            UserError: a missing or damaged file, or a dictionary of another model.
        """
        model, dict_txt = folder / SENTENCEPIECE, folder / dictionary.NAME
        self._processor = load_processor(model)
        pieces = pieces_of(self._processor, model)
        ids = dictionary.index(dict_txt, pieces.values())
        super().__init__((model, dict_txt), dictionary.FIRST + len(ids))
        self._to_fairseq = np.full(self._processor.get_piece_size(), dictionary.UNK, dtype=np.int64)
        self._from_fairseq = np.full(len(self), self._processor.unk_id(), dtype=np.int64)
        for index, piece in pieces.items():
            self._to_fairseq[index] = ids[piece]
            self._from_fairseq[ids[piece]] = index
        self._marks_beginning = self._processor.normalize("a").startswith("▁")

    def decode(self, ids: Sequence[int] | Ids) -> str:
        array = np.asarray(ids, dtype=np.int64)
        kept = array[(array >= dictionary.UNK) & (array < len(self))]
        text: str = self._processor.decode(self._from_fairseq[kept].tolist())
        return text

    def _encode(self, lines: Sequence[str]) -> list[Ids]:
        # One thread: processes share out the work, and sentencepiece would start a thread per core in each.
        encoded = self._processor.encode(list(lines), num_threads=1)
        return [self._to_fairseq[np.asarray(ids, dtype=np.int64)] for ids in encoded]

    def _continue(self, text: str) -> str:
        # Most models put a blank before every text by themselves.
        return text if self._marks_beginning else " " + text

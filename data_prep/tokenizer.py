"""A sentencepiece model as fairseq sees it: pieces, fairseq's ids, and the dictionary between them."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import sentencepiece

from data_prep.errors import DataError
from data_prep.files import atomic_open

MODEL_NAME = "sentencepiece.bpe.model"
"""The file name that fairseq's XLM-R and CamemBERT hubs, and this project's models, look for."""

BOS, PAD, EOS, UNK = 0, 1, 2, 3
"""Ids that every ``fairseq.data.Dictionary`` begins with; the lines of dict.txt follow from 4."""
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


class Tokenizer:
    """Text to fairseq's ids through a sentencepiece model.

    sentencepiece's own control pieces are not in dict.txt; every other piece is, in the model's order.
    """

    def __init__(self, model: Path) -> None:
        """Load ``model``.

        Raises:
            DataError: no such file, not a sentencepiece model, or one whose pieces clash with fairseq's
                special symbols.
        """
        if not model.is_file():
            raise DataError(f"{model}: no such file; make it with: python -m data_prep.train_sentencepiece")
        self.model = model
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        except RuntimeError as error:
            raise DataError(f"{model}: not a sentencepiece model ({error})") from None
        processor = self._processor
        self.pieces: list[str] = []
        self._to_fairseq = np.full(processor.get_piece_size(), UNK, dtype=np.int64)
        for index in range(processor.get_piece_size()):
            if processor.is_control(index) or processor.is_unknown(index):
                continue
            piece = processor.id_to_piece(index)
            if piece in SPECIAL:
                raise DataError(f"{model}: its piece {piece!r} is a special symbol of fairseq's dictionary")
            self._to_fairseq[index] = len(SPECIAL) - 1 + len(self.pieces)
            self.pieces.append(piece)

    def __len__(self) -> int:
        """Size of the fairseq dictionary, without <mask>."""
        return len(SPECIAL) - 1 + len(self.pieces)

    def encode(self, text: str) -> npt.NDArray[np.int64]:
        """fairseq's ids of one line of text, shape (tokens,), without <s> and </s>."""
        return self._to_fairseq[np.asarray(self._processor.encode(text), dtype=np.int64)]

    def write_dictionary(self, path: Path, lines: Iterable[str]) -> None:
        """Write fairseq's dict.txt: a piece and its count in ``lines`` per line, in the order of the ids."""
        counts: Counter[int] = Counter()
        for line in lines:
            counts.update(self.encode(line).tolist())
        first = len(SPECIAL) - 1
        with atomic_open(path) as stream:
            for index, piece in enumerate(self.pieces, start=first):
                stream.write(f"{piece} {counts[index]}\n")

"""RoBERTa's tokenizer: GPT-2's byte-level BPE (Radford et al. 2019), run by tiktoken.

encoder.json maps tokens to numbers, vocab.bpe lists the merges in order, and dict.txt maps the numbers, written as
text, to fairseq's ids. With the same files, the ids equal those of fairseq's ``--bpe gpt2`` with
``fairseq-preprocess``.

The first two files are not read with ``tiktoken.load``: it caches a copy in a temporary folder and uses it even if the
file has changed; it requires that tokens are numbered in the order of the merges, as in OpenAI's files; and its errors
name neither file nor line.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import tiktoken

from data_prep.tokenizers.tokenizer import Ids, Tokenizer
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.gpt2_bpe import byte_letters, read_bpe
from linformer_fairseq.files.tokenizers import ENCODER, MERGES

# GPT-2's pattern: contractions, then words, numbers and marks with a blank before them, then white space, of which
# the last before a word is left to that word. Possessive (++) where nothing can follow that would need a step back.
_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


class GPT2Tokenizer(Tokenizer):
    """Ids through encoder.json, vocab.bpe and dict.txt."""

    kind: ClassVar[str] = "gpt2_bpe"

    def __init__(self, folder: Path) -> None:
        """Load ``folder``'s three files.

        Raises:
            UserError: a missing or damaged file, or files that do not belong together.
        """
        encoder, merges_file, dict_txt = (folder / name for name in (ENCODER, MERGES, dictionary.NAME))
        numbers, merges = read_bpe(encoder, merges_file)
        letters = byte_letters()
        tokens = [*letters, *map("".join, merges)]  # a token's place is its rank: merges with a lower one come first
        ids = dictionary.index(dict_txt, (str(number) for number in numbers.values()))
        super().__init__((encoder, merges_file, dict_txt), dictionary.FIRST + len(ids))
        self._bytes = [bytes(letters[letter] for letter in token) for token in tokens]
        self._engine = tiktoken.Encoding(
            "gpt2",
            pat_str=_PATTERN,
            mergeable_ranks={token: rank for rank, token in enumerate(self._bytes)},
            special_tokens={},
        )
        self._to_fairseq = np.array([ids[str(numbers[token])] for token in tokens], dtype=np.int64)
        self._rank = {int(index): rank for rank, index in enumerate(self._to_fairseq)}

    def decode(self, ids: Sequence[int] | Ids) -> str:
        ranks = (self._rank.get(int(index)) for index in ids)
        return b"".join(self._bytes[rank] for rank in ranks if rank is not None).decode("utf-8", "replace")

    def _encode(self, lines: Sequence[str]) -> list[Ids]:
        encode = self._engine.encode_ordinary
        return [self._to_fairseq[np.array(encode(line), dtype=np.int64)] for line in lines]

    def _continue(self, text: str) -> str:
        return " " + text

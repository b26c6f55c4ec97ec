"""RoBERTa's tokenizer: GPT-2's byte-level BPE (Radford et al. 2019), run by tiktoken.

encoder.json maps tokens to numbers, vocab.bpe lists the merges in order, and dict.txt maps the numbers, written as
text, to fairseq's ids. With the same files, the ids equal those of fairseq's ``--bpe gpt2`` with
``fairseq-preprocess``.

The first two files are not read with ``tiktoken.load``: it caches a copy in a temporary folder and uses it even if the
file has changed; it requires that tokens are numbered in the order of the merges, as in OpenAI's files; and its errors
name neither file nor line.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import tiktoken

from data_prep.tokenizers.tokenizer import Ids, Tokenizer
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.text import read_text
from linformer_fairseq.files.tokenizers import ENCODER, MERGES

END_OF_TEXT = "<|endoftext|>"
"""A token of encoder.json that no text is encoded to."""

# GPT-2's pattern: contractions, then words, numbers and marks with a blank before them, then white space, of which
# the last before a word is left to that word. Possessive (++) where nothing can follow that would need a step back.
_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def byte_letters() -> dict[str, int]:
    """The byte that each letter of encoder.json and vocab.bpe stands for.

    Printable bytes stand for themselves, the others, in order, are U+0100 and following.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return letters | {chr(0x100 + number): byte for number, byte in enumerate(others)}


def read_numbers(path: Path) -> dict[str, int]:
    """encoder.json: the number of every token.

    Raises:
        UserError: not a JSON object of numbers, or a byte without a token.
    """
    try:
        numbers = json.loads(read_text(path))
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
        raise UserError(f"{path}: expected a JSON object that gives each token a number, as in GPT-2's encoder.json")
    missing = [letter for letter in byte_letters() if letter not in numbers]
    if missing:
        raise UserError(f"{path}: no token for {len(missing)} of the 256 bytes, such as {missing[0]!r}")
    return numbers


def read_merges(path: Path) -> list[str]:
    """vocab.bpe: the tokens that merges make, in the order of the merges.

    Raises:
        UserError: a line that is not two parts, or a letter that stands for no byte.
    """
    merges = []
    letters = byte_letters()
    for number, line in enumerate(read_text(path).removesuffix("\n").split("\n"), start=1):
        if number == 1 and line.startswith("#version"):
            continue
        parts = line.rstrip("\r").split(" ")
        if len(parts) != 2 or not all(parts) or not all(letter in letters for part in parts for letter in part):
            raise UserError(f"{path}, line {number}: expected two parts of a merge, found {line[:80]!r}")
        merges.append("".join(parts))
    return merges


class GPT2Tokenizer(Tokenizer):
    """Ids through encoder.json, vocab.bpe and dict.txt."""

    kind: ClassVar[str] = "gpt2_bpe"

    def __init__(self, folder: Path) -> None:
        """Load ``folder``'s three files.

        Raises:
            UserError: a missing or damaged file, or files that do not belong together.
        """
        encoder, merges_file, dict_txt = (folder / name for name in (ENCODER, MERGES, dictionary.NAME))
        numbers, merges = read_numbers(encoder), read_merges(merges_file)
        letters = byte_letters()
        tokens = [*letters, *merges]  # a token's place is its rank: merges with a lower one come first
        unknown = [token for token in tokens if token not in numbers]
        if unknown or len(set(tokens)) < len(tokens) or len(numbers.keys() - set(tokens) - {END_OF_TEXT}):
            what = f"the merge {unknown[0]!r} is no token there" if unknown else "the numbers of tokens differ"
            raise UserError(f"{merges_file} and {encoder} do not belong together: {what}")
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

"""Hugging Face's byte-level BPE as fairseq's gpt2: encoder.json, vocab.bpe, dict.txt.

GPT-2 numbers its tokens in this order: the 256 bytes, the tokens that merges make, ``<|endoftext|>``. The merges are
enough to number them again, so that the numbers of Hugging Face's roberta-base are those of fairseq's roberta.base.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from linformer_fairseq.files import dictionary
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.gpt2_bpe import END_OF_TEXT, byte_letters, read_merges, write_merges
from linformer_fairseq.files.json_records import read_object, shortened
from linformer_fairseq.files.tokenizers import ENCODER, MERGES

_USUAL = (
    ("pre_tokenizer", "use_regex", True),
    ("model", "continuing_subword_prefix", ""),
    ("model", "end_of_word_suffix", ""),
)
"""Where tokenizer.json has options that make other tokens of a text, and the only value that fairseq's gpt2 has."""


class _Tokenizer(NamedTuple):
    path: Path
    ids: dict[str, int]
    merges: list[str]
    """Two parts each, with a blank between them."""
    adds_space: bool


def write_tokenizer(folder: Path, out: Path, rows: int) -> tuple[list[int], list[str]]:
    """Write the tokenizer of a folder as fairseq reads it.

    Args:
        folder: with tokenizer.json, or vocab.json and merges.txt.
        out: existing folder.
        rows: of the model's token embeddings.

    Returns:
        Hugging Face's id of each of fairseq's symbols, ``<mask>`` last; and remarks on what is different there.

    Raises:
        UserError: the tokenizer is no byte-level BPE with RoBERTa's special tokens, or its files are damaged.
    """
    tokenizer = _read(folder)
    path, ids = tokenizer.path, tokenizer.ids
    special = (*dictionary.SPECIAL, dictionary.MASK)
    pieces = list(dict.fromkeys([*byte_letters(), *(merge.replace(" ", "") for merge in tokenizer.merges)]))
    if END_OF_TEXT in ids:
        pieces.append(END_OF_TEXT)
    if missing := [token for token in (*special, *pieces) if token not in ids]:
        raise UserError(
            f"{path}: has no token {missing[0][:80]!r}; expected RoBERTa's byte-level BPE, with {', '.join(special)}, "
            "all 256 bytes and what the merges make"
        )
    if max(ids.values()) >= rows or len(set(ids.values())) < len(ids):
        raise UserError(f"{path}: its ids do not fit the {rows:,} token embeddings of the model")
    numbers = {piece: number for number, piece in enumerate(pieces)}
    others = sorted((token for token in ids if token not in special), key=ids.__getitem__)
    names = _names(others, numbers)
    dictionary.write(out / dictionary.NAME, ((names[token], 1) for token in others))
    write_file(out / ENCODER, json.dumps(numbers))
    # fairseq skips the first line
    write_merges(out / MERGES, tokenizer.merges)
    order = [ids[token] for token in (*dictionary.SPECIAL, *others, dictionary.MASK)]
    added = [token for token in others if token not in numbers and not dictionary.is_filler(token)]
    return order, _remarks(tokenizer, order, rows, added)


def _names(tokens: list[str], numbers: dict[str, int]) -> dict[str, str]:
    """Names in dict.txt: the number of a piece; fairseq's name of a filler for what no text is encoded to."""
    taken = {token for token in tokens if dictionary.is_filler(token)}
    free = (name for name in dictionary.filler_names() if name not in taken)
    return {
        token: str(numbers[token]) if token in numbers else token if token in taken else next(free) for token in tokens
    }


def _remarks(tokenizer: _Tokenizer, order: list[int], rows: int, added: list[str]) -> list[str]:
    remarks = []
    if tokenizer.adds_space:
        remarks.append("the source's tokenizer puts a blank before a text, fairseq's does not")
    if added:
        remarks.append(
            f"{len(added):,} added tokens keep their embeddings, but no text is encoded to them: {added[0]!r}"
        )
    if len(order) < rows:
        remarks.append(f"{rows - len(order):,} rows of the token embeddings are left out: they have no token")
    if order != sorted(order):
        remarks.append("the symbols are in another order: <s>, <pad>, </s>, <unk> first and <mask> last")
    return remarks


def _read(folder: Path) -> _Tokenizer:
    if (folder / "tokenizer.json").is_file():
        return _from_tokenizer_json(folder / "tokenizer.json")
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    for path in (vocabulary, merges):
        if not path.is_file():
            raise UserError(f"{path}: no such file; expected tokenizer.json, or vocab.json and merges.txt")
    pairs = [" ".join(parts) for parts in read_merges(merges)]
    return _checked(vocabulary, read_object(vocabulary), pairs, adds_space=False)


def _from_tokenizer_json(path: Path) -> _Tokenizer:
    found = read_object(path)
    try:
        model, before, normalizer = (found.get(part) or {} for part in ("model", "pre_tokenizer", "normalizer"))
        kinds = model.get("type"), before.get("type"), normalizer.get("type")
        added = {token["content"]: token["id"] for token in found.get("added_tokens") or ()}
        merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model.get("merges") or ()]
        ids = {**(model.get("vocab") or {}), **added}
    except (AttributeError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the tokenizer.json of a byte-level BPE [{error!r}]") from None
    if kinds != ("BPE", "ByteLevel", None):
        raise UserError(
            f"{path}: model {kinds[0]}, pre_tokenizer {kinds[1]}, normalizer {kinds[2]}; expected RoBERTa's: BPE, "
            "ByteLevel and none"
        )
    for part, name, expected in _USUAL:
        if (value := found[part].get(name)) not in (None, expected):
            raise UserError(f"{path}: {part}.{name} is {shortened(value)}; expected RoBERTa's, {expected!r}")
    return _checked(path, ids, merges, bool(before.get("add_prefix_space")))


def _checked(path: Path, ids: dict[str, Any], merges: list[str], adds_space: bool) -> _Tokenizer:
    if not ids or not all(type(number) is int and number >= 0 for number in ids.values()):
        raise UserError(f"{path}: expected an id for each token")
    if wrong := next((merge for merge in merges if merge.count(" ") != 1), None):
        raise UserError(f"{path}: expected two parts of each merge, found {wrong[:80]!r}")
    return _Tokenizer(path, ids, merges, adds_space)

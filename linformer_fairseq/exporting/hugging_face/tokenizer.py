"""A fast tokenizer of Hugging Face's tokenizers for each kind of ours, with the same ids."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from linformer_fairseq.files import dictionary
from linformer_fairseq.files.dictionary import BOS, EOS, MASK, SPECIAL, UNK
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.gpt2_bpe import read_bpe

_BLANK = "\u2581"
_UNIGRAM, _BPE = 1, 2
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6
"""sentencepiece's numbers for algorithms and for kinds of pieces."""


def fast_tokenizer(files: dict[str, str], dict_txt: Path) -> Tokenizer:
    """Makes the tokenizer, which puts ``<s>`` and ``</s>`` around a text, and ``</s></s>`` between two.

    Args:
        files: of our tokenizer, as `files.tokenizers.find_tokenizer` returns them.
        dict_txt: fairseq's dictionary of the same tokenizer.

    Raises:
        UserError: the files cannot be read, do not belong together, or use something of sentencepiece that the fast
            tokenizer does not have.
    """
    if files["bpe"] == "sentencepiece":
        tokenizer = _sentencepiece(Path(files["sentencepiece_model"]), dict_txt)
    else:
        tokenizer = _gpt2(Path(files["gpt2_encoder_json"]), Path(files["gpt2_vocab_bpe"]), dict_txt)
    begin, end = SPECIAL[BOS], SPECIAL[EOS]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} {end} $B {end}",
        special_tokens=[(begin, BOS), (end, EOS)],
    )
    tokenizer.add_special_tokens(
        [
            *(AddedToken(symbol, normalized=False, special=True) for symbol in SPECIAL),
            AddedToken(MASK, lstrip=True, normalized=False, special=True),  # a blank belongs to the token after it
        ]
    )
    return tokenizer


def _ids(dict_txt: Path, pieces: Iterable[str]) -> dict[str, int]:
    """The id of every symbol of the model, special ones and fillers included, in the order of the ids."""
    dictionary.index(dict_txt, pieces)
    symbols = dictionary.without_padding(dictionary.read_vocabulary(dict_txt))
    return {symbol: number for number, symbol in enumerate(symbols)}


def _sentencepiece(path: Path, dict_txt: Path) -> Tokenizer:
    proto = _proto(path)
    kinds = {piece.piece: piece.type for piece in proto.pieces}
    scores = {piece.piece: piece.score for piece in proto.pieces if piece.type in (_NORMAL, _BYTE)}
    _check_options(path, proto, kinds)
    ids = _ids(dict_txt, scores)
    bytes_for_unknown = proto.trainer_spec.byte_fallback
    if proto.trainer_spec.model_type == _UNIGRAM:
        scored = [(symbol, scores.get(symbol, 0.0)) for symbol in ids]
        model: Any = models.Unigram(scored, unk_id=UNK, byte_fallback=bytes_for_unknown)
    else:
        normal = {piece: score for piece, score in scores.items() if kinds[piece] == _NORMAL}
        model = models.BPE(
            ids,
            _merges(normal),
            unk_token=SPECIAL[UNK],
            fuse_unk=True,
            byte_fallback=bytes_for_unknown,
        )
    tokenizer = Tokenizer(model)
    # tokenizers applies the charsmap to each character, sentencepiece to sequences, too: to a letter and its marks, and
    # to halfwidth kana, which are only composed once they have been replaced.
    composed = [normalizers.NFC()] if "nfkc" in proto.normalizer_spec.name else []
    tokenizer.normalizer = normalizers.Sequence(
        [
            *composed,
            *_charsmap(path, proto.normalizer_spec.precompiled_charsmap),
            *composed,
            normalizers.Replace(Regex(" {2,}"), " "),
            normalizers.Replace(Regex(r" \z"), ""),
        ]
    )
    # "first": the text after a <mask> does not begin with a blank of its own.
    within = any(_BLANK in piece[1:] for piece in scores)
    words = pre_tokenizers.Metaspace(_BLANK, prepend_scheme="first", split=not within)
    # Whole, a <0x41> that the text has would be taken for the piece of the byte 0x41.
    literals = pre_tokenizers.Split(Regex("(?<=<)(?=0x[0-9A-F]{2}>)"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, literals])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_BLANK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", left=1)]
    )
    return tokenizer


def _charsmap(path: Path, charsmap: bytes) -> list[normalizers.Normalizer]:
    try:
        return [normalizers.Precompiled(charsmap)] if charsmap else []
    except Exception as error:  # tokenizers has no type of its own for it
        raise UserError(f"{path}: damaged: {error}") from None


def _proto(path: Path) -> Any:
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        proto.ParseFromString(path.read_bytes())
    except DecodeError as error:
        raise UserError(f"{path}: not a sentencepiece model ({error})") from None
    return proto


def _check_options(path: Path, proto: Any, kinds: dict[str, int]) -> None:
    """Raise where the model has something that our data preparation never asks for."""
    normalizer = proto.normalizer_spec
    expected = {
        "a unigram or BPE model": proto.trainer_spec.model_type in (_UNIGRAM, _BPE),
        "add_dummy_prefix": normalizer.add_dummy_prefix,
        "remove_extra_whitespaces": normalizer.remove_extra_whitespaces,
        "escape_whitespaces": normalizer.escape_whitespaces,
        "no treat_whitespace_as_suffix": not proto.trainer_spec.treat_whitespace_as_suffix,
        "no user-defined or unused pieces": set(kinds.values()) <= {_NORMAL, _UNKNOWN, _CONTROL, _BYTE},
    }
    if missing := [option for option, found in expected.items() if not found]:
        raise UserError(
            f"{path}: cannot be made a fast tokenizer with the same ids: expected {', '.join(missing)}; train the "
            "tokenizer with `linformer data vocabulary`"
        )


def _merges(scores: dict[str, float]) -> list[tuple[str, str]]:
    """The merges of sentencepiece's BPE, which has pieces alone: two pieces make the best one that is their sum."""
    merges = []
    for piece in sorted(scores, key=lambda piece: -scores[piece]):
        parts = ((piece[:cut], piece[cut:]) for cut in range(1, len(piece)))
        merges += [pair for pair in parts if pair[0] in scores and pair[1] in scores]
    return merges


def _gpt2(encoder: Path, merges_file: Path, dict_txt: Path) -> Tokenizer:
    numbers, merges = read_bpe(encoder, merges_file)
    ids = _ids(dict_txt, map(str, numbers.values()))
    named = {str(number): token for token, number in numbers.items()}
    # fairseq's dictionary has the numbers of encoder.json as symbols, and others that no text is encoded to.
    vocabulary = {named.get(symbol, symbol): number for symbol, number in ids.items()}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def tokenizer_config(max_positions: int, cut: str) -> dict[str, Any]:
    """The content of tokenizer_config.json.

    Args:
        max_positions: tokens of the longest input.
        cut: what was done to longer texts of the training data: one of `files.cuts.CUTS`. Without a counterpart of
            ``head+tail`` and ``windows``, the beginning is kept, as of other models.
    """
    names = {"bos_token": BOS, "cls_token": BOS, "eos_token": EOS, "sep_token": EOS, "pad_token": dictionary.PAD}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{name: SPECIAL[number] for name, number in names.items()},
        "unk_token": SPECIAL[UNK],
        "mask_token": MASK,
        "model_max_length": max_positions,
        "model_input_names": ["input_ids", "attention_mask"],
        "padding_side": "right",
        "truncation_side": "left" if cut == "tail" else "right",
        "clean_up_tokenization_spaces": False,
    }

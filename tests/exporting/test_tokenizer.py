"""The fast tokenizer has the ids of ours."""

from __future__ import annotations

import io
import pydoc_data.topics
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from data_prep.tokenizers import loading, sentencepiece_model
from linformer_fairseq.exporting.hugging_face.tokenizer import fast_tokenizer
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.dictionary import BOS, EOS, MASK, NAME
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.tokenizers import SENTENCEPIECE, find_tokenizer
from tests.data_prep.small_tokenizers import make_gpt2, make_sentencepiece, text

AWKWARD = [
    "",
    " ",
    "   \t ",
    "  leading and trailing  ",
    "tabs\tand\u00a0no-break\u2003spaces  in   a row",
    "zero\u200bwidth, soft\u00adhyphen, bell\x07, \ufeffmark",
    "ﬁne ﬂour ½ ² ① ™ Ⅷ \uff46\uff55\uff4c\uff4c ㍿",
    "naïve nai\u0308ve Ångström A\u030angstro\u0308m ﷺ",
    "각 \u1100\u1161\u11a8 が か\u3099 漢字かな交じり文",
    "मराठी नि ไทยคำ עִבְרִית عَرَبِيّ",
    "emoji 👩‍👩‍👧 🇩🇪 👍🏽 ❤️",
    "e" + "\u0301" * 5 + " q\u0323\u0307",
    "Tie\u0302\u0301ng Vie\u0323\u0302t \uff76\uff9e\uff8a\uff9f",
    "see <0x0A> here, <0x41><0xFF> and <<0x41>> but not <0x4> or <0xzz>",
    "don't we'll 'S 123,456.78 x+=y;  #!/bin/sh\\n",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaa bbbbb ababababab",
    "\U0010ffff \ue000 \ud7ff",
]


def documents() -> list[str]:
    """The lines of Python's manual topics, without rows of the same sign.

    Of these, several segmentations have the same score; in sentencepiece, rounding to fp32 decides.
    """
    lines = "\n".join(pydoc_data.topics.topics.values()).split("\n")
    return [line for line in lines if not re.search(r"([-=+*01])\1{2}", line)]


def make_bpe(folder: Path, byte_fallback: bool) -> Path:
    import sentencepiece

    folder.mkdir()
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(documents()),
        model_writer=model,
        model_type="bpe",
        vocab_size=1000,
        byte_fallback=byte_fallback,
        character_coverage=1.0 if byte_fallback else 0.99,
        normalization_rule_name="identity",
        num_threads=1,
        minloglevel=2,
    )
    path = folder / SENTENCEPIECE
    path.write_bytes(model.getvalue())
    pieces = list(sentencepiece_model.pieces_of(sentencepiece_model.load_processor(path), path).values())
    dictionary.write(folder / NAME, ((piece, 1) for piece in reversed(pieces)))  # ids in another order
    return folder


@pytest.fixture(scope="module", params=["unigram", "no_bytes", "bpe", "bpe_no_bytes", "gpt2"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("tokenizer") / request.param
    if request.param == "gpt2":
        return make_gpt2(made)
    byte_fallback = not request.param.endswith("no_bytes")
    make = make_bpe if request.param.startswith("bpe") else make_sentencepiece
    return make(made, byte_fallback=byte_fallback)


def fast(folder: Path) -> Tokenizer:
    return fast_tokenizer(find_tokenizer([folder]), folder / NAME)


def differences(ours: Any, theirs: Tokenizer, lines: list[str]) -> list[str]:
    """The lines that the two encode to different ids."""
    encoded = theirs.encode_batch(lines, add_special_tokens=False)
    pairs = zip(lines, ours.encode_lines(lines), encoded, strict=True)
    return [line for line, expected, found in pairs if expected.tolist() != found.ids]


def test_ids_are_ours(folder: Path) -> None:
    lines = [*AWKWARD, *text(20).split("\n"), *documents()]
    assert differences(loading.load_tokenizer(folder), fast(folder), lines) == []


def test_special_symbols_and_pairs(folder: Path) -> None:
    tokenizer, ours = fast(folder), loading.load_tokenizer(folder)
    symbols = dictionary.read_vocabulary(folder / NAME)
    for number in (*range(dictionary.FIRST), len(symbols) - 1):
        assert tokenizer.token_to_id(symbols[number]) == number
    assert tokenizer.get_vocab_size() == len(symbols)
    one, other = list(ours.encode("the value")), list(ours.encode("a list"))
    assert tokenizer.encode("the value").ids == [BOS, *one, EOS]
    assert tokenizer.encode("the value", "a list").ids == [BOS, *one, EOS, EOS, *other, EOS]


def test_decoding_returns_the_text(folder: Path) -> None:
    line = "the value is given" if folder.name == "bpe_no_bytes" else "the naïve value 42 is given"  # without <unk>
    tokenizer = fast(folder)
    assert tokenizer.decode(tokenizer.encode(line).ids) == loading.load_tokenizer(folder).decode(
        loading.load_tokenizer(folder).encode(line)
    )


@pytest.mark.slow
def test_every_character_of_unicode(exported: Path) -> None:
    """One by one, between letters, with the model that comes with the package."""
    ours, theirs = loading.load_tokenizer(exported), Tokenizer.from_file(str(exported / "tokenizer.json"))
    characters = [chr(code) for code in range(1, 0x30000) if unicodedata.category(chr(code)) not in ("Cs", "Cn")]
    characters.remove("\u0344")  # deprecated: NFC takes it apart
    lines = [f"a{character}b {character}" for character in characters]
    assert differences(ours, theirs, lines) == []


def test_the_shipped_tokenizer_on_text(exported: Path) -> None:
    ours, theirs = loading.load_tokenizer(exported), Tokenizer.from_file(str(exported / "tokenizer.json"))
    assert differences(ours, theirs, [*AWKWARD, *documents()]) == []


@pytest.mark.parametrize(
    "masked",
    [
        "He opened the <mask> and walked into the room.",
        "<mask> is good.",
        "It is <mask>.",
        "un<mask>able things",
        "the end <mask>",
        "the end<mask>",
    ],
)
def test_a_mask_in_a_text_is_encoded_as_by_fill_mask(exported: Path, hub: Any, masked: str) -> None:
    seen: list[list[int]] = []
    hook = hub.model.register_forward_pre_hook(lambda _, args: seen.append(args[0][0].tolist()))
    hub.fill_mask(masked)
    hook.remove()
    tokenizer = Tokenizer.from_file(str(exported / "tokenizer.json"))
    assert tokenizer.encode(masked).ids == seen[0]
    assert seen[0].count(tokenizer.token_to_id(MASK)) == 1


def test_models_with_other_options_are_refused(tmp_path: Path) -> None:
    import sentencepiece

    for number, changes in enumerate(({"remove_extra_whitespaces": False}, {"user_defined_symbols": ["<sep>"]})):
        folder = tmp_path / str(number)
        folder.mkdir()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text(60).split("\n")), model_writer=model, vocab_size=120, minloglevel=2, **changes
        )
        path = folder / SENTENCEPIECE
        path.write_bytes(model.getvalue())
        pieces = sentencepiece_model.pieces_of(sentencepiece_model.load_processor(path), path)
        dictionary.write(folder / NAME, ((piece, 1) for piece in pieces.values()))
        with pytest.raises(UserError, match=next(iter(changes)).replace("_symbols", "").replace("user_", "user-")):
            fast(folder)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    folder = make_sentencepiece(tmp_path / "one")
    (folder / NAME).write_text("other 1\n")
    with pytest.raises(UserError, match="does not fit the tokenizer"):
        fast(folder)
    (folder / SENTENCEPIECE).write_bytes(b"\xff\xff")
    with pytest.raises(UserError, match="not a sentencepiece model"):
        fast(folder)

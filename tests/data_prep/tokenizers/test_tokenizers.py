"""Tokenizers: fairseq's ids, text and back, very long lines, and files that do not belong together."""

import json
import os
import random
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from data_prep.tokenizers import Tokenizer, copy_tokenizer, load_tokenizer, tokenizer, tokenizer_folder
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.dictionary import EOS, UNK
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.shipped import shipped_folder
from tests.data_prep.processes import bytes_of
from tests.data_prep.small_tokenizers import make_gpt2, make_sentencepiece, text

ODD = [
    "",
    " ",
    "  two  blanks  ",
    "tab\tand no-break\u00a0and ideographic\u3000blank",
    "I'm, you're, he'd; it's 'SO' it'll we've",
    "12,345.67 % of ½ + x² <unk> </s> <mask> <|endoftext|>",
    "漢字 Ελληνικά naïve e\u0301 🤖👩‍👩‍👧",
    "trailing blank ",
]


@pytest.fixture(scope="module", params=["gpt2", "sentencepiece"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    make = make_gpt2 if request.param == "gpt2" else make_sentencepiece
    return make(tmp_path_factory.mktemp("tokenizer"))


@pytest.fixture
def loaded(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


def fairseq_ids(folder: Path, lines: list[str]) -> list[list[int]]:
    """By fairseq's own tokenizers and dictionary."""
    from fairseq.data import Dictionary
    from fairseq.data.encoders.gpt2_bpe import GPT2BPE, GPT2BPEConfig
    from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

    bpe = (
        GPT2BPE(GPT2BPEConfig(gpt2_encoder_json=str(folder / "encoder.json"), gpt2_vocab_bpe=str(folder / "vocab.bpe")))
        if (folder / "encoder.json").exists()
        else SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(folder / "sentencepiece.bpe.model")))
    )
    symbols = Dictionary.load(str(folder / "dict.txt"))
    return [
        symbols.encode_line(
            bpe.encode(line), append_eos=False, add_if_not_exist=False, line_tokenizer=str.split
        ).tolist()
        for line in lines
    ]


def test_ids_are_fairseqs(folder: Path, loaded: Tokenizer) -> None:
    lines = [*text(40).split("\n"), *ODD]
    found = loaded.encode_lines(lines)
    assert [ids.tolist() for ids in found] == fairseq_ids(folder, lines)
    assert all(ids.dtype == np.int64 for ids in found)
    assert max(map(max, filter(len, found))) < len(loaded)
    assert loaded.encode(lines[0]).tolist() == found[0].tolist()


@pytest.mark.slow
@pytest.mark.skipif("LINFORMER_DATA" not in os.environ, reason="LINFORMER_DATA does not name a folder of real data")
def test_robertas_ids_on_real_text_are_fairseqs() -> None:
    import lzma

    data = Path(os.environ["LINFORMER_DATA"])
    with lzma.open(data / "corpus" / "wiki.txt.xz", "rt", encoding="utf-8", newline="\n") as stream:
        lines = [*stream.read(400_000).split("\n"), *ODD]
    found = load_tokenizer(data / "bpe").encode_lines(lines)
    assert [ids.tolist() for ids in found] == fairseq_ids(data / "bpe", lines)


def test_text_comes_back(loaded: Tokenizer) -> None:
    for line in ODD:
        back = loaded.decode(loaded.encode(line))
        if loaded.kind == "gpt2_bpe":
            assert back == line
        else:  # sentencepiece's NFKC and single blanks
            assert back.split() == unicodedata.normalize("NFKC", line).split()


def test_special_ids_are_no_text(loaded: Tokenizer) -> None:
    ids = loaded.encode("the value")
    assert loaded.decode([0, *ids.tolist(), EOS, 1, len(loaded)]) == "the value"


@pytest.mark.parametrize("length", [300, 20_000])
def test_long_lines_have_the_ids_of_their_whole(
    loaded: Tokenizer, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    generator = random.Random(1)
    line = " ".join(generator.choices([*ODD, *text(3).split()], k=length))
    expected = loaded.encode(line).tolist()
    monkeypatch.setattr(tokenizer, "LONG", 50)
    assert loaded.encode_lines(["x", line])[1].tolist() == expected


def test_a_word_without_end_is_refused(loaded: Tokenizer) -> None:
    with pytest.raises(UserError, match="1,000,001 characters without a blank between words.*they begin with 'xxx"):
        loaded.encode("a b " * 100_000 + "x" * 1_000_001 + " b")


def test_a_long_word_behind_others_has_an_end(loaded: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "a b " * 30 + "x" * 95 + " b"
    expected = loaded.encode(line).tolist()
    monkeypatch.setattr(tokenizer, "LONG", 50)
    monkeypatch.setattr(tokenizer, "LONGEST_WORD", 100)
    assert loaded.encode(line).tolist() == expected


def test_words_that_are_not_one_blank_apart_have_an_end(loaded: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    line = "the  value\t naïve" * 50
    expected = loaded.encode(line).tolist()
    monkeypatch.setattr(tokenizer, "LONG", 50)
    monkeypatch.setattr(tokenizer, "LONGEST_WORD", 100)
    assert loaded.encode(line).tolist() == expected


def test_it_is_found_from_a_folder_or_a_file_and_copied(folder: Path, loaded: Tokenizer, tmp_path: Path) -> None:
    assert load_tokenizer(folder / "dict.txt").describe() == loaded.describe()
    copy_tokenizer(loaded, tmp_path)
    assert load_tokenizer(tmp_path).describe() == loaded.describe()
    copy_tokenizer(load_tokenizer(tmp_path), tmp_path)  # onto itself
    assert set(bytes_of(tmp_path)) == {path.name for path in loaded.files}


def test_a_dictionary_of_another_order_gives_its_ids(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    symbols = dictionary.read_symbols(tmp_path / "dict.txt")
    dictionary.write(tmp_path / "dict.txt", [(symbol, 1) for symbol in [*reversed(symbols), "madeupword0000"]])
    assert load_tokenizer(tmp_path).encode("the value").tolist() == fairseq_ids(tmp_path, ["the value"])[0]


_DAMAGES: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("dict.txt", lambda raw: raw.split(b"\n", 1)[1], "does not fit the tokenizer beside it: 1 of"),
    ("dict.txt", lambda raw: raw + b"foreign 3\n", "it has 1 more, such as 'foreign'"),
    ("dict.txt", lambda raw: raw + raw.split(b"\n")[0] + b"\n", "stands there twice"),
    ("dict.txt", lambda raw: raw + b"nocount\n", "expected a symbol, a blank and its count, found 'nocount'"),
    ("dict.txt", lambda raw: b"\xef\xbb\xbf" + raw, "begins with a byte order mark"),
    ("dict.txt", lambda raw: b"\xff" + raw, "not UTF-8: byte 0xff at offset 0"),
    ("encoder.json", lambda raw: raw[:-5], "not JSON"),
    ("encoder.json", lambda raw: b"[1]", "expected a JSON object"),
    ("encoder.json", lambda raw: json.dumps({"a": 1}).encode(), "no token for 255 of the 256 bytes"),
    ("encoder.json", lambda raw: b"\xef\xbb\xbf" + raw, "begins with a byte order mark"),
    ("vocab.bpe", lambda raw: raw.removesuffix(b"\n"), "expected a first line #version and a line feed at the end"),
    ("vocab.bpe", lambda raw: raw.split(b"\n", 1)[1], "expected a first line #version and a line feed at the end"),
    ("vocab.bpe", lambda raw: raw + b"x y\n", "do not belong together: the merge 'xy' is no token there"),
    ("vocab.bpe", lambda raw: raw + b"three parts here\n", "expected two parts of a merge"),
    ("vocab.bpe", lambda raw: raw.rsplit(b"\n", 2)[0] + b"\n", "the numbers of tokens differ"),
    ("sentencepiece.bpe.model", lambda raw: raw[:200], "not a sentencepiece model"),
    ("sentencepiece.bpe.model", lambda raw: b"", "not a sentencepiece model"),
]
_KINDS = {"encoder.json": ["gpt2"], "vocab.bpe": ["gpt2"], "sentencepiece.bpe.model": ["sentencepiece"]}


@pytest.mark.parametrize(
    ("folder", "name", "change", "expected"),
    [(kind, *damage) for damage in _DAMAGES for kind in _KINDS.get(damage[0], ["gpt2", "sentencepiece"])],
    indirect=["folder"],
)
def test_damaged_files_are_named(
    folder: Path, tmp_path: Path, name: str, change: Callable[[bytes], bytes], expected: str
) -> None:
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / name).write_bytes(change((tmp_path / name).read_bytes()))
    with pytest.raises(UserError) as caught:
        load_tokenizer(tmp_path)
    assert expected in str(caught.value) and name in str(caught.value)


def test_folders_without_or_with_two_tokenizers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no tokenizer; expected a folder"):
        load_tokenizer(tmp_path)
    with pytest.raises(UserError, match="no tokenizer; expected a folder"):
        load_tokenizer(tmp_path / "absent")
    make_gpt2(tmp_path)
    make_sentencepiece(tmp_path)
    with pytest.raises(UserError, match="holds two tokenizers"):
        load_tokenizer(tmp_path)
    (tmp_path / "encoder.json").unlink()
    (tmp_path / "vocab.bpe").unlink()
    (tmp_path / "dict.txt").unlink()
    with pytest.raises(UserError, match=r"dict.txt: no such file"):
        load_tokenizer(tmp_path)


def test_a_padded_dictionary_keeps_every_id(loaded: Tokenizer, tmp_path: Path) -> None:
    """A multiple of 8 once fairseq's tasks have <mask>; the padding is what fairseq itself adds."""
    from fairseq.data import Dictionary

    copy_tokenizer(loaded, tmp_path)
    expected = Dictionary.load(str(tmp_path / "dict.txt"))
    expected.add_symbol("<mask>")
    unpadded = len(expected)
    expected.pad_to_multiple_(8)
    dictionary.pad(tmp_path / "dict.txt")
    found = Dictionary.load(str(tmp_path / "dict.txt"))
    assert found.symbols == expected.symbols and len(found) % 8 == 0
    assert found.add_symbol("<mask>") == expected.index("<mask>") == unpadded - 1
    again = load_tokenizer(tmp_path)
    assert len(again) == len(loaded)
    for line in ODD:
        ids = again.encode(line).tolist()
        assert ids == loaded.encode(line).tolist()
        assert again.decode([0, *ids, unpadded - 1, len(found) - 1, EOS]) == loaded.decode(ids)
    before = (tmp_path / "dict.txt").read_bytes()
    dictionary.pad(tmp_path / "dict.txt")
    assert (tmp_path / "dict.txt").read_bytes() == before


def test_unknown_pieces_become_unk(tmp_path: Path) -> None:
    assert UNK in load_tokenizer(make_sentencepiece(tmp_path, byte_fallback=False)).encode("Ж")


def test_a_model_of_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("linformer-small").mkdir()  # names take precedence, as for models
    assert tokenizer_folder("linformer-small") == shipped_folder("linformer-small")
    load_tokenizer(tokenizer_folder("linformer-small"))
    for name in ("./linformer-small", "linformer-smal"):
        with pytest.raises(UserError, match=f"^{Path(name)}: no tokenizer; .*linformer-small"):
            load_tokenizer(tokenizer_folder(name))

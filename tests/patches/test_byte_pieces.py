"""What a tokenizer with byte fallback encodes comes back as it was."""

import pytest
import sentencepiece
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.files.byte_pieces import join_byte_pieces


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> SentencepieceBPE:
    folder = tmp_path_factory.mktemp("tokenizer")
    (folder / "text").write_text("the quick brown fox jumps over the lazy dog <0x41>\n" * 20)
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"),
        model_prefix=str(folder / "m"),
        vocab_size=320,
        hard_vocab_limit=False,
        byte_fallback=True,
        minloglevel=2,
    )
    return SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(folder / "m.model")))


@pytest.mark.parametrize(
    "text", ["naïve café", "日本語 the fox", 'x^2 ~ "quotes"', "the dog", "a 🦊 jumps", "<0x41> fox"]
)
def test_decode_undoes_encode(tokenizer: SentencepieceBPE, text: str) -> None:
    pieces = tokenizer.encode(text)
    if not text.isascii():
        assert "<0x" in pieces, "the test wants a text that is spelt in bytes"
    assert tokenizer.decode(pieces) == text


def test_half_a_character_is_said_to_be_one() -> None:
    assert join_byte_pieces("▁caf <0xC3>") == "▁caf \ufffd"
    assert join_byte_pieces("▁caf <0xC3> <0xA9> s") == "▁caf é s"

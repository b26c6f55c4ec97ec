"""Any text survives preparing, binarising, fairseq's loader and decoding, but for the normalisation documented."""

import functools
import json
import os
import tempfile
import unicodedata
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from data_prep import build_corpus
from data_prep.binarize import binarize
from data_prep.corpus.cleaning import Cleaning
from data_prep.corpus.run import CorpusOptions
from data_prep.sources import parse_source
from data_prep.support.splits import Shares
from data_prep.tokenizers import load_tokenizer
from linformer_fairseq.checkpoints.released_folder import tokenizer_files
from linformer_fairseq.files.tokenizers import find_tokenizer
from tests.data_prep.small_tokenizers import make_gpt2, make_sentencepiece

_DATA = os.environ.get("LINFORMER_DATA")


@pytest.fixture(scope="module", params=["gpt2", "sentencepiece", pytest.param("roberta", marks=pytest.mark.slow)])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if request.param == "roberta":
        if not _DATA:
            pytest.skip("LINFORMER_DATA does not name a folder of real data")
        return Path(_DATA) / "bpe"
    folder = tmp_path_factory.mktemp("tokenizer")
    return make_gpt2(folder) if request.param == "gpt2" else make_sentencepiece(folder)


def cleaned(document: str) -> list[str]:
    """What build_corpus documents, in other words: control characters and white space become single blanks."""
    lines = []
    for line in document.split("\n"):
        blanked = (" " if unicodedata.category(c) == "Cc" or c == "\ufeff" or c.isspace() else c for c in line)
        lines.append(" ".join(word for word in "".join(blanked).split(" ") if word))
    return [line for line in lines if line]


def normalised(line: str, tokenizer: Path) -> str:
    """What sentencepiece documents: NFKC and more (its nmt_nfkc); GPT-2's BPE changes nothing."""
    model = tokenizer / "sentencepiece.bpe.model"
    if not model.exists():
        return line
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return str(processor.normalize(line)).replace("▁", " ").strip()


def prepare(documents: list[str], tokenizer: Path, folder: Path) -> Path:
    """From JSON lines to the folder that fairseq reads."""
    (folder / "in.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    options = CorpusOptions(Shares(valid=0.0), Cleaning(), deduplicate="none", shard_bytes=30)
    build_corpus.build_corpus(folder / "corpus", [parse_source(str(folder / "in.jsonl"))], options)
    binarize([folder / "corpus"], tokenizer, folder / "bin", workers=1)
    return folder / "bin"


@functools.cache
def fairseqs_encoder(tokenizer: Path) -> Any:
    """Found as from_pretrained finds it; that of RoBERTa takes half a second."""
    from fairseq.data import encoders

    return encoders.build_bpe(Namespace(**find_tokenizer([tokenizer])))


ours = functools.cache(load_tokenizer)


class Reader:
    """fairseq alone: its dictionary, its loader and its encoder, with the tokenizer that the data were made with."""

    def __init__(self, data: Path, tokenizer: Path) -> None:
        from fairseq.data import Dictionary

        for file in tokenizer_files(tokenizer):
            assert (data / file.name).read_bytes() == file.read_bytes()
        self.data = data
        self.dictionary = Dictionary.load(str(data / "dict.txt"))
        self.bpe = fairseqs_encoder(tokenizer)

    def items(self) -> list[Any]:
        from fairseq.data import data_utils

        return list(data_utils.load_indexed_dataset(str(self.data / "train"), self.dictionary))

    def encode(self, line: str) -> list[int]:
        ids: list[int] = self.dictionary.encode_line(self.bpe.encode(line), add_if_not_exist=False).tolist()
        return ids

    def decode(self, ids: Any) -> str:
        """As the hub interface does it."""
        text: str = self.bpe.decode(self.dictionary.string(ids))
        return text


# Whole planes are rare in st.text(): these meet what tokenizers treat in ways of their own.
_CHARACTERS = st.one_of(
    st.characters(exclude_categories=["Cs"]),
    st.sampled_from(
        list(" \t\n\r\x0b\x0c\x1c\x85\xa0\u2028\u200b\u2581\u3000\ufeffĠ<>sn't'0ª½ﬁ\uff21\u0301\U0001f600")
    ),
)
_DOCUMENTS = st.lists(
    st.one_of(
        st.text(_CHARACTERS, max_size=60),
        st.sampled_from(
            ["<s> </s> <unk> <mask> <pad>", "<0x41> ▁the", "<|endoftext|>", "a\n\nb", "''''re I'll  don't"]
        ),
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@settings(deadline=None, max_examples=12, derandomize=True)
@given(documents=_DOCUMENTS)
@example(documents=["e\u0301 ﬁ ½\nthe value", "\x00\x85\n \n", "漢字\u3000かな", "\U0001d518 👩\u200d👧 ☃\ufe0f Ω"])
def test_text_survives(tokenizer: Path, documents: list[str]) -> None:
    expected = [paragraphs for paragraphs in map(cleaned, documents) if paragraphs]
    if not expected:
        return
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(build_corpus, "MINIMUM_BYTES", 1)
        reader = Reader(prepare(documents, tokenizer, Path(folder)), tokenizer)
        items = reader.items()
        lines = [line for paragraphs in expected for line in ["", *paragraphs]][1:]
        texts = [normalised(line, tokenizer) for line in lines]
        assert [reader.decode(item) for item in items] == texts
        assert [ours(tokenizer).decode(item.tolist()) for item in items] == texts
        assert [item.tolist() for item in items] == [reader.encode(line) for line in lines]

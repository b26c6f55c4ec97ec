"""Tokenizers of both kinds that are made in a moment, from nothing but what is here."""

import functools
import io
import json
import random
from pathlib import Path

from data_prep.tokenizers import sentencepiece_model
from linformer_fairseq.files import dictionary, gpt2_bpe
from linformer_fairseq.files.tokenizers import ENCODER, MERGES, SENTENCEPIECE

WORDS = ["the", "a", "value", "list", "returns", "raises", "error", "given", "index", "key", "is", "empty", "file"]
_MERGES = ["Ġ t", "h e", "Ġt he", "Ġ a", "i n", "e r", "Ġ v", "a l", "Ġv al", "u e", "Ġval ue", "Ã ©"]


def text(documents: int, seed: int = 1, *, paragraphs: int = 4) -> str:
    """Paragraphs of a few words, up to ``paragraphs`` in a document, and an empty line between documents."""
    generator = random.Random(seed)

    def line() -> str:
        return f"{generator.randrange(10**9)} naïve Ω 漢字 " + " ".join(
            generator.choices(WORDS, k=generator.randint(3, 25))
        )

    return "\n".join("".join(line() + "\n" for _ in range(generator.randint(1, paragraphs))) for _ in range(documents))


def lines(count: int) -> list[str]:
    """The first lines of `text`, which are of different lengths."""
    return [line for line in text(60).split("\n") if line][:count]


def make_gpt2(folder: Path) -> Path:
    """encoder.json, vocab.bpe and dict.txt: 256 bytes and a dozen merges, numbered and ordered in no simple way."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = [*gpt2_bpe.byte_letters(), *("".join(merge.split()) for merge in _MERGES), gpt2_bpe.END_OF_TEXT]
    random.Random(2).shuffle(tokens)
    numbers = {token: number for number, token in enumerate(tokens)}
    (folder / ENCODER).write_text(json.dumps(numbers), encoding="utf-8")
    (folder / MERGES).write_text("\n".join(["#version: 0.2", *_MERGES]) + "\n", encoding="utf-8")
    order = random.Random(3).sample(range(len(tokens)), len(tokens))
    dictionary.write(folder / dictionary.NAME, ((str(number), 1) for number in order))
    return folder


def make_sentencepiece(folder: Path, *, byte_fallback: bool = True) -> Path:
    """A unigram model and its dict.txt; without ``byte_fallback`` it knows no letter beyond `text`'s."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SENTENCEPIECE
    path.write_bytes(_trained(byte_fallback))
    pieces = sentencepiece_model.pieces_of(sentencepiece_model.load_processor(path), path)
    dictionary.write(folder / dictionary.NAME, ((piece, 1) for piece in pieces.values()))
    return folder


@functools.cache
def _trained(byte_fallback: bool) -> bytes:
    """The model's file: training gives the same each time, and many tests want it."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text(60).split("\n")),
        model_writer=model,
        vocab_size=400 if byte_fallback else 120,
        hard_vocab_limit=False,
        byte_fallback=byte_fallback,
        num_threads=1,
        minloglevel=2,
    )
    return model.getvalue()

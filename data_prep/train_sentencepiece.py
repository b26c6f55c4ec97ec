"""Train a sentencepiece unigram model on text files and write fairseq's dict.txt for it.

    python -m data_prep.train_sentencepiece --out DIR --vocab-size 4000 train.txt

writes DIR/sentencepiece.bpe.model (the name fairseq's own hubs look for) and DIR/dict.txt. Characters too
rare for the vocabulary fall back to their UTF-8 bytes, so nothing is ever <unk>. sentencepiece's default
normalisation (NFKC, single spaces) applies. Equal text and options give an equal model, byte for byte.
The dictionary has no <mask>: fairseq's masked_lm and sentence_prediction tasks add it.
"""

import argparse
import io
from pathlib import Path

import sentencepiece

from data_prep.errors import DataError, run_program
from data_prep.files import atomic_open, read_text
from data_prep.tokenizer import MODEL_NAME, Tokenizer

# A few hundred bytes and characters take their place in every vocabulary.
MINIMUM_VOCABULARY = 400
MAXIMUM_VOCABULARY = 64_000
# Fixed: the number is stored in the model, and the rounding of the sums depends on it.
THREADS = 2


def train(files: list[Path], out: Path, vocab_size: int = 4000) -> Tokenizer:
    """Train on ``files`` and write the model and the dictionary to ``out``.

    Args:
        files: UTF-8 text, one sentence or paragraph a line.
        out: folder, made where missing.
        vocab_size: number of pieces with sentencepiece's own <unk>, <s>, </s>; fewer come out where the text
            does not hold so many.

    Raises:
        DataError: vocabulary out of range, a bad file, or too little text for any vocabulary.
    """
    if not MINIMUM_VOCABULARY <= vocab_size <= MAXIMUM_VOCABULARY:
        raise DataError(
            f"--vocab-size {vocab_size}: between {MINIMUM_VOCABULARY:,} and {MAXIMUM_VOCABULARY:,} expected"
        )
    lines = [line for path in files for line in read_text(path).split("\n") if line.strip()]
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="unigram",
            vocab_size=vocab_size,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=0.9995,
            max_sentence_length=1 << 20,  # bytes; the default leaves out lines beyond 4192
            num_threads=THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise DataError(f"sentencepiece could not train on {len(lines):,} lines of text: {error}") from error
    with atomic_open(out / MODEL_NAME, "wb") as stream:
        stream.write(model.getvalue())
    tokenizer = Tokenizer(out / MODEL_NAME)
    tokenizer.write_dictionary(out / "dict.txt", lines)
    return tokenizer


def main(argv: list[str] | None = None) -> None:
    """The program."""
    parser = argparse.ArgumentParser(
        prog="python -m data_prep.train_sentencepiece",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE", help="UTF-8 text, the training side only")
    parser.add_argument("--out", type=Path, required=True, help=f"folder for {MODEL_NAME} and dict.txt")
    parser.add_argument("--vocab-size", type=int, default=4000, help="number of pieces (%(default)s)")
    args = parser.parse_args(argv)
    tokenizer = train(args.files, args.out, args.vocab_size)
    print(f"{len(tokenizer):,} symbols in {args.out / 'dict.txt'}")
    if len(tokenizer) < args.vocab_size:
        print(f"(--vocab-size is {args.vocab_size:,}, but the text does not yield more)")


if __name__ == "__main__":
    run_program(main)

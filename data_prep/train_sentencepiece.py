"""Train a sentencepiece model on a corpus and write fairseq's dict.txt for it.

    linformer data vocabulary --out DIR --vocab-size 32000 CORPUS

CORPUS is a folder made by `linformer data corpus`, whose train split is used, or text files with one sentence or
paragraph per line. The model is trained on a sample of the lines, selected by a hash of the line and --seed: the same
text and options give the same model, byte for byte. Rare characters are encoded as UTF-8 bytes, so no text becomes
<unk>.

The output is sentencepiece.bpe.model (the file name that fairseq's hub interface expects, for any algorithm), dict.txt
with the counts in the sample, and manifest.json. dict.txt has no <mask>: fairseq's masked_lm and sentence_prediction
tasks add it.
"""

import io
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import sentencepiece

from data_prep.binarizing.inputs import check_text_files, find_inputs
from data_prep.corpus.cleaning import digest
from data_prep.support.program import program_parser, run_program
from data_prep.support.splits import TRAIN, hash_fraction
from data_prep.support.step import Step, file_state
from data_prep.tokenizers import Tokenizer, load_tokenizer, sentencepiece_model
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.files.provenance import sha256
from linformer_fairseq.files.text import BYTE_ORDER_MARK, not_utf8, zero_byte
from linformer_fairseq.files.tokenizers import SENTENCEPIECE

# Every vocabulary contains a few hundred bytes and characters.
MINIMUM_VOCABULARY = 400
MAXIMUM_VOCABULARY = 64_000
# Fixed: the number is stored in the model, and the rounding of the sums depends on it.
_THREADS = 2
# sentencepiece is slow on long lines (quadratic in their length) and silently drops those over its limit. It works on
# single words, so that cutting lines at spaces does not matter.
_LONGEST_LINE = 1_000
# Blanks take the place of U+2585, which it uses itself (lines with it are dropped silently, too), and of white space
# that some normalizations keep: a piece with it does not fit into dict.txt. In text, the model spells both in bytes.
_NO_PIECE = re.compile(r"\u2585|[^\S ]")
_CLEAN = "make clean text of it with linformer data corpus"


@dataclass(frozen=True)
class TrainingOptions:
    """Options of the sentencepiece model."""

    vocab_size: int = 32_000
    """Number of pieces, including sentencepiece's <unk>, <s> and </s>; there are fewer if the text has not enough."""
    algorithm: Literal["unigram", "bpe"] = "unigram"
    normalization: Literal["nmt_nfkc", "identity"] = "nmt_nfkc"
    """sentencepiece's normalization: NFKC with uniform white space and without control characters; or only single
    spaces, so that decoding restores every other character."""
    sample_bytes: int = 20_000_000
    seed: int = 1


def check_vocabulary(size: int) -> None:
    """Refuse a number of pieces that cannot be trained.

    Raises:
        UserError: it is below `MINIMUM_VOCABULARY` or above `MAXIMUM_VOCABULARY`.
    """
    if not MINIMUM_VOCABULARY <= size <= MAXIMUM_VOCABULARY:
        raise UserError(f"--vocab-size {size}: between {MINIMUM_VOCABULARY:,} and {MAXIMUM_VOCABULARY:,} expected")


def sample(files: list[Path], size: int, seed: int) -> Iterator[str]:
    """Lines of ``files``, about ``size`` bytes; each line is selected independently of the others.

    Raises:
        UserError: a file that is not UTF-8, or has a zero byte.
    """
    total = sum(path.stat().st_size for path in files)
    purpose = f"sample {seed}"
    with Progress("sampling", total) as progress:
        for path in files:
            with path.open("rb") as stream:
                offset = 0
                for number, line in enumerate(stream, start=1):
                    progress.advance(len(line))
                    if number == 1 and line.startswith(BYTE_ORDER_MARK):
                        offset, line = len(BYTE_ORDER_MARK), line.removeprefix(BYTE_ORDER_MARK)
                    if (zero := line.find(0)) >= 0:
                        raise zero_byte(path, number, offset + zero, _CLEAN)
                    try:
                        text = line.decode("utf-8").strip()
                    except UnicodeDecodeError as error:
                        byte, place = line[error.start], offset + error.start
                        raise not_utf8(path, number, byte, place, _CLEAN) from None
                    offset += len(line)
                    if text and (total <= size or hash_fraction(digest(text), purpose) < size / total):
                        yield text


def _bearable(line: str) -> Iterator[str]:
    start = 0
    while len(line) - start > _LONGEST_LINE:
        end = line.rfind(" ", start + 1, start + _LONGEST_LINE) + 1 or start + _LONGEST_LINE
        yield line[start:end]
        start = end
    yield line[start:]


def _train(lines: list[str], options: TrainingOptions) -> bytes:
    """The model file."""
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(part for line in lines for part in _bearable(_NO_PIECE.sub(" ", line))),
            model_writer=model,
            model_type=options.algorithm,
            vocab_size=options.vocab_size,
            hard_vocab_limit=False,
            byte_fallback=True,
            character_coverage=0.9995,
            normalization_rule_name=options.normalization,
            max_sentence_length=4 * _LONGEST_LINE,  # bytes
            num_threads=_THREADS,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UserError(
            f"sentencepiece could not train {options.vocab_size:,} pieces on {len(lines):,} lines of text: "
            f"{str(error).strip()}; lower --vocab-size or give more text"
        ) from error
    return model.getvalue()


def _in_a_thread(function: Callable[[], bytes]) -> bytes:
    """The result of a function that is outside Python for minutes, where the main thread would not notice Ctrl-C.

    After Ctrl-C, the function goes on until it or the process ends.
    """
    future: Future[bytes] = Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result()


def train(inputs: list[Path], out: Path, options: TrainingOptions | None = None) -> Tokenizer:
    """Train on ``inputs`` and write the model and the dictionary to ``out``.

    Args:
        inputs: a corpus folder, or UTF-8 files with one sentence or paragraph per line.
        out: a new or empty folder, or the unfinished or finished output of a run with the same inputs and options.
        options: options of the model.

    Raises:
        UserError: the vocabulary size is out of range, a file is invalid, there is too little text, or ``out`` contains
            other files.
    """
    options = options or TrainingOptions()
    check_vocabulary(options.vocab_size)
    if options.sample_bytes < 1:
        raise UserError(f"--sample-mb {options.sample_bytes / 1e6}: expected more than 0")
    if not 0 <= options.seed < 10**9:
        raise UserError(f"--seed {options.seed}: expected 0 to 999,999,999")
    if len(inputs) == 1 and inputs[0].is_dir():
        files = list(find_inputs(inputs).splits[TRAIN])
    else:  # names need not be distinct
        files = inputs
        check_text_files(files)
    key = {
        "program": "train_sentencepiece",
        "options": asdict(options),
        "files": [file_state(path) for path in files],
        "sentencepiece": sentencepiece.__version__,
    }
    with Step(out, key) as step:
        if step.manifest is None:
            lines = list(sample(files, options.sample_bytes, options.seed))
            if not lines:
                raise UserError(f"{', '.join(map(str, inputs))}: no text to train on")
            write_file(step.outputs / SENTENCEPIECE, _in_a_thread(partial(_train, lines, options)))
            _write_dictionary(step.outputs, lines)
            if [file_state(path) for path in files] != key["files"]:
                raise UserError("the text changed while it was read; run the same command again")
            step.finish(
                {
                    "program": "data_prep.train_sentencepiece",
                    "options": asdict(options),
                    "lines": len(lines),
                    "bytes": sum(len(line.encode()) for line in lines),
                    "sha256": {path.name: sha256(path) for path in sorted(step.outputs.iterdir())},
                }
            )
    return load_tokenizer(out)


def _write_dictionary(folder: Path, lines: list[str]) -> None:
    """Write dict.txt: the model's pieces in order, with their counts in ``lines``."""
    model = folder / SENTENCEPIECE
    processor = sentencepiece_model.load_processor(model)
    counts: Counter[int] = Counter()
    for line in lines:
        counts.update(processor.encode(line, num_threads=1))
    pieces = sentencepiece_model.pieces_of(processor, model)
    dictionary.write(folder / dictionary.NAME, ((piece, counts[index]) for index, piece in pieces.items()))


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """Run the program; ``prog`` is its name in the help text."""
    defaults = TrainingOptions()
    parser = program_parser(prog, "data_prep.train_sentencepiece", __doc__)
    parser.add_argument("inputs", type=Path, nargs="+", metavar="CORPUS", help="a corpus folder, or text files")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="output folder")
    parser.add_argument(
        "--vocab-size",
        type=int,
        default=defaults.vocab_size,
        metavar="N",
        help=f"number of pieces, {MINIMUM_VOCABULARY} to {MAXIMUM_VOCABULARY} (%(default)s)",
    )
    parser.add_argument(
        "--algorithm",
        choices=("unigram", "bpe"),
        default=defaults.algorithm,
        help="algorithm of sentencepiece (%(default)s)",
    )
    parser.add_argument(
        "--normalization",
        choices=("nmt_nfkc", "identity"),
        default=defaults.normalization,
        help="normalization of text: NFKC and white space, or white space only (%(default)s)",
    )
    parser.add_argument(
        "--sample-mb",
        type=float,
        default=defaults.sample_bytes / 1e6,
        metavar="N",
        help="train on a sample of about N MB (%(default)g)",
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, help="seed of the sample (%(default)s)")
    args = parser.parse_args(argv)
    if not math.isfinite(args.sample_mb * 1e6):
        raise UserError(f"--sample-mb {args.sample_mb}: expected a number above 0")
    options = TrainingOptions(
        args.vocab_size, args.algorithm, args.normalization, round(args.sample_mb * 1e6), args.seed
    )
    tokenizer = train(args.inputs, args.out, options)
    print(f"{len(tokenizer):,} symbols in {args.out / dictionary.NAME}")
    if len(tokenizer) < args.vocab_size:
        print(f"(--vocab-size is {args.vocab_size:,}, but the text does not yield more)")


if __name__ == "__main__":
    run_program(main)

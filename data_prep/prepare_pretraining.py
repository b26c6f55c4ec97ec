"""Prepare data for fairseq's masked_lm task from text: corpus, tokenizer and binary data.

    linformer data pretraining --out DIR [SOURCE...]

makes DIR/text (cleaned and split documents), DIR/tokenizer and DIR/bin, the folder to train on. Without a SOURCE, it
uses the paper's corpus from the Hugging Face hub: BookCorpus and English Wikipedia, 3.3 billion words. Your own sources
can be files, folders and globs; `linformer data corpus --help` describes all sources.

Each step is a separate program; its command is printed before it runs. You can stop it at any time: repeat the command
to resume it. Finished steps are skipped; sources on the hub must be within reach even then.
"""

import argparse
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from data_prep import binarize, build_corpus, gpt2_bpe, train_sentencepiece
from data_prep.binarizing.plan import check_folder, check_shards
from data_prep.support.program import add_errors, add_workers, program_parser, run_program
from data_prep.support.workers import check_workers
from data_prep.tokenizers import load_tokenizer, tokenizer_folder
from linformer_fairseq.files.errors import UserError

PAPERS_CORPUS = ("hub:bookcorpus", "hub:wikipedia")
SENTENCEPIECE, GPT2 = "sentencepiece", "gpt2"
_PROGRAMS: dict[str, Callable[[list[str], str], None]] = {
    "corpus": build_corpus.main,
    "vocabulary": train_sentencepiece.main,
    "gpt2": gpt2_bpe.main,
    "binarize": binarize.main,
}


def steps(args: argparse.Namespace) -> list[list[str]]:
    """The programs to run with their options, in order.

    Raises:
        UserError: options that contradict each other, or a tokenizer that is not there or cannot be read.
    """
    out: Path = args.out
    trained, fetched = args.tokenizer == SENTENCEPIECE, args.tokenizer == GPT2
    if not (trained or fetched or tokenizer_folder(args.tokenizer).is_dir()):
        raise UserError(f"--tokenizer {args.tokenizer}: expected {SENTENCEPIECE}, {GPT2} or a folder that holds one")
    if not (trained or fetched):
        # What is wrong with it is said before the long work on the corpus.
        load_tokenizer(tokenizer_folder(args.tokenizer))
    if args.vocab_size is not None and not trained:
        raise UserError(f"--vocab-size: is for --tokenizer {SENTENCEPIECE}, which is trained; others have their own")
    if args.vocab_size is not None:
        train_sentencepiece.check_vocabulary(args.vocab_size)
    check_folder(out)
    check_shards(args.shards)
    check_workers(args.workers)
    tokenizer = _argument(out / "tokenizer" if trained or fetched else args.tokenizer)
    workers = ["--workers", str(args.workers)]
    shares = ["--valid-share", str(args.valid_share), "--test-share", str(args.test_share)]
    size = [] if args.vocab_size is None else ["--vocab-size", str(args.vocab_size)]
    padding = ["--pad-vocabulary"] if args.pad_vocabulary else []
    text, sources = _argument(out / "text"), map(_argument, args.sources or PAPERS_CORPUS)
    # Downloads first, so that they fail at once if they are not possible.
    gpt2 = [["gpt2", "--out", tokenizer]] if fetched else []
    vocabulary = [["vocabulary", "--out", tokenizer, *size, text]] if trained else []
    to_bin = ["--tokenizer", tokenizer, "--out", _argument(out / "bin"), *workers, "--shards", str(args.shards)]
    return [
        *gpt2,
        ["corpus", "--out", text, *workers, *shares, "--errors", args.errors, *sources],
        *vocabulary,
        ["binarize", *to_bin, *padding, text],
    ]


def _argument(path: Path | str) -> str:
    """A path that no program takes for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """Run the program; ``prog`` is its name in the help text."""
    parser = program_parser(prog, "data_prep.prepare_pretraining", __doc__)
    add = parser.add_argument
    add("sources", nargs="*", metavar="SOURCE", help="source of text (default: the paper's corpus, from the hub)")
    add("--out", type=Path, required=True, metavar="DIR", help="output folder")
    add(
        "--tokenizer",
        default=SENTENCEPIECE,
        metavar="T",
        help="sentencepiece: train one on the corpus; gpt2: RoBERTa's GPT-2 BPE, from the hub; or a folder with a "
        "tokenizer, or the name of a model of the package; ./NAME is a folder (%(default)s)",
    )
    add("--vocab-size", type=int, metavar="N", help="vocabulary size (default: that of `linformer data vocabulary`)")
    add(
        "--valid-share",
        type=float,
        default=0.01,
        metavar="S",
        help="share of the documents for validation (%(default)s)",
    )
    add("--test-share", type=float, default=0.0, metavar="S", help="share of the documents for testing (%(default)s)")
    add("--shards", type=int, default=1, metavar="N", help="number of folders for training data (%(default)s)")
    add("--pad-vocabulary", action="store_true", help="pad the data's dict.txt to a multiple of 8 symbols")
    add_workers(parser)
    add_errors(parser)
    for name, *options in steps(parser.parse_args(argv)):
        print(f"$ linformer data {shlex.join([name, *options])}", file=sys.stderr, flush=True)
        _PROGRAMS[name](options, f"linformer data {name}")


if __name__ == "__main__":
    run_program(main)

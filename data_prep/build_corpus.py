"""Build a pretraining corpus: clean text, remove duplicate documents, and split by document.

    linformer data corpus --out DIR SOURCE...

A SOURCE is a file, a folder, a glob, or one of

    stdlib               the English text in Python's standard library: manual topics and docstrings
    hub:bookcorpus       BookCorpus from the Hugging Face hub
    hub:wikipedia        English Wikipedia from the hub; both together are the paper's corpus
    hub:OWNER/NAME       any other data set on the hub

Options are appended to a source, as in wiki/,format=wikiextractor,weight=2:

    weight=W             how often train contains the source; 0.5: half of its documents, 2.5: all twice, half again;
                         at most 100
    format=F             text, jsonl, parquet or wikiextractor, if the file name does not determine it
    field=NAME           column or key with the text (default: text)
    lines=join           for wrapped text: the lines of a block form one paragraph (default: each line is a paragraph)
    group=N              join N records to one document (with lines=join: to one paragraph)
    license=L            licence of the text, for the manifest and for model cards (a data set of the hub names its own)
    config=, split=, revision=    of a data set on the hub

Files may be compressed (.gz, .bz2, .xz, .zst). In text files, a blank line ends a document; in the other formats, each
record is a document.

The output is train/, valid/ and test/ in DIR, with numbered files that have one paragraph per line and an empty line
between documents, and manifest.json with all counts. The split of a document depends only on its own text, except that
the share of valid is raised, unless it is 0, if no document would fall to it. At least 20,000 bytes of text are
required, because no vocabulary can be learned from less.
"""

import argparse
import glob
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Any

from data_prep.corpus.cleaning import Cleaning
from data_prep.corpus.report import describe
from data_prep.corpus.run import CorpusOptions, Counts, Run, can_carry_on
from data_prep.sources import Source, parse_source
from data_prep.sources.files import FileUnit
from data_prep.sources.lines import MAX_DOCUMENT_BYTES
from data_prep.sources.parse import split_spec
from data_prep.support.program import add_errors, add_workers, program_parser, run_program
from data_prep.support.splits import NAMES, TRAIN, VALID, Shares
from data_prep.support.step import Step
from data_prep.support.workers import check_workers
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.option_types import count
from linformer_fairseq.files.provenance import MANIFEST

MINIMUM_BYTES = 20_000
"""No vocabulary can be learned from less."""


def build_corpus(out: Path, sources: list[Source], options: CorpusOptions, workers: int = 1) -> dict[str, Any]:
    """Write the corpus to ``out``; returns its manifest.

    The result is the same, byte for byte, for any number of workers and after any interruption.

    Args:
        out: a new or empty folder, or the unfinished or finished output of a run with the same inputs and options.
        sources: the sources; of duplicate documents, the first is kept.
        options: cleaning, duplicates and splits.
        workers: number of processes.

    Raises:
        UserError: invalid input (with file and position), too little text, or ``out`` contains other files.
    """
    check_workers(workers)
    _refuse_own_output(out, sources)
    key = {
        "program": "build_corpus",
        "sources": [
            {"name": s.name, "weight": s.weight, "units": [unit.identity() for unit in s.units]} for s in sources
        ],
        "options": asdict(options),
    }
    # Work that found all bytes to be UTF-8 is the same with any way to treat others.
    strict = {**key, "options": asdict(replace(options, errors="strict"))}
    with Step(out, key, same_so_far=strict) as step:
        if step.manifest is not None:
            return step.manifest
        if step.resumed and not can_carry_on(step.work, step.outputs):
            print(f"{out}: unfinished work is not all there, as after a crash of the machine; starting afresh")
            step.clear()
        larger_share = step.work / "valid_share"
        if larger_share.is_file():
            options = options.with_valid_share(float(larger_share.read_text()))
        counts = Run(step.work, step.outputs, sources, options).to_the_end(workers)
        if counts.splits[TRAIN]["documents"] > 1 and options.shares.valid and not counts.splits[VALID]:
            # In a small corpus, the hash may assign nothing to valid: run again with the nearest document held out.
            step.clear()
            write_file(larger_share, repr(counts.nearest))
            options = options.with_valid_share(counts.nearest)
            counts = Run(step.work, step.outputs, sources, options).to_the_end(workers)
        _check_amounts(counts, options)
        return step.finish(_manifest(sources, options, counts))


def _check_amounts(counts: Counts, options: CorpusOptions) -> None:
    """Check that there is enough text, and that no requested split is empty.

    Raises:
        UserError: there is too little text, or a split is empty.
    """
    written = sum(counts.splits[name]["bytes"] for name in NAMES)
    if written < MINIMUM_BYTES:
        raise UserError(
            f"too little text: {written:,} bytes are left after removing duplicates and short documents and applying "
            f"the weights; at least {MINIMUM_BYTES:,} are needed; give more sources"
        )
    for name in NAMES:
        if not counts.splits[name] and (name == TRAIN or getattr(options.shares, name)):
            documents = sum(counts.splits[other]["documents"] for other in NAMES)
            raise UserError(
                f"no document fell to {name}, of {documents:,}: give more sources, change the shares that are held "
                "out, or put a blank line between documents if the whole text is taken for one"
            )


_FIRST = tuple(f"{split}/00000.txt" for split in NAMES)
"""The first file of each split."""


def _refuse_own_output(out: Path, sources: list[Source]) -> None:
    """Refuse an output folder that a source reads, now or in the next run."""
    folder = out.resolve()
    for source in sources:
        files = [unit.path.resolve() for unit in source.units if isinstance(unit, FileUnit)]
        place = split_spec(source.name)[0]
        around = bool(files) and any(_reads(place, folder / file) for file in (*_FIRST, MANIFEST))
        if around or any(file.is_relative_to(folder) for file in files):
            raise UserError(f"--out {out}: source {source.name!r} reads what is in there; give a folder outside of it")


def _reads(place: str, file: Path) -> bool:
    """Whether a folder or a glob reads a file that may not be there yet; also if it matches a folder above it."""
    parts = Path(place).parts
    fixed = parts if os.path.lexists(place) else tuple(takewhile(lambda part: not glob.has_magic(part), parts))
    root = Path(*fixed).resolve()
    return file.is_relative_to(root) and _matches(parts[len(fixed) :], file.relative_to(root).parts)


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if not pattern or not parts:
        return not pattern
    if parts[0].startswith(".") and not pattern[0].startswith("."):  # glob does not look there
        return False
    if pattern[0] == "**":
        return any(_matches(pattern[1:], parts[start:]) for start in range(len(parts) + 1))
    return fnmatchcase(parts[0], pattern[0]) and _matches(pattern[1:], parts[1:])


def _manifest(sources: list[Source], options: CorpusOptions, counts: Counts) -> dict[str, Any]:
    described = [
        {
            "name": source.name,
            "weight": source.weight,
            **{reason: number for reason, number in count.items() if number},
            "units": [unit.provenance() for unit in source.units],
            **({"ignored": list(source.ignored)} if source.ignored else {}),
            **({"license": source.license} if source.license else {}),
        }
        for source, count in zip(sources, counts.sources, strict=True)
    ]
    return {
        "program": "data_prep.build_corpus",
        "sources": described,
        "options": asdict(options),
        "splits": {name: dict(count) for name, count in counts.splits.items() if count},
        "totals": dict(sum(counts.sources, Counter())),
    }


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The program's options."""
    parser = program_parser(prog, "data_prep.build_corpus", __doc__)
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="a source of text, see above")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="output folder")
    add_workers(parser)
    split = parser.add_argument_group("splits")
    split.add_argument(
        "--valid-share", type=float, default=0.01, metavar="S", help="share of the documents (%(default)s)"
    )
    split.add_argument(
        "--test-share", type=float, default=0.0, metavar="S", help="share of the documents (%(default)s)"
    )
    split.add_argument(
        "--deduplicate",
        choices=("documents", "paragraphs", "none"),
        default="documents",
        help="of which duplicates to keep only the first (%(default)s)",
    )
    cleaning = parser.add_argument_group("cleaning, of each document")
    cleaning.add_argument(
        "--clean-control",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="replace control characters and byte order marks by spaces (on)",
    )
    cleaning.add_argument(
        "--clean-whitespace",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="replace runs of any white space by one space, and strip paragraphs (on)",
    )
    cleaning.add_argument(
        "--min-characters", type=count, default=1, metavar="N", help="drop shorter documents (%(default)s)"
    )
    reading = parser.add_argument_group("reading and writing")
    add_errors(reading)
    reading.add_argument(
        "--max-document-bytes",
        type=count,
        default=MAX_DOCUMENT_BYTES,
        metavar="N",
        help="longer documents are an error, because a separator may be missing (%(default)s)",
    )
    reading.add_argument(
        "--shard-bytes",
        type=count,
        default=CorpusOptions.shard_bytes,
        metavar="N",
        help="size of the files written (%(default)s)",
    )
    return parser


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """Run the program; ``prog`` is its name in the help text."""
    args = parser(prog).parse_args(argv)
    options = CorpusOptions(
        Shares(args.valid_share, args.test_share),
        Cleaning(args.clean_control, args.clean_whitespace, args.min_characters),
        args.deduplicate,
        args.errors,
        args.shard_bytes,
    )
    sources = [parse_source(spec, max_document_bytes=args.max_document_bytes) for spec in args.sources]
    print(describe(build_corpus(args.out, sources, options, args.workers)))


if __name__ == "__main__":
    run_program(main)

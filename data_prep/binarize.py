"""Convert text to the binary format of fairseq's masked_lm task.

    linformer data binarize --tokenizer DIR --out BIN CORPUS                    a folder made by `linformer data corpus`
    linformer data binarize --tokenizer DIR --out BIN train.txt valid.txt       one split per file, named after it

writes BIN/train.{bin,idx} and so on, the tokenizer's files, which a trained model needs, and manifest.json. Each line
becomes one item, which ends with </s>, without white space at its ends. A line of nothing else becomes an item that is
only </s>, fairseq's document separator for --sample-break-mode complete_doc. Lines end with \\n or \\r\\n.

With --shards S, the documents of the training text are distributed over BIN/0 to BIN/S-1. Pass BIN/0:BIN/1:... to
fairseq-train, which then reads one folder per epoch. Each folder also contains the other splits.

With --pad-vocabulary, the dict.txt of the data is padded to a multiple of 8 symbols, including <mask>, for models that
take the size of their embeddings from it. All ids stay the same.

To resume a program that was stopped or killed, repeat its command. The result is that of an uninterrupted run, byte for
byte, for any number of workers. Less than 1 GB of memory is needed for text of any size
in lines of up to 100 MB.
"""

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

from data_prep.binarizing.encode import encode_part, start_worker
from data_prep.binarizing.inputs import find_inputs
from data_prep.binarizing.plan import (
    LARGEST_PART,
    PARTS_PER_SHARD,
    check_folder,
    check_shards,
    dataset_names,
    make_plan,
)
from data_prep.binarizing.store import Store
from data_prep.support.program import add_workers, program_parser, run_program
from data_prep.support.splits import TRAIN
from data_prep.support.step import Step, file_state
from data_prep.support.workers import check_workers, ordered_map
from data_prep.tokenizers import Tokenizer, copy_tokenizer, load_tokenizer, tokenizer_folder
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import element_type
from linformer_fairseq.files.progress import Progress

MUCH_UNKNOWN = 0.01
"""Share of <unk> above which a warning is printed."""


def binarize(
    inputs: list[Path], tokenizer: Path, out: Path, workers: int = 1, shards: int = 1, pad_vocabulary: bool = False
) -> dict[str, Any]:
    """Write the datasets of all splits to ``out``; returns the manifest.

    Args:
        inputs: one corpus folder, or text files, one per split.
        tokenizer: folder with a tokenizer and its dict.txt.
        out: new or empty folder, or the output of an earlier run with the same arguments.
        workers: number of processes. If it is above 1, call this below ``if __name__ == "__main__":``, because each
            process imports the calling script.
        shards: number of folders over which the training text is distributed.
        pad_vocabulary: pad the dict.txt that is written; see `dictionary.pad`.

    Raises:
        UserError: invalid text, tokenizer or options, or ``out`` contains other files.
    """
    check_folder(out)
    check_shards(shards)
    check_workers(workers)
    found = find_inputs(inputs)
    loaded = load_tokenizer(tokenizer)
    states = {name: [file_state(path) for path in files] for name, files in found.splits.items()}
    key = {
        "program": "binarize 1",
        "tokenizer": loaded.describe(),
        "shards": shards,
        "pad_vocabulary": pad_vocabulary,
        "parts": [LARGEST_PART, PARTS_PER_SHARD],
        "corpus": found.corpus and found.corpus["sha256"],
        "splits": states,
    }
    plan = make_plan(found.splits, shards)
    with Step(out, key) as step:
        if step.manifest is not None:
            return step.manifest
        names = [name for split in found.splits for name in dataset_names(split, shards)]
        store = Store(step, names, element_type(len(loaded)))
        if store.text_bytes != sum(job.part.size for job in plan[: store.parts]):  # an earlier version cut elsewhere
            print(f"{out}: the unfinished work there has other parts; starting afresh", flush=True)
            step.clear()
            store = Store(step, names, element_type(len(loaded)))
        if store.parts:
            print(f"{out}: carrying on after {store.parts:,} of {len(plan):,} parts", flush=True)
        rest = plan[store.parts :]
        results = ordered_map(
            encode_part, (job.part for job in rest), min(workers, max(1, len(rest))), start_worker, (tokenizer,)
        )
        total = sum(job.part.size for job in plan)
        with closing(results), Progress("binarize", total, store.text_bytes) as progress:
            for job, encoded in zip(rest, results, strict=True):
                store.append(job.dataset, encoded, job.part.continues, job.part.size)
                progress.advance(job.part.size)
        for split, files in found.splits.items():
            if [file_state(path) for path in files] != states[split]:
                raise UserError(f"the {split} text changed while it was read; run the same command again")
        store.finish()
        _furnish(step.outputs, loaded, found.splits, shards, pad_vocabulary)
        manifest = _manifest(loaded, found.corpus, found.splits, shards, store)
        return step.finish({**manifest, "pad_vocabulary": pad_vocabulary})


def _furnish(
    outputs: Path, tokenizer: Tokenizer, splits: dict[str, tuple[Path, ...]], shards: int, pad_vocabulary: bool
) -> None:
    """Copy the tokenizer to each folder, and link the other splits into each shard."""
    folders = [outputs / str(shard) for shard in range(shards)] if shards > 1 else []
    for folder in (outputs, *folders):
        copy_tokenizer(tokenizer, folder)
        if pad_vocabulary:
            dictionary.pad(folder / dictionary.NAME)
    for shard, folder in enumerate(folders):
        for split in (name for name in splits if name != "train" and shard):
            for name in (f"{split}.bin", f"{split}.idx"):
                (folder / name).unlink(missing_ok=True)
                try:
                    os.link(outputs / "0" / name, folder / name)
                except OSError:  # a file system without hard links
                    shutil.copyfile(outputs / "0" / name, folder / name)


def _manifest(
    tokenizer: Tokenizer,
    corpus: dict[str, Any] | None,
    splits: dict[str, tuple[Path, ...]],
    shards: int,
    store: Store,
) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    for split, files in splits.items():
        parts = {name: store.counts[name] for name in dataset_names(split, shards)}
        counts[split] = {key: sum(part[key] for part in parts.values()) for key in next(iter(parts.values()))}
        counts[split]["sources"] = [{"name": path.name, "bytes": path.stat().st_size} for path in files]
        if len(parts) > 1:
            counts[split]["shards"] = parts
    return {
        "step": "binarize",
        "tokenizer": tokenizer.describe(),
        "element_type": element_type(len(tokenizer)).name,
        "shards": shards,
        "splits": counts,
        "corpus": corpus,
    }


def data_argument(out: Path, shards: int) -> str:
    """The data argument for fairseq-train."""
    return ":".join(str(out / str(shard)) for shard in range(shards)) if shards > 1 else str(out)


def report(manifest: dict[str, Any], out: Path) -> None:
    """Print the counts and the data argument for fairseq-train."""
    for split, count in manifest["splits"].items():
        print(
            f"{split}: {count['documents']:,} documents, {count['items']:,} items, {count['tokens']:,} tokens "
            f"from {count['text_bytes'] / 1e6:,.1f} MB of text"
        )
        share = count["unknown"] / count["tokens"]
        if share > MUCH_UNKNOWN:
            print(
                f"warning: {share:.1%} of the {split} tokens are <unk>: the tokenizer does not know this text; train "
                "one on it (linformer data vocabulary)"
            )
    if TRAIN in manifest["splits"]:
        print(f"data for fairseq-train: {data_argument(out, manifest['shards'])}")
    else:
        print(f"no split is called {TRAIN}: for fairseq-train, name the file of the training text {TRAIN}.txt")


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """Run the program; ``prog`` is its name in the help text."""
    parser = program_parser(prog, "data_prep.binarize", __doc__)
    parser.add_argument("inputs", type=Path, nargs="+", metavar="CORPUS|FILE", help="a corpus folder, or text files")
    parser.add_argument(
        "--tokenizer",
        type=tokenizer_folder,
        required=True,
        metavar="DIR",
        help="folder of the tokenizer and its dict.txt, or the name of a model of the package (./NAME is a folder)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="BIN", help="output folder")
    add_workers(parser)
    parser.add_argument(
        "--shards", type=int, default=1, metavar="S", help="number of folders for training data (%(default)s)"
    )
    parser.add_argument(
        "--pad-vocabulary", action="store_true", help="pad dict.txt to a multiple of 8 symbols, including <mask>"
    )
    args = parser.parse_args(argv)
    report(binarize(args.inputs, args.tokenizer, args.out, args.workers, args.shards, args.pad_vocabulary), args.out)


if __name__ == "__main__":
    run_program(main)

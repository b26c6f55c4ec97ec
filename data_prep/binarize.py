"""Turn text into the folder that fairseq's masked_lm task reads.

    linformer data binarize --tokenizer DIR --out BIN CORPUS                    what build_corpus made
    linformer data binarize --tokenizer DIR --out BIN train.txt valid.txt       a split per file, by its name

writes BIN/train.{bin,idx} and so on, and beside them the tokenizer's files, so that BIN is all that a model needs to
be used later, and manifest.json. An item is one line and ends with </s>; an empty line becomes an item of its own,
</s> alone: fairseq's document separator for --sample-break-mode complete_doc. Lines end with \\n or \\r\\n.

With --shards S the training text is spread, by whole documents, over BIN/0 to BIN/S-1, which fairseq-train reads
one per epoch when it is given BIN/0:BIN/1:...; the other splits are in each of these folders.

With --pad-vocabulary the dict.txt beside the data is padded to a multiple of 8 symbols, <mask> included, for models
that take their size from it. All ids stay the same.

A run that was stopped or killed carries on when the same command is given again, and its result is that of a run
without interruption, byte for byte, whatever the number of workers. Text of any size needs well below 1 GB of memory.
"""

import os
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

from data_prep.binarizing.encode import encode_part, start_worker
from data_prep.binarizing.inputs import find_inputs
from data_prep.binarizing.plan import LARGEST_PART, PARTS_PER_SHARD, dataset_names, make_plan
from data_prep.binarizing.store import Store
from data_prep.support.program import program_parser, run_program
from data_prep.support.step import Step, file_state
from data_prep.support.workers import check_workers, default_workers, ordered_map
from data_prep.tokenizers import Tokenizer, copy_tokenizer, load_tokenizer
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import element_type
from linformer_fairseq.files.progress import Progress

MUCH_UNKNOWN = 0.01
"""Share of <unk> above which something is wrong with the tokenizer or the text."""


def binarize(
    inputs: list[Path], tokenizer: Path, out: Path, workers: int = 1, shards: int = 1, pad_vocabulary: bool = False
) -> dict[str, Any]:
    """Write the datasets of all splits to ``out``; returns the manifest.

    Args:
        inputs: one corpus folder, or text files, a split each.
        tokenizer: folder with a tokenizer and its dict.txt.
        out: new or empty folder, or what an earlier run of this very step left there.
        workers: processes; above 1 only below ``if __name__ == "__main__":``, as each imports the calling script.
        shards: number of folders that the training text is spread over.
        pad_vocabulary: pad the dict.txt that is written; see `dictionary.pad`.

    Raises:
        UserError: bad text, tokenizer or options, or an ``out`` with something else in it.
    """
    if shards < 1:
        raise UserError(f"--shards {shards}: expected at least 1")
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
    """The tokenizer in each folder, and the splits that all shards have in common."""
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
    """What fairseq-train is given as its data."""
    return ":".join(str(out / str(shard)) for shard in range(shards)) if shards > 1 else str(out)


def report(manifest: dict[str, Any], out: Path) -> None:
    """Print the counts and what to do next."""
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
    print(f"data for fairseq-train: {data_argument(out, manifest['shards'])}")


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """The program; ``prog`` is what its help calls it."""
    parser = program_parser(prog, "data_prep.binarize", __doc__)
    parser.add_argument("inputs", type=Path, nargs="+", metavar="CORPUS|FILE", help="a corpus folder, or text files")
    parser.add_argument("--tokenizer", type=Path, required=True, metavar="DIR", help="folder with it and its dict.txt")
    parser.add_argument("--out", type=Path, required=True, metavar="BIN", help="folder to write")
    parser.add_argument("--workers", type=int, default=default_workers(), help="processes (one per core: %(default)s)")
    parser.add_argument("--shards", type=int, default=1, metavar="S", help="folders of training data (%(default)s)")
    parser.add_argument(
        "--pad-vocabulary", action="store_true", help="pad dict.txt to a multiple of 8 symbols, <mask> included"
    )
    args = parser.parse_args(argv)
    report(binarize(args.inputs, args.tokenizer, args.out, args.workers, args.shards, args.pad_vocabulary), args.out)


if __name__ == "__main__":
    run_program(main)

"""Inspect and verify binary data.

    linformer data inspect DIR

reads a data folder for pretraining (with or without shards), for a task, or any other in fairseq's mmap format. It
checks every .idx file against its .bin file, and prints counts, lengths and sample texts. The exit status is 1 if a
file is damaged.
"""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_prep.binarizing.data_folder import decoder, dictionary_of, find_datasets, symbols_of
from data_prep.support.program import program_parser, run_program
from data_prep.support.splits import TRAIN
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_check import Counts, check
from linformer_fairseq.files.mmap_dataset import Dataset, bin_of, open_dataset
from linformer_fairseq.files.task_data import text_folders

_BAR, _TEXT = 40, 300
"""Characters of the longest bar, and of a sample."""
_LANGUAGES = re.compile(r"\.([^.]+)-([^.]+)\.(\1|\2)$")
"""What fairseq adds to the name of a split for the texts in one of two languages."""


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """Run the program; ``prog`` is its name in the help text."""
    parser = program_parser(prog, "data_prep.inspect_data", __doc__)
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="folder with .bin and .idx files, or with folders of them"
    )
    parser.add_argument(
        "--samples", type=int, default=3, metavar="N", help="number of texts to print (default: %(default)s)"
    )
    parser.add_argument("--split", help="split of the lengths and texts (default: train, or the first there is)")
    args = parser.parse_args(argv)
    if args.samples < 0:
        raise UserError(f"--samples {args.samples}: expected 0 or more")
    inspect(args.folder, args.samples, args.split)


def inspect(folder: Path, samples: int, split: str | None = None) -> None:
    """Print the content of ``folder``.

    Args:
        folder: contains .bin and .idx files, or folders of them.
        samples: number of texts to print.
        split: split of the lengths and texts; None: train, or the first by name.

    Raises:
        UserError: there is no data, or some is damaged; the message, after all output, names every damaged file.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: {'is a file' if folder.exists() else 'no such folder'}; expected a data folder")
    folder = folder if folder.name.strip(".") else folder.resolve()  # the name says what it holds: input0, label
    prefixes = find_datasets(folder)
    if not prefixes:
        hint = "; its making is unfinished, run that command again" if (folder / ".unfinished").is_dir() else ""
        raise UserError(f"{folder}: no .idx and .bin there or one folder below{hint}")
    good, problems = _check_all(prefixes, folder)
    there = sorted({_split(dataset) for dataset in good})
    split = split or min(there, key=lambda name: name != TRAIN, default=TRAIN)
    chosen = {dataset: counts for dataset, counts in good.items() if _split(dataset) == split}
    for name, lengths in _lengths(chosen, folder).items():
        print(f"\nlengths in {name}, tokens of an item without </s>:")
        print("\n".join(_bars(lengths)))
    undecodable: list[str] = []
    if samples and chosen:
        try:
            _show_samples(list(chosen), folder, samples)
        except UserError as error:  # of the tokenizer, which the result of the check does not depend on
            undecodable = [str(error)]
    if not chosen and not problems:
        raise UserError(f"{folder}: no split {split!r} (--split); there are: {', '.join(there)}")
    if problems:
        print()
        damaged = f"{len(problems)} of {len(prefixes)} datasets are damaged:"
        raise UserError("\n  ".join([damaged, *problems, *undecodable]))
    print("\nevery .idx fits its .bin")
    if undecodable:
        raise UserError(f"no samples: {undecodable[0]}")


def _check_all(prefixes: list[Path], folder: Path) -> tuple[dict[Dataset, Counts], list[str]]:
    """Print a line per dataset; returns the valid ones with their counts, and the problems of the others."""
    good: dict[Dataset, Counts] = {}
    problems: list[str] = []
    files: dict[tuple[int, int], str] = {}
    width = max(len(_name(prefix, folder)) for prefix in prefixes)
    for prefix in prefixes:
        name = _name(prefix, folder)
        try:
            dictionary = dictionary_of(prefix)
            symbols = len(symbols_of(dictionary)) if dictionary else None
            dataset = open_dataset(prefix)
            state = bin_of(prefix).stat()
            same = files.setdefault((state.st_dev, state.st_ino), name)
            if same != name:  # shards share valid and test
                print(f"{name:<{width}}  the same file as {same}")
                continue
            counts = good[dataset] = check(dataset, symbols)
        except (UserError, OSError) as error:
            print(f"{name:<{width}}  DAMAGED")
            problems.append(str(error))
            continue
        documents = "" if counts.documents is None else f"{counts.documents:,} documents, "
        unknown = f" ({counts.unknown:,} of them <unk>)" if counts.unknown else ""
        vocabulary = "no dict.txt" if symbols is None else f"vocabulary {symbols:,}"
        print(
            f"{name:<{width}}  {documents}{counts.items:,} items, {counts.tokens:,} tokens{unknown}, {vocabulary}, "
            f"{dataset.dtype}"
        )
    return good, problems + _missing_parts(prefixes, folder) + _uneven(good, folder)


def _missing_parts(prefixes: list[Path], folder: Path) -> list[str]:
    """Find splits of a task of pairs that have the first texts only, and training data without labels."""

    def there(part: str) -> set[str]:
        return {prefix.name for prefix in prefixes if prefix.parent == folder / part}

    wanted = {folder / text / split for text in text_folders(folder) for split in there("input0") - there(text)}
    if there("label"):  # which fairseq's regression does not have in this format
        wanted |= {folder / "label" / split for split in {TRAIN} & there("input0") - there("label")}
    return [f"{path}: missing, while there is input0/{path.name}; prepare the task again" for path in sorted(wanted)]


def _uneven(good: dict[Dataset, Counts], folder: Path) -> list[str]:
    """Find splits of a task whose inputs and labels have different numbers of items."""
    found = []
    task = list(filter(_is_of_task, good))
    for split in sorted({_split(dataset) for dataset in task}):
        items = {_name(dataset.prefix, folder): dataset.items for dataset in task if _split(dataset) == split}
        if len(set(items.values())) > 1:
            found.append(f"{folder}: unequal numbers of items: {', '.join(f'{k} {v:,}' for k, v in items.items())}")
    return found


def _is_of_task(dataset: Dataset) -> bool:
    return dataset.prefix.parent.name in ("input0", "input1", "label")


def _name(prefix: Path, folder: Path) -> str:
    return str(prefix.relative_to(folder))


def _split(dataset: Dataset) -> str:
    """``train`` of ``0/train`` and of ``train.de-en.de``; a split's own name may have dots."""
    return _LANGUAGES.sub("", dataset.prefix.name)


def _lengths(chosen: dict[Dataset, Counts], folder: Path) -> dict[str, npt.NDArray[np.int64]]:
    """Histograms of lengths by dataset; those of the shards of train are added up."""
    found: dict[str, npt.NDArray[np.int64]] = {}
    for dataset, counts in chosen.items():
        shard = dataset.prefix.parent.name.isdecimal() and dataset.prefix.parent != folder
        name = dataset.prefix.name if shard else _name(dataset.prefix, folder)
        if name not in found:
            found[name] = counts.lengths
        elif _split(dataset) == TRAIN:  # of other splits, each shard has a copy
            found[name] = found[name] + counts.lengths
    return found


def _bars(lengths: npt.NDArray[np.int64]) -> list[str]:
    """A bar per range of lengths; each range is twice as wide as the one before."""
    filled = lengths.nonzero()[0]
    labels = ["0", "1", *(f"{2 ** (i - 1):,}-{2**i - 1:,}" for i in range(2, len(lengths)))]
    last = int(filled[-1]) if len(filled) else -1
    width = max((len(label) for label in labels[: last + 1]), default=0)
    return [
        f"  {labels[i]:>{width}} {'#' * -(-_BAR * int(lengths[i]) // int(lengths.max())):<{_BAR}} {lengths[i]:,}"
        for i in range(int(filled[0]) if len(filled) else 0, last + 1)
    ]


def _show_samples(datasets: list[Dataset], folder: Path, samples: int) -> None:
    """Print evenly spaced items of the first dataset; of a task, the same item of every input and its label."""
    shown = datasets if all(map(_is_of_task, datasets)) else datasets[:1]
    decoders = []
    for dataset in shown:
        dictionary = dictionary_of(dataset.prefix)
        decoders.append(decoder(dataset.prefix.parent, symbols_of(dictionary)) if dictionary else str)
    print("\nsamples:")
    for number in _sample_numbers(shown[0], samples):
        for dataset, decode in zip(shown, decoders, strict=True):
            if number < dataset.items:
                text = decode(dataset.item(number)[:_TEXT])
                print(f"  {_name(dataset.prefix, folder)}, item {number:,}: {text[:_TEXT]}")


def _sample_numbers(dataset: Dataset, samples: int) -> list[int]:
    """Evenly spaced items that are not only </s>."""
    found: list[int] = []
    steps = min(samples, dataset.items)
    for step in range(steps):
        number = step * dataset.items // steps
        while number < dataset.items and dataset.sizes[number] == 1:
            number += 1
        if number < dataset.items and number not in found:
            found.append(number)
    return found


if __name__ == "__main__":
    run_program(main)

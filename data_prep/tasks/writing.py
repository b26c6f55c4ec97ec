"""Examples to the files of fairseq's sentence_prediction, and what is said about them."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np

from data_prep.binarizing import mmap_dataset
from data_prep.support.files import atomic_open, write_text
from data_prep.tasks.examples import Examples, Split
from data_prep.tasks.rows import Reject
from data_prep.tokenizers import EOS, SPECIAL, Tokenizer, copy_tokenizer

REJECTED = "rejected.tsv"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def write_examples(examples: Examples, labels: tuple[str, ...], tokenizer: Tokenizer, folder: Path) -> None:
    """Write input0, input1 where there are pairs, label, ids and rejected.tsv to ``folder``."""
    first = len(SPECIAL) - 1  # fairseq takes the special symbols of its dictionary off again
    index = {label: first + number for number, label in enumerate(labels)}
    for name, split in examples.splits.items():
        for number in range(len(split.ids[0])):
            part = folder / f"input{number}"
            mmap_dataset.write(part / name, (ids[number].astype(np.int64) for ids in split.ids), len(tokenizer))
            shutil.copyfile(next(path for path in tokenizer.files if path.name == "dict.txt"), part / "dict.txt")
        if is_labelled(split):
            items = (np.array([index[label], EOS]) for label in split.labels if label is not None)
            mmap_dataset.write(folder / "label" / name, items, first + len(labels))
        write_text(folder / "ids" / f"{name}.txt", "".join(f"{x}\n" for x in split.identifiers))
    counts = Counter(examples.splits["train"].labels)
    write_text(folder / "label" / "dict.txt", "".join(f"{label} {counts[label]}\n" for label in labels))
    copy_tokenizer(tokenizer, folder)
    if examples.rejects:
        _write_rejects(examples.rejects, folder / REJECTED)


def is_labelled(split: Split) -> bool:
    """Whether the examples of a split carry labels: all do, or none."""
    return split.labels[0] is not None


def _write_rejects(rejects: list[Reject], path: Path) -> None:
    with atomic_open(path) as stream:
        stream.write("file\tline\treason\trow\n")
        for reject in rejects:
            fields = (reject.file, str(reject.line), reject.reason, reject.raw)
            stream.write("\t".join(field.translate(_ESCAPES) for field in fields) + "\n")

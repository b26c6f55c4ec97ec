"""Writes examples in the format of fairseq's sentence_prediction."""

import shutil
from collections import Counter
from pathlib import Path

import numpy as np

from data_prep.tasks.examples import Examples, Split
from data_prep.tasks.rows import Reject
from data_prep.tokenizers import Tokenizer, copy_tokenizer
from linformer_fairseq.files import dictionary, mmap_dataset
from linformer_fairseq.files.atomic import atomic_open, make_folder, write_file
from linformer_fairseq.files.soft_labels import soft_labels_of
from linformer_fairseq.files.tsv import tsv_line

REJECTED = "rejected.tsv"


def write_examples(examples: Examples, labels: tuple[str, ...], tokenizer: Tokenizer, folder: Path) -> None:
    """Write input0, input1 (for pairs), label, ids, soft_labels (if there are any) and rejected.tsv to ``folder``."""
    # fairseq subtracts the number of special symbols in its dictionary
    index = {label: dictionary.FIRST + number for number, label in enumerate(labels)}
    for name, split in examples.splits.items():
        for number in range(len(split.ids[0])):
            part = folder / f"input{number}"
            mmap_dataset.write_dataset(part / name, (ids[number] for ids in split.ids), len(tokenizer))
            dict_txt = next(path for path in tokenizer.files if path.name == dictionary.NAME)
            shutil.copyfile(dict_txt, part / dictionary.NAME)
        if is_labelled(split):
            items = (np.array([index[label], dictionary.EOS]) for label in split.labels if label is not None)
            mmap_dataset.write_dataset(folder / "label" / name, items, dictionary.FIRST + len(labels))
        write_file(folder / "ids" / f"{name}.txt", "".join(f"{x}\n" for x in split.identifiers))
        if split.soft_labels is not None:
            path = soft_labels_of(folder, name)
            make_folder(path.parent)
            np.save(path, split.soft_labels)
    counts = Counter(examples.splits["train"].labels)
    dictionary.write(folder / "label" / dictionary.NAME, ((label, counts[label]) for label in labels))
    copy_tokenizer(tokenizer, folder)
    if examples.rejects:
        _write_rejects(examples.rejects, folder / REJECTED)


def is_labelled(split: Split) -> bool:
    """Whether the examples of a split have labels; either all have one, or none."""
    return split.labels[0] is not None


def _write_rejects(rejects: list[Reject], path: Path) -> None:
    with atomic_open(path) as stream:
        stream.write("file\tline\treason\trow\n")
        for reject in rejects:
            stream.write(tsv_line((reject.file, str(reject.line), reject.reason, reject.raw)) + "\n")

"""The report on a prepared task: the manifest, and the summary on the terminal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.tasks.definitions import Task
from data_prep.tasks.examples import Examples, Limit, Split
from data_prep.tasks.rows import SHOWN, Source
from data_prep.tasks.writing import REJECTED, is_labelled
from data_prep.tokenizers import Tokenizer
from linformer_fairseq.files.provenance import sha256


def describe(
    task: Task, source: Source, options: Mapping[str, Any], examples: Examples, tokenizer: Tokenizer, folder: Path
) -> dict[str, Any]:
    """The manifest of a task that was written to ``folder``: the same for the same input and options."""
    return {
        "task": task.name,
        "labels": list(source.labels),
        "positive": task.positive,
        "submission": f"{task.folder}.tsv" if task.folder else None,
        "source": source.facts.source,
        "remarks": source.facts.remarks,
        "options": dict(options),
        "tokenizer": tokenizer.describe(),
        "splits": {name: _split(task, name, split, source.labels, examples) for name, split in examples.splits.items()},
        "sha256": {str(path.relative_to(folder)): sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()},
    }


def _split(task: Task, name: str, split: Split, classes: Sequence[str], examples: Examples) -> dict[str, Any]:
    labels = Counter(label for label in split.labels if label is not None)
    return {
        "examples": len(split.ids),
        "rows": len(set(split.identifiers)),
        "official": task.official.get(name),
        "labels": dict(sorted(labels.items())) if is_labelled(split) else None,
        "tokens": sum(len(part) for ids in split.ids for part in ids),
        "longest": split.longest,
        "counts": {key: count for key, count in sorted(split.counts.items()) if count},
        "agree with their soft labels": _agreeing(split, classes),
        "repeated texts": examples.repeats.duplicates[name],
        "texts with several labels": examples.repeats.contradictions(name),
        "texts also in train": examples.repeats.shared(name, "train") if name != "train" else None,
    }


def _agreeing(split: Split, classes: Sequence[str]) -> int | None:
    """Number of examples whose label is the most probable class of their soft labels."""
    if split.soft_labels is None:
        return None
    first = (classes[number] for number in split.soft_labels.argmax(axis=1))
    return sum(label == other for label, other in zip(split.labels, first, strict=True))


def summary(manifest: Mapping[str, Any], examples: Examples, limit: Limit) -> Iterator[str]:
    """Lines for the user: nothing that differs from the files, or from the official ones, goes unsaid."""
    for name, split in manifest["splits"].items():
        of = f" of {split['rows']:,} rows" if split["rows"] != split["examples"] else ""
        yield f"{name}: {split['examples']:,} examples{of}{_shares(split['labels'])}{_official(split)}"
        for what, count in split["counts"].items():
            if what.startswith("longer than"):
                hint = "" if limit.positions else ": --max-positions cuts"
                yield f"  {count:,} are {what} positions (the longest takes {split['longest']:,}){hint}"
            elif what == "cut":
                yield f"  {count:,} cut to {limit.positions} positions ({limit.how})"
            elif what.startswith("divided"):
                yield f"  {count:,} {what} of {limit.positions} positions"
            else:
                yield f"  {count:,} {what}" + (f": see {REJECTED}" if what == "rejected" else ", kept")
        yield from _soft(split)
        for what in ("repeated texts", "texts with several labels", "texts also in train"):
            if split[what]:
                yield f"  {split[what]:,} {what}, kept"
    classes = manifest["splits"]["train"]["labels"]
    if classes and len(classes) == 1:
        yield (
            f"warning: every example of train is of the class {next(iter(classes))!r}: a model would learn to answer "
            "nothing else; expected examples of two classes or more, is train whole?"
        )
    yield from (f"note: {remark}" for remark in manifest["remarks"])
    rejects = examples.rejects
    if rejects:
        yield f"Rows that are no examples: {len(rejects):,}{f', the first {SHOWN}' if len(rejects) > SHOWN else ''}:"
    yield from (f"  {reject}" for reject in rejects[:SHOWN])
    if manifest["submission"] and any(reject.split == "test" for reject in rejects):
        yield "warning: rows of the test set are among them; a submission made from this data lacks their predictions"


def _shares(labels: Mapping[str, int] | None) -> str:
    if labels is None:
        return " without labels"
    return f" ({', '.join(f'{label}: {count:,}' for label, count in labels.items())})"


def _soft(split: Mapping[str, Any]) -> Iterator[str]:
    agreeing, examples, labels = split["agree with their soft labels"], split["examples"], split["labels"]
    if agreeing is None:
        return
    share = f"{100 * agreeing / examples:.1f} %"
    yield f"  {agreeing:,} ({share}) have the label that is most probable in their soft labels"
    if labels and len(labels) > 1 and agreeing <= max(labels.values()):
        yield (
            "warning: the soft labels agree with the labels no more often than the most frequent class does; expected "
            "the table of a teacher that knows more, made from the same files"
        )


def _official(split: Mapping[str, Any]) -> str:
    official, count = split["official"], split["rows"]
    if official is None:
        return ""
    if official == count:
        return "; the official number"
    difference = f"{abs(official - count):,} {'fewer' if count < official else 'more'} here"
    return f"; the official files have {official:,}: {difference}"

"""Converts the files of a task to a data folder for fairseq-train."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from data_prep.sources.source import Errors
from data_prep.support.splits import NAMES, TRAIN
from data_prep.support.step import Step
from data_prep.tasks.definitions import Task
from data_prep.tasks.examples import Examples, Limit, collect
from data_prep.tasks.glue import GlueSource
from data_prep.tasks.hub import HubSource
from data_prep.tasks.imdb import ImdbSource
from data_prep.tasks.report import describe
from data_prep.tasks.rows import SHOWN, Source
from data_prep.tasks.soft_labels import of_examples, read_soft_labels
from data_prep.tasks.tsv import TsvSource
from data_prep.tasks.writing import write_examples
from data_prep.tokenizers import load_tokenizer
from linformer_fairseq.files.cutting import smallest
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.names import check_name

HUB = "hub"


def open_source(task: Task, given: Sequence[str], errors: Errors) -> Source:
    """Open the source given by the user: files, or `HUB`; ``./hub`` is a folder.

    Raises:
        UserError: a file does not exist or does not belong to the task, or its name is not UTF-8.
    """
    paths = [Path(one) for one in given]
    for path in paths:
        check_name(path)
    if task.name == "tsv":
        return TsvSource(paths, errors)
    if len(paths) != 1:
        raise UserError(f"--from: {task.name} is one folder or file, {len(paths)} were given")
    if given[0] == HUB:
        return HubSource(task, None, errors)
    if paths[0].is_dir() and any(paths[0].glob("train-*.parquet")):
        return HubSource(task, paths[0], errors)
    if task.folder:
        return GlueSource(task, paths[0], errors)
    if task.name == "imdb":
        return ImdbSource(task, paths[0], errors)
    raise UserError(
        f"--from {given[0]}: expected {HUB}, or a folder with the train-*.parquet of {task.hub.repository}, "
        f"of which {task.name} is read"
    )


def prepare(
    task: Task,
    source: Source,
    tokenizer_folder: Path,
    out: Path,
    limit: Limit,
    strict: bool,
    options: Mapping[str, Any],
    soft_labels: Path | None = None,
) -> tuple[dict[str, Any], Examples]:
    """Write input0, input1 (for pairs), label, ids, soft_labels, the tokenizer and manifest.json to ``out``.

    Args:
        task: the task.
        source: see `open_source`.
        tokenizer_folder: see `data_prep.tokenizers.load_tokenizer`.
        out: output folder, written atomically; an earlier output of the same task is replaced.
        limit: maximum length of examples.
        strict: raise an error if there are invalid rows.
        options: recorded in the manifest.
        soft_labels: a table of probabilities of the classes of train (see `read_soft_labels`).

    Returns:
        The manifest, and the examples with the rejected rows.

    Raises:
        UserError: bad input (see `Source.rows`, `read_soft_labels` and `of_examples`), a split without examples, or
            ``out`` cannot be written.
    """
    out = out.resolve()
    least = smallest(len(task.texts))
    if limit.positions is not None and limit.positions < least:
        raise UserError(f"--max-positions {limit.positions}: expected at least {least}, or nothing of a text is left")
    with Step(out, {"program": "prepare_task", "task": task.name}, redo=True) as step:
        soft = read_soft_labels(soft_labels, source.labels) if soft_labels else None  # before the work
        tokenizer = load_tokenizer(tokenizer_folder)
        examples = collect(source.rows(), source.labels, tokenizer, limit)
        rank = {name: number for number, name in enumerate(NAMES)}
        examples.splits = dict(
            sorted(examples.splits.items(), key=lambda item: (rank.get(item[0], len(rank)), item[0]))
        )
        if strict and examples.rejects:
            raise UserError(_refusal(examples))
        for name, split in examples.splits.items():
            if not split.ids:
                raise UserError(f"no row of {name} is an example; the first: {examples.first_reject(name)}")
        if soft is not None:
            train = examples.splits[TRAIN]
            train.soft_labels = of_examples(soft, train.identifiers)
        write_examples(examples, source.labels, tokenizer, step.outputs)
        manifest = step.finish(describe(task, source, options, examples, tokenizer, step.outputs))
    return manifest, examples


def _refusal(examples: Examples) -> str:
    count = len(examples.rejects)
    lines = [f"rows that are no examples: {count:,}; nothing was written, because --strict was given"]
    lines += [f"  {reject}" for reject in examples.rejects[:SHOWN]]
    if count > SHOWN:
        lines.append(f"  and {count - SHOWN:,} more")
    return "\n".join(lines)

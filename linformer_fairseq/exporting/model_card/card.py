"""Puts a model card together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from linformer_fairseq.checkpoints.released_folder import known_inputs
from linformer_fairseq.exporting.trained import CheckpointModel, check_dictionaries
from linformer_fairseq.files import provenance
from linformer_fairseq.files.dictionary import NAME, find_dictionary, read_labels
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.markdown import markdown_table
from linformer_fairseq.files.shipped import shipped_folder
from linformer_fairseq.files.task_data import text_folders

from . import architecture, training, usage
from .front_matter import front_matter, metadata, split
from .history import Stage, read_history
from .metrics import Metric, read_metrics, updates_of
from .training import NOT_RECORDED

_WRITTEN = ("Data and licences", "How it was made", "Metrics", "Limits")
"""Sections of the page on the models that come with the package, whose training has no run folder in it."""
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:)[^)]*\)")


def model_card(
    model: CheckpointModel,
    data: Path | None = None,
    evaluations: Sequence[Path] = (),
    license: str | None = None,
    language: str | None = None,
    exported: Path | None = None,
    released: Path | None = None,
) -> str:
    """The card of a model in the format of the Hugging Face hub, of what its files say.

    Args:
        model: the model, see `trained.read_model`.
        data: folder of the data that it was trained on, if it is not the one that the checkpoint names.
        evaluations: files of `linformer evaluate --results`.
        license, language: of the model, as its author states them.
        exported: the folder that `linformer export hf` writes, if the card is for that.
        released: the same for `linformer checkpoint release`.

    Raises:
        UserError: a file that is read is damaged, the data have no dictionary, or others than the model's training had,
            or an evaluation is of another checkpoint; the message names it.
    """
    if data is not None:
        if find_dictionary(data) is None:
            raise UserError(
                f"--data {data}: no dictionary in it; expected the folder of the data that it was trained on"
            )
        check_dictionaries(model, data)
    stages = read_history(model, data)
    metrics = read_metrics(model, stages[0], evaluations)
    page = _shipped_page(stages[0])
    stated, written = split(page) if page else ({}, "")
    stated |= {name: value for name, value in (("license", license), ("language", language)) if value}
    library = "fairseq" if exported is None else "transformers"
    front = front_matter(metadata(model, stages, metrics, library, stated))
    folders = _folders(model, stages[0], data)
    pairs = _takes_pairs(model, folders)
    if exported is None:
        used = usage.with_fairseq(model, stages[0], pairs, released)
    else:
        used = usage.with_transformers(model, pairs, exported)
    labels = _labels(model, folders)
    sections = [
        f"# {stages[0].name}\n\n{_summary(model, exported is not None)}\n",
        f"## Use\n\n{used}",
        f"## Architecture\n\n{_table(architecture.rows(model, labels, exported is not None))}\n{_departures(model)}",
        *(_written(written, model, metrics) if written else _recorded(model, stages, metrics, stated)),
        _footer(stages),
    ]
    return f"{front}\n" + "\n".join(sections)


def _summary(model: CheckpointModel, exported: bool) -> str:
    settings, _ = architecture.settings_of(model.options)
    kind = "A masked language model" if model.head is None else "A text classifier"
    if model.regression:
        kind = "A model that predicts numbers from texts"
    return (
        f"{kind} with Linformer attention ([Wang et al. 2020](https://arxiv.org/abs/2006.04768)): a RoBERTa whose "
        f"self-attention is to k projected keys and values in place of all n = {settings.max_positions:,}, so that "
        f"time and memory grow as O(nk). {settings.num_layers} layers of width {settings.embed_dim:,}, "
        f"{architecture.count_parameters(model, exported):,} parameters."
    )


def _departures(model: CheckpointModel) -> str:
    found = architecture.differences(model.options)
    if not found:
        return "The options of the attention are those of the paper's experiments.\n"
    return f"Options with other values than in the model of the paper's experiments: {', '.join(found)}.\n"


def _folders(model: CheckpointModel, stage: Stage, data: Path | None) -> list[Path]:
    """Where something can be known of the data: the folder that is named, which may be gone, and the model's."""
    if data is not None:
        return [data, model.path.parent]
    named = stage.run.record.data if stage.run and stage.run.record.data else stage.settings.get("task.data")
    return [model.path.parent, *([Path(named)] if named and not stage.data.replaced else [])]


def _takes_pairs(model: CheckpointModel, folders: Sequence[Path]) -> bool:
    """Whether the head was trained on pairs of texts."""
    if model.head is None:
        return False
    return any(len(text_folders(folder)) == 2 or known_inputs(model.path, folder).texts == 2 for folder in folders)


def _labels(model: CheckpointModel, folders: Sequence[Path]) -> list[str]:
    """The names of the classes; empty where no folder has as many."""
    if model.head is None or model.regression:
        return []
    for path in (folder / "label" / NAME for folder in folders):
        if path.is_file() and len(labels := read_labels(path)) == model.outputs:
            return labels
    return []


def _recorded(
    model: CheckpointModel, stages: Sequence[Stage], metrics: Sequence[Metric], stated: Mapping[str, str]
) -> Iterator[str]:
    """The sections on data, training and metrics, and what limits follow from them."""
    yield f"## Data and licences\n\n{''.join(map(_data, stages))}{_licence(stated)}"
    parts = [
        f"### {training.heading(stage)}: {stage.name}\n\n{_stage(stage, updates_of(model) if number == 0 else None)}"
        for number, stage in enumerate(stages)
    ]
    yield "## Training\n\n" + "\n".join(parts)
    yield f"## Metrics\n\n{_metrics(metrics)}"
    known = [*architecture.limits(model.options), *_limits(model, metrics, stated)]
    yield f"## Limits\n\n{_list(known)}"


def _stage(stage: Stage, update: int | None) -> str:
    if stage.shipped is not None:
        return (
            f"`{stage.shipped}` comes with linformer-fairseq; `linformer card {stage.shipped}` prints its data, "
            "licences, training and metrics.\n"
        )
    return _table(training.rows(stage, update))


def _data(stage: Stage) -> str:
    if stage.shipped is not None:
        return ""
    if stage.conversion is not None:
        return f"Of the source of the conversion `{stage.name}`: {NOT_RECORDED}.\n\n"
    data = stage.data
    lines = [f"Of the {training.heading(stage).lower()} `{stage.name}`:\n\n"]
    if data.unknown:
        return f"{lines[0]}{NOT_RECORDED.capitalize()}. {data.unknown}\n\n"
    if data.sources:
        head = ("source", "amount", "licence", "revision")
        body = [
            (
                source.name + (f" (hub: {source.repository})" if source.repository else ""),
                source.amount or "-",
                source.license or NOT_RECORDED,
                source.revision or "-",
            )
            for source in data.sources
        ]
        lines.append("\n".join(markdown_table([head, *body], left=range(4))) + "\n\n")
    lines.append("".join(f"* {name}: {size}\n" for name, size in data.splits))
    lines.append(f"* tokenizer: {data.tokenizer or NOT_RECORDED}\n\n")
    return "".join(lines)


def _licence(stated: Mapping[str, str]) -> str:
    licence = stated.get("license", NOT_RECORDED)
    language = stated.get("language", NOT_RECORDED)
    return f"Licence of the model: {licence}. Language: {language}.\n"


def _metrics(metrics: Sequence[Metric]) -> str:
    if not metrics:
        return f"{NOT_RECORDED.capitalize()}.\n"
    head = ("metric", "data", "split", "value", "measured by")
    body = [(metric.name, metric.data, metric.split or "-", metric.text, metric.origin) for metric in metrics]
    return "\n".join(markdown_table([head, *body], left=(0, 1, 2, 4))) + "\n"


def _limits(model: CheckpointModel, metrics: Sequence[Metric], stated: Mapping[str, str]) -> Iterator[str]:
    language = stated.get("language")
    where = f"Its language is {language}" if language else "Its language is not recorded: it is that of its data"
    yield f"{where}; the vocabulary has {model.vocabulary:,} symbols. Other text may be cut into many short pieces."
    yield "Biases of the data are those of the model; no file records that they, or its safety, were examined."
    if not metrics:
        yield "No score of it is recorded."
    if not updates_of(model):
        yield "No update of its weights is recorded."


def _written(page: str, model: CheckpointModel, metrics: Sequence[Metric]) -> Iterator[str]:
    """Sections that people wrote on a model of the package, without links to other files, and what is to be added."""
    added = {
        "Metrics": f"\n{_metrics(metrics)}" if metrics else "",
        "Limits": _list(architecture.limits(model.options)),
    }
    for title in _WRITTEN:
        section = page.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0].strip("\n")
        text = _LINK.sub(r"\1", section)
        yield f"## {title}\n\n{text}\n{added.get(title, '')}"


def _shipped_page(stage: Stage) -> str | None:
    if stage.shipped is None:
        return None
    return (shipped_folder(stage.shipped).parent / "README.md").read_text(encoding="utf-8")


def _footer(stages: Sequence[Stage]) -> str:
    files = ["the checkpoint"]
    if stages[0].shipped:
        files.append("the page on the models that come with it")
    if any(stage.run for stage in stages):
        files.append("the run folder")
    if any(stage.conversion for stage in stages):
        files.append("conversion.json")
    if any(not stage.data.unknown for stage in stages):
        files.append("the manifest of the data")
    read = ", ".join(files[:-1]) + (" and " if files[:-1] else "") + files[-1]
    version = provenance.versions(["linformer-fairseq"])["linformer-fairseq"]
    return (
        f'---\n\nWritten by linformer-fairseq {version} from {read}. "{NOT_RECORDED.capitalize()}" is what they do '
        "not say.\n"
    )


def _table(rows: Iterable[tuple[str, str]]) -> str:
    """Rows of names and values; the names of those that are not known stand below."""
    found = list(rows)
    known = [row for row in found if row[1] != NOT_RECORDED]
    lines = markdown_table([("", ""), *known], left=(0, 1))
    missing = [name for name, value in found if value == NOT_RECORDED]
    if missing:
        lines += ["", f"{NOT_RECORDED.capitalize()}: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def _list(lines: Iterable[str]) -> str:
    return "".join(f"* {line}\n" for line in lines)

"""The metadata of a model card, which the Hugging Face hub reads: YAML in front of the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from linformer_fairseq.exporting.trained import CheckpointModel

from .history import Stage
from .metrics import Metric

FILL_MASK, CLASSIFICATION = "fill-mask", "text-classification"
_RULE = "---\n"


def task_of(model: CheckpointModel) -> str:
    """The hub's name of what the model does."""
    return FILL_MASK if model.head is None else CLASSIFICATION


def metadata(
    model: CheckpointModel,
    stages: Sequence[Stage],
    metrics: Sequence[Metric],
    library: str,
    stated: Mapping[str, str],
) -> dict[str, Any]:
    """The metadata; what is not known is left out, as the hub has it.

    Args:
        model: the model.
        stages: see `history.read_history`.
        metrics: see `metrics.read_metrics`.
        library: the hub's name of the library that loads the files beside the card.
        stated: what a person says of the model: ``license`` and ``language``.
    """
    datasets = [source.repository for stage in stages for source in stage.data.sources if source.repository]
    base = _base_model(stages)
    found: dict[str, Any] = {
        **{name: stated[name] for name in ("license", "language") if name in stated},
        "library_name": library,
        "pipeline_tag": task_of(model),
        "tags": ["linformer", "linear-attention", *(["custom_code"] if library == "transformers" else [])],
    }
    if base is not None:
        found["base_model"] = base
    if datasets:
        found["datasets"] = list(dict.fromkeys(datasets))
    if metrics:
        found["metrics"] = list(dict.fromkeys(metric.kind for metric in metrics))
        first = {(metric.kind, metric.data, metric.split): metric for metric in reversed(metrics)}
        results = [_result(metric, task_of(model)) for metric in reversed(first.values())]
        found["model-index"] = [{"name": stages[0].name, "results": results}]
    return found


def front_matter(values: Mapping[str, Any]) -> str:
    """The metadata as text, with the rules around it."""
    return _RULE + yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True, width=120) + _RULE


def split(card: str) -> tuple[dict[str, Any], str]:
    """The metadata of a card, empty if it has none, and its text."""
    if not card.startswith(_RULE):
        return {}, card
    values, _, text = card.removeprefix(_RULE).partition(f"\n{_RULE}")
    return yaml.safe_load(values), text


def _base_model(stages: Sequence[Stage]) -> str | None:
    """The model of the hub or of the package that the first training or the conversion began with."""
    for stage in reversed(stages):
        with stage.reading_conversion():
            source = str(stage.conversion["source"]["name"]) if stage.conversion else ""
        if source.count("/") == 1:  # OWNER/NAME; others are names of files
            return source
        if stage.shipped is not None and stage is not stages[0]:
            return stage.shipped
    return None


def _result(metric: Metric, task: str) -> dict[str, Any]:
    dataset = {
        "name": metric.data,
        "type": metric.repository or metric.data,
        "config": metric.config,
        "split": metric.split,
        "revision": metric.revision,
    }
    return {
        "task": {"type": task},
        "dataset": {name: value for name, value in dataset.items() if value},
        "metrics": [
            {
                "type": metric.kind,
                "value": round(metric.value / 100, 6) if metric.is_share else round(metric.value, 4),
                "name": metric.name,
            }
        ],
    }

"""What a checkpoint says of its model, checked before anything is built from it.

fairseq builds whatever model and task a checkpoint names, with its options. Some of its models ``eval()`` an option
(``fconv``, ``wav2vec``; the attention of every model does with ``xformers_att_config``), and a size that the weights
do not have takes memory before it is noticed.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.roberta import RobertaModel
from fairseq.tasks import TASK_REGISTRY
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.multilingual_masked_lm import MultiLingualMaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.sentence_ranking import SentenceRankingTask
from omegaconf import OmegaConf
from torch import Tensor

from linformer_fairseq.checkpoints.reading import checked_by
from linformer_fairseq.core import largest_dim, parse_projected_dim
from linformer_fairseq.files.json_records import shortened

_TASKS = (MaskedLMTask, MultiLingualMaskedLMTask, SentencePredictionTask, SentenceRankingTask)
_EVALUATED = "xformers_att_config"
"""fairseq's attention runs the option of this name as Python, in RoBERTa too."""
_MOST = 1_000_000
"""Largest size of what a checkpoint has no weight of, such as sinusoidal position embeddings."""
_MOST_LAYERS = 1_000
"""The same of layers, of which ``encoder_layers_to_keep`` leaves out some."""
_LINEAR = re.compile(r"\bproj_k\.(heads\.\d+\.)?weight$")
_LAYER = re.compile(r"\blayers\.(\d+)\.")
# Option, end of a weight's name, its dimension, and how much larger that is than the option.
_SIZES = (
    ("encoder_embed_dim", ".embed_tokens.weight", 1, 0),
    ("encoder_ffn_embed_dim", ".layers.0.fc1.weight", 0, 0),
    ("max_positions", ".embed_positions.weight", 0, 2),
    ("num_classes", ".out_proj.weight", 0, 0),
)


@contextmanager
def robertas_only(tasks: bool = False) -> Iterator[None]:
    """Inside the ``with`` block, checkpoints of other models than RoBERTa's family, or that diverged, are refused.

    Args:
        tasks: also refuse those of other tasks than masked language models and sentences; needed if the task is built.

    Raises:
        CheckpointError: such a checkpoint is read in the block.
    """
    with checked_by(_require_roberta_and_task if tasks else _require_roberta):
        yield


def read_roberta(path: Path) -> dict[str, Any]:
    """Read a checkpoint of RoBERTa's family, with its options in ``cfg``, also those of fairseq's earlier versions.

    Raises:
        CheckpointError: the file is damaged, is no checkpoint, or is one of another model, or its training diverged.
        OSError: it cannot be read.
    """
    with robertas_only():
        state: dict[str, Any] = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    return state


def _require_roberta_and_task(state: Mapping[str, Any]) -> None:
    _require_roberta(state)
    options = stored_options(state, "task")
    name = str(options.get("_name") or options.get("task"))
    task = TASK_REGISTRY.get(name)
    if task is None or not issubclass(task, _TASKS):
        raise ValueError(f"its task is {name}; expected one of masked language models or of sentences")


def _require_roberta(state: Mapping[str, Any]) -> None:
    options = stored_options(state, "model")
    name = str(options.get("_name") or options.get("arch"))
    model = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    if model is None or not issubclass(model, RobertaModel):
        raise ValueError(f"its model is {name}; expected a Linformer or another RoBERTa")
    for key in _evaluated(options):
        raise ValueError(f"refused: its option {key} would be run as Python; nothing of it was executed")
    check_sizes({**stored_options(state, "task"), **options}, state["model"])
    _require_finite(state["model"])


def _require_finite(weights: Mapping[str, Any]) -> None:
    """A model that diverged would still give a class to every text: softmax of NaN has its maximum at the first."""
    for name, weight in weights.items():
        if isinstance(weight, Tensor) and not bool(weight.isfinite().all()):
            raise ValueError(f"its weight {name} has values that are not finite; expected a run that did not diverge")


def stored_options(state: Mapping[str, Any], part: str) -> dict[str, Any]:
    """The options of ``model`` or ``task`` in a checkpoint as it is stored; an old one has all in one namespace."""
    found = state["cfg"][part] if state.get("args") is None else state["args"]
    if OmegaConf.is_config(found):
        found = OmegaConf.to_container(found, resolve=True, enum_to_str=True)
    return dict(vars(found) if isinstance(found, Namespace) else found or {})


def _evaluated(options: Mapping[str, Any], where: str = "") -> Iterator[str]:
    for key, value in options.items():
        if isinstance(value, Namespace):
            value = vars(value)
        if isinstance(value, Mapping):
            yield from _evaluated(value, f"{where}{key}.")
        elif str(key).endswith(_EVALUATED) and value is not None:
            yield f"{where}{key}"


def check_sizes(options: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
    """Check that a model of these options is not larger than its weights.

    Args:
        options: of the model and its task; what is not there has the default of the architecture.
        weights: by the names of fairseq's state dict.

    Raises:
        ValueError: a size is no positive integer, or larger than that of the weights.
    """
    most = {}
    for option, end, dimension, more in _SIZES:
        found = [tensor.shape for name, tensor in weights.items() if f".{name}".endswith(end)]
        most[option] = max((shape[dimension] - more for shape in found if len(shape) > dimension), default=_MOST)
    layers = len({found[1] for found in map(_LAYER.search, weights) if found})
    most["encoder_layers"] = _MOST_LAYERS if options.get("encoder_layers_to_keep") else layers
    for option, largest in most.items():
        value = options.get(option)
        if value is not None and (type(value) is not int or not 0 < value <= largest):
            raise ValueError(f"its option {option} is {shortened(value)}; its weights are those of at most {largest:,}")
    if options.get("projected_dim") is not None:
        largest = _MOST  # pooling and convolution have no weight with k rows
        if options.get("projection", "linear") == "linear":
            found = [tensor.shape for name, tensor in weights.items() if _LINEAR.search(name)]
            largest = max((most["max_positions"], *(size for shape in found for size in shape)))
        if (rows := largest_dim(parse_projected_dim(options["projected_dim"]))) > largest:
            raise ValueError(f"its option projected_dim is {rows:,}; its weights are those of at most {largest:,}")

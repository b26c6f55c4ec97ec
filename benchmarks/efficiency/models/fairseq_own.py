"""fairseq's RoBERTa, and the Linformer in its examples."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from argparse import Namespace
from pathlib import Path
from typing import Any

from benchmarks.efficiency.models.fairseq_task import Features, Task, encoder_options
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq import register
from linformer_fairseq.files.errors import UserError


def full_model(sizes: Sizes, n: int, dropout: float = 0.0) -> Any:
    """The whole RobertaModel, with its masked-language-model head."""
    from fairseq.models.roberta import RobertaModel
    from fairseq.models.roberta.model import base_architecture

    register()  # patches fairseq

    options = Namespace(**encoder_options(sizes, n, dropout))
    base_architecture(options)
    return RobertaModel.build_model(options, Task(sizes.vocabulary, n))


def roberta(sizes: Sizes, n: int, k: int | None) -> Features:
    """fairseq's RoBERTa; in inference it uses torch's fused attention, inside multi_head_attention_forward."""
    return Features(full_model(sizes, n))


def linformer(sizes: Sizes, n: int, k: int) -> Features:
    """fairseq's examples/linformer, E = F shared by all layers.

    Raises:
        UserError: it cannot have this k; its option is how many positions there are for each of the rows.
    """
    each = n // k
    if n // each != k:
        raise UserError(f"with n = {n} it has k = {n // each} or {n // (each + 1)}, not {k}; choose one of these")
    shared = {"compressed": each, "shared_kv_compressed": 1, "shared_layer_kv_compressed": 1}
    options = Namespace(**encoder_options(sizes, n, 0.0), **shared)
    return Features(_example().LinformerModel.build_model(options, Task(sizes.vocabulary, n)))


def _example() -> Any:
    """The example's module, loaded in addition to our model, although both register the name linformer_roberta."""
    from fairseq import models

    register()  # patches fairseq, and registers our model first

    name = "fairseq.examples.linformer.linformer_src.models.linformer_roberta"
    if name in sys.modules:
        return sys.modules[name]
    folder = importlib.util.find_spec("fairseq.examples.linformer").submodule_search_locations[0]  # type: ignore[union-attr, index]
    for part in ("fairseq.examples.linformer.linformer_src", "fairseq.examples.linformer.linformer_src.models"):
        # An empty package replaces the example's own, which would register the model's name when imported.
        package = types.ModuleType(part)
        package.__path__ = [str(Path(folder, *part.split(".")[3:]))]
        sys.modules[part] = package
    kept = models.register_model, models.register_model_architecture
    try:
        models.register_model = lambda *_, **__: lambda cls: cls
        models.register_model_architecture = lambda *_, **__: lambda function: function
        return importlib.import_module(name)
    finally:
        models.register_model, models.register_model_architecture = kept

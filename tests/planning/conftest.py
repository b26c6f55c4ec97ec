from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fairseq import models
from fairseq.data import Dictionary
from omegaconf import DictConfig, open_dict
from torch import nn

from linformer_fairseq import launch
from linformer_fairseq.launch.options import with_defaults

SMALL = {"encoder_layers": 2, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 48, "encoder_attention_heads": 4}
N, SYMBOLS = 24, 50


@pytest.fixture(scope="session")
def pretraining() -> DictConfig:
    """The composed config of a pretraining without an experiment."""
    return launch.compose("pretraining", [f"task.tokens_per_sample={N}", "run.tokens_per_batch=96"])


@pytest.fixture
def small(pretraining: DictConfig) -> Callable[..., DictConfig]:
    """``small(name, num_classes=0, **options)``: a run of a small model, pretraining or classification."""

    def make(name: str, num_classes: int = 0, **options: Any) -> DictConfig:
        config = pretraining.copy()
        with open_dict(config):
            config.run.model = name
            config.model = {"_name": name, "max_positions": N, **SMALL, **options}
            if num_classes:
                config.task = {"_name": "sentence_prediction", "num_classes": num_classes, "max_positions": N}
            config.dataset.batch_size, config.optimization.update_freq = 4, [1]
        return config

    return make


@pytest.fixture
def build() -> Callable[..., nn.Module]:
    """``build(config, symbols=SYMBOLS)``: the model as fairseq builds it, on a dictionary of that size."""

    def make(config: DictConfig, symbols: int = SYMBOLS) -> nn.Module:
        config = with_defaults(config)
        dictionary = Dictionary()
        for number in range(symbols - len(dictionary)):
            dictionary.add_symbol(f"w{number}")
        task = SimpleNamespace(cfg=config.task, source_dictionary=dictionary, max_positions=lambda: N)
        model = models.build_model(config.model, task)
        if config.task._name == "sentence_prediction":
            model.register_classification_head("sentence_classification_head", num_classes=config.task.num_classes)
        return model

    return make

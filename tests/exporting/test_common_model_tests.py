"""Hugging Face's own tests for all models of transformers, from the source distribution of the installed version.

``LINFORMER_TRANSFORMERS`` names its folder (pip download --no-deps --no-binary :all: transformers==VERSION, unpacked).
"""

from __future__ import annotations

import importlib
import os
import sys
import unittest
import unittest.mock
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from linformer_fairseq.exporting.hugging_face.configuration_linformer import LinformerConfig
from linformer_fairseq.exporting.hugging_face.modeling_linformer import (
    LinformerForMaskedLM,
    LinformerForSequenceClassification,
    LinformerModel,
)

_NAME = "transformers_tests"
# What their test_modeling_common inherits from, and what the source distribution lacks: other exporters, generation.
_LACKING = {"exporters.test_export": "ExportTesterMixin", "generation.test_utils": "GenerationTesterMixin"}


def _common_tests() -> Any:
    folder = os.environ.get("LINFORMER_TRANSFORMERS")
    if folder is None:
        pytest.skip("LINFORMER_TRANSFORMERS does not name the source of transformers", allow_module_level=True)
    pytest.importorskip("parameterized")
    package = ModuleType(_NAME)
    package.__path__ = [str(Path(folder) / "tests")]
    sys.modules[_NAME] = package
    for name, mixin in _LACKING.items():
        parent = ModuleType(f"{_NAME}.{name.partition('.')[0]}")
        parent.__path__ = []
        module = ModuleType(f"{_NAME}.{name}")
        setattr(module, mixin, type(mixin, (), {}))
        sys.modules[parent.__name__], sys.modules[module.__name__] = parent, module
    return importlib.import_module(f"{_NAME}.test_modeling_common")


_COMMON = _common_tests()


class _Tester:
    """Small models and inputs, in the way of Hugging Face's tests."""

    batch_size, seq_length, num_hidden_layers, hidden_size, num_attention_heads = 3, 7, 2, 32, 4
    is_training = True

    def get_config(self) -> LinformerConfig:
        return LinformerConfig(
            vocab_size=99,
            hidden_size=self.hidden_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=37,
            max_position_embeddings=40,
            projected_dim=5,
            num_labels=3,
        )

    def prepare_config_and_inputs_for_common(self) -> tuple[LinformerConfig, dict[str, Any]]:
        shape = (self.batch_size, self.seq_length)
        mask = torch.ones(shape, dtype=torch.long)
        mask[1, 4:] = 0
        return self.get_config(), {"input_ids": torch.randint(3, 99, shape), "attention_mask": mask}


@pytest.mark.slow
class TestLinformer(_COMMON.ModelTesterMixin, unittest.TestCase):  # type: ignore[misc]
    """The tests that apply: those of attention probabilities (T x T) do not."""

    all_model_classes = (LinformerModel, LinformerForMaskedLM, LinformerForSequenceClassification)
    has_attentions = False
    test_can_init_all_missing_weights_before_2023 = True

    def setUp(self) -> None:
        self.model_tester = _Tester()
        # Models without a head are not trained.
        names = unittest.mock.patch.dict(_COMMON.MODEL_MAPPING_NAMES, linformer="LinformerModel")
        names.start()
        self.addCleanup(names.stop)

    def _prepare_for_class(self, inputs_dict: Any, model_class: Any, return_labels: bool = False) -> Any:
        inputs = super()._prepare_for_class(inputs_dict, model_class, return_labels)
        if return_labels and model_class is not LinformerModel:
            classes = model_class is LinformerForSequenceClassification
            tester = self.model_tester
            shape = (tester.batch_size,) if classes else (tester.batch_size, tester.seq_length)
            inputs["labels"] = torch.zeros(shape, dtype=torch.long)
        return inputs

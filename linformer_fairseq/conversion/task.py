"""The task that a converted model is built for: fairseq's masked_lm."""

from __future__ import annotations

from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from omegaconf import OmegaConf


def masked_lm(dictionary: Dictionary, max_positions: int) -> MaskedLMTask:
    """The task, for a dictionary as ``dict.txt`` has it; it adds ``<mask>``."""
    return MaskedLMTask(MaskedLMConfig(data=".", tokens_per_sample=max_positions, seed=1), dictionary)


def options_of(task: MaskedLMTask) -> dict[str, Any]:
    """Its options as a checkpoint has them."""
    options = OmegaConf.to_container(OmegaConf.structured(task.cfg), enum_to_str=True)
    assert isinstance(options, dict)
    return {**options, "_name": "masked_lm"}

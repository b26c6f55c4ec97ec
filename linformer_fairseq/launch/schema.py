"""The types of all options of a run: fairseq's own, and ours under ``run``.

Hydra validates configs and overrides against it, so that an error names a misspelled option.
No ``from __future__ import annotations`` here: omegaconf reads the field types as objects.
"""

import functools
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Optional

from fairseq.dataclass.configs import FairseqConfig
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

SCHEMA = "schema"


@dataclass
class PaperOptions:
    """Where this run appears in the paper."""

    figure3: list[str] = field(default_factory=list)
    """Panels of Figure 3: a, b, c, d."""
    table2: Optional[str] = None
    """Name of its row in Table 2."""


@dataclass
class PlanOptions:
    """Assumptions behind the estimates of ``--dry-run``."""

    tokens_per_second: Optional[float] = None
    """Measured speed of one device; if None, it is estimated from mfu x peak_tflops."""
    mfu: float = 0.3
    """Fraction of the device's peak that the run reaches, FLOPs of recomputed activations included."""
    peak_tflops: float = 125.0
    """Peak of one device at the run's precision, in 10^12 FLOPs per second; 125: V100, fp16 (NVIDIA's data sheet)."""
    device_gib: float = 32.0
    """Memory of one device, used if torch finds no GPU."""


@dataclass
class RunOptions:
    """Options that fairseq lacks. The configs set fairseq's options from ``precision`` and the batch in tokens."""

    stage: str = MISSING
    name: str = MISSING
    model: str = MISSING
    experiment: Optional[str] = None
    """Name of the config that was chosen from the group ``experiment``: set when the config is composed."""
    task: Optional[str] = None
    runs: str = "runs"
    precision: str = "fp16"
    tokens_per_update: Optional[int] = None
    tokens_per_batch: Optional[int] = None
    sentences_per_update: Optional[int] = None
    join_timeout: int = 600
    """Seconds that the processes of a run wait for each other when it starts."""
    paper: PaperOptions = field(default_factory=PaperOptions)
    plan: PlanOptions = field(default_factory=PlanOptions)
    slurm: Any = None


@dataclass
class LaunchConfig(FairseqConfig):
    """fairseq's config and our options."""

    run: RunOptions = field(default_factory=RunOptions)
    pretrained: Optional[str] = None
    lr: Optional[float] = None


SECTIONS = frozenset(field.name for field in fields(LaunchConfig) if is_dataclass(field.type))
"""The groups of options that every run has, unlike those of a chosen component."""


@functools.cache
def register() -> None:
    """Register the schema with Hydra under the name in the configs' defaults; another call has no effect."""
    ConfigStore.instance().store(name=SCHEMA, node=LaunchConfig)
    # Hydra copies its sources whenever it composes, and with them this store of all options of fairseq, which takes
    # half of the time. `ConfigStore.load` copies what it returns, so that nothing changes the store.
    ConfigStore.__deepcopy__ = lambda self, _: self  # type: ignore[attr-defined]

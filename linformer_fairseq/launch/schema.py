"""The types of every option of a run: fairseq's own, and ours under ``run``.

Hydra checks the configs and overrides against it, so that a misspelled option is refused by name.
No ``from __future__ import annotations`` here: omegaconf reads the field types as objects.
"""

import functools
from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.dataclass.configs import FairseqConfig
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

SCHEMA = "schema"


@dataclass
class PaperOptions:
    """Where the paper shows this run."""

    figure3: list[str] = field(default_factory=list)
    """Panels of Figure 3, as a, b, c, d."""
    table2: Optional[str] = None
    """Name of its row in Table 2."""


@dataclass
class PlanOptions:
    """Assumptions behind the estimates of ``--dry-run``."""

    tokens_per_second: Optional[float] = None
    """Measured, of one device; in its place stands mfu x peak_tflops where it is not known."""
    mfu: float = 0.3
    """Share of the device's peak that the run's operations reach, those of recomputed activations included."""
    peak_tflops: float = 125.0
    """10^12 operations a second of one device at the run's precision; 125: V100, fp16 (NVIDIA's data sheet)."""
    device_gib: float = 32.0
    """Memory of one device, used where torch sees no GPU."""


@dataclass
class RunOptions:
    """What fairseq has no option for. ``precision`` and the batch in tokens set fairseq's options in the configs."""

    stage: str = MISSING
    name: str = MISSING
    model: str = MISSING
    experiment: Optional[str] = None
    """Name of the config that was chosen from the group ``experiment``: filled in when the config is composed."""
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
    """fairseq's config and ours."""

    run: RunOptions = field(default_factory=RunOptions)
    pretrained: Optional[str] = None
    lr: Optional[float] = None


@functools.cache
def register() -> None:
    """Make the schema known to Hydra by the name that the configs' defaults have; calling again is harmless."""
    ConfigStore.instance().store(name=SCHEMA, node=LaunchConfig)

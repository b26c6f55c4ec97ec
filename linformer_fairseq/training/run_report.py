"""The logger and the progress of a training process.

fairseq's ``--log-file`` gets only what its own training program logs. A child of that program's logger reaches this
file, the console and Hydra.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

LOG = logging.getLogger("fairseq_cli.train.linformer")


@dataclass
class Progress:
    """Progress of a run; fairseq's own training program does not report it, not even if nothing was trained."""

    parameters: int | None = None
    """Number of the model's parameters; shared ones count once."""
    first: int | None = None
    """Number of updates at the start, including those of the checkpoint."""
    last: int | None = None
    """Number of updates now."""
    complete: bool = False
    """Whether max_update or max_epoch was reached at the start."""

    @property
    def trained(self) -> bool:
        """Whether updates were made, or none were left to do."""
        return self.complete or (self.first is not None and self.last is not None and self.last > self.first)


PROGRESS = Progress()
"""The progress of this process, which trains once; `patches.stopping` updates it while fairseq trains."""

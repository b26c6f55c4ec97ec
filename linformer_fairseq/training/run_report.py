"""What a training process says about itself: what happened to it, and how far it came.

fairseq's ``--log-file`` gets what its own training program logs and nothing else. A logger below that program's
is heard there, on the console and by Hydra alike.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

LOG = logging.getLogger("fairseq_cli.train.linformer")


@dataclass
class Progress:
    """How far a run came, which fairseq's own training program does not say: not even that nothing was trained."""

    parameters: int | None = None
    """The model's parameters, shared ones counted once."""
    first: int | None = None
    """Updates that the run had when it began, those before a checkpoint included."""
    last: int | None = None
    """Updates that it has now."""
    complete: bool = False
    """Whether it had reached max_update before it began."""

    @property
    def trained(self) -> bool:
        """Whether updates happened, or none were left to do."""
        return self.complete or (self.first is not None and self.last is not None and self.last > self.first)


PROGRESS = Progress()
"""The progress of this process, which trains once; `patches.stopping` fills it while fairseq trains."""

"""How far a run came, for those who started it: fairseq's main does not even say that nothing was trained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Progress:
    """Filled while fairseq trains."""

    parameters: int | None = None
    """Of the model, shared ones counted once."""
    first: int | None = None
    """Updates that the run had when it began, those before a checkpoint included."""
    last: int | None = None
    """Updates that it has now."""
    complete: bool = False
    """It had reached max_update before it began."""

    @property
    def trained(self) -> bool:
        """Whether updates happened, or none were left to do."""
        return self.complete or (self.first is not None and self.last is not None and self.last > self.first)

"""What a user can put right."""

import torch

from linformer_fairseq.compat.checkpoint_loading import CheckpointError
from linformer_fairseq.training.joining import JoinError
from linformer_fairseq.training.not_finite import NotFiniteError
from linformer_fairseq.training.saving import SavingError

# Ends of a training that say themselves what happened and what to do: no traceback makes them clearer.
EXPLAINED = (CheckpointError, JoinError, NotFiniteError, SavingError, MemoryError, torch.OutOfMemoryError)


class LaunchError(ValueError):
    """A run that cannot start as it was asked for; the message says which value, what was expected and what to do."""

"""``--sample-break-mode eos`` runs with numpy 2.

What fairseq does: its token blocks of one sentence each use ``numpy.compat.long``, which numpy 2 no longer has:
"AttributeError: module 'numpy' has no attribute 'compat'". So do the lengths of translation pairs.

The patch: the two modules use a numpy with that name, int64 if numpy has none; numpy itself is not changed.
"""

import types
from typing import Any

import numpy as np
from fairseq.data import language_pair_dataset, token_block_dataset


class _NumpyWithLong(types.ModuleType):
    """numpy with ``compat.long``."""

    compat = getattr(np, "compat", types.SimpleNamespace(long=np.int64))

    def __init__(self, _: Any) -> None:
        super().__init__("numpy", np.__doc__)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


REPLACED = (
    (token_block_dataset, "np", _NumpyWithLong),
    (language_pair_dataset, "np", _NumpyWithLong),
)

"""``--sample-break-mode eos`` runs with numpy 2.

What fairseq does: its token blocks of one sentence each ask for ``numpy.compat.long``, which numpy 2 no longer has:
"AttributeError: module 'numpy' has no attribute 'compat'". So does the length of translation pairs.

The patch: the two modules see a numpy with that name, as int64 where numpy has none; numpy itself stays as it is.
"""

import types
from typing import Any

import numpy as np
from fairseq.data import language_pair_dataset, token_block_dataset


class _NumpyWithLong(types.ModuleType):
    """numpy, and ``compat.long`` too."""

    compat = getattr(np, "compat", types.SimpleNamespace(long=np.int64))

    def __init__(self, _: Any) -> None:
        super().__init__("numpy", np.__doc__)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


REPLACED = (
    (token_block_dataset, "np", _NumpyWithLong),
    (language_pair_dataset, "np", _NumpyWithLong),
)

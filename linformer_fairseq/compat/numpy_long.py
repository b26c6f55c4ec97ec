"""``--sample-break-mode eos`` runs with numpy 2.

What fairseq does: its token blocks of one sentence each ask for ``numpy.compat.long``, which numpy 2 no longer has:
"AttributeError: module 'numpy' has no attribute 'compat'". So does the length of translation pairs.

The mend: the two modules see a numpy with that name, as int64; numpy itself stays as it is.
"""

import types
from typing import Any

import numpy as np
from fairseq.data import language_pair_dataset, token_block_dataset


class _NumpyWithLong(types.ModuleType):
    """numpy, and ``compat.long`` too."""

    compat = types.SimpleNamespace(long=np.int64)

    def __init__(self) -> None:
        super().__init__("numpy", np.__doc__)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def install() -> None:
    """Give the two modules a numpy with ``compat.long`` if theirs has none."""
    for module in (token_block_dataset, language_pair_dataset):
        if not hasattr(module.np, "compat"):
            module.np = _NumpyWithLong()

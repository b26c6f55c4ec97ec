"""Tables 1 and 3 of the paper.

Wang, Li, Khabsa, Fang, Ma: Linformer: Self-Attention with Linear Complexity, arXiv:2006.04768v3. Table 1: complexity of
a layer by architecture. Table 3 (section 5.3): how many times faster, and how many times larger a batch; Linformer with
layerwise sharing against a standard Transformer in inference, batches as large as the memory allows.
"""

from __future__ import annotations

from typing import NamedTuple


class Complexity(NamedTuple):
    """A row of Table 1."""

    architecture: str
    per_layer: str
    """Time of a layer."""
    sequential: str
    """Least number of sequential operations."""


COMPLEXITIES = (
    Complexity("Recurrent", "O(n)", "O(n)"),
    Complexity("Transformer", "O(n²)", "O(1)"),
    Complexity("Sparse Transformer", "O(n√n)", "O(1)"),
    Complexity("Reformer", "O(n log n)", "O(log n)"),
    Complexity("Linformer", "O(n)", "O(1)"),
)

HARDWARE = "one Tesla V100, 16 GB"
DIMS = (128, 256, 512, 1024, 2048)

TIMES_FASTER: dict[int, tuple[float, ...]] = {
    512: (1.5, 1.3),
    1024: (1.7, 1.6, 1.3),
    2048: (2.6, 2.4, 2.1, 1.3),
    4096: (3.4, 3.2, 2.8, 2.2, 1.3),
    8192: (5.5, 5.0, 4.4, 3.5, 2.1),
    16384: (8.6, 7.8, 7.0, 5.6, 3.3),
    32768: (13, 12, 11, 8.8, 5.0),
    65536: (20, 18, 16, 14, 7.9),
}
"""Times faster by n, for the first values of DIMS."""

TIMES_LESS_MEMORY: dict[int, tuple[float, ...]] = {
    512: (1.7, 1.5),
    1024: (3.0, 2.9, 1.8),
    2048: (6.1, 5.6, 3.6, 2.0),
    4096: (14, 13, 8.3, 4.3, 2.3),
    8192: (28, 26, 17, 8.5, 4.5),
    16384: (56, 48, 32, 16, 8),
    32768: (56, 48, 36, 18, 16),
    65536: (60, 52, 40, 20, 18),
}


def figure(table: dict[int, tuple[float, ...]], n: int, k: int) -> float | None:
    """The paper's figure for n and k, or None if it has none."""
    row = table.get(n, ())
    return row[DIMS.index(k)] if k in DIMS and DIMS.index(k) < len(row) else None

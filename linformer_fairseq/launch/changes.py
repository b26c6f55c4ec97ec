"""The options that a resumed run has other values of than before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_OF_PROCESSES = "distributed_training."
"""Addresses and ranks, which differ at each start."""


def changed_options(file: Path, config: str) -> list[str]:
    """Each option that differs, such as ``optimizer.weight_decay: 0.1, now 0.5``.

    Args:
        file: the config of the start before, config.yaml in the run's folder; it may be missing.
        config: of this start, as it will be written there.
    """
    if not file.is_file():
        return []
    try:
        before = dict(_options(yaml.safe_load(file.read_text(encoding="utf-8"))))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        return [f"all of them, perhaps: {file} cannot be read ({' '.join(str(error).split())[:80]})"]
    now = dict(_options(yaml.safe_load(config)))
    return [
        f"{key}: {before.get(key)}, now {now.get(key)}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and not key.startswith(_OF_PROCESSES)
    ]


def _options(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _options(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value

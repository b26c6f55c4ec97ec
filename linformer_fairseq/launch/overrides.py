"""Names and paths in overrides: they are taken as they are typed.

Hydra reads a value as YAML's numbers and words where it can, and ``2024_11_26`` would become 20241126.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, StringNode

from linformer_fairseq.launch.explaining import as_text
from linformer_fairseq.launch.schema import LaunchConfig

_SYNTAX = frozenset("'\"\\$")
"""Whoever uses quotes or interpolations knows Hydra's syntax."""
_NOT_IN_SCHEMA = ("task.data", "run.slurm.account", "run.slurm.logs", "run.slurm.partition")
"""Options that are text, and of which the schema does not say so."""


def as_typed(overrides: Sequence[str]) -> list[str]:
    """The overrides with quotes around names and paths that Hydra would change or could not read."""
    return [_as_typed(word) for word in overrides]


def _as_typed(word: str) -> str:
    key, _, value = word.partition("=")
    if not value or key.lstrip("+") not in text_options() or _SYNTAX & set(value):
        return word
    try:
        parsed = OverridesParser.create().parse_override(word).value()
    except HydraException:
        return f"{key}={as_text(value)}"
    if isinstance(parsed, ChoiceSweep) and parsed.simple_form:
        parts = [part.strip() for part in value.split(",")]
        if len(parts) == len(parsed.list):  # no commas in brackets
            return f"{key}={','.join(map(_kept, parts, parsed.list))}"
    return f"{key}={_kept(value, parsed)}"


def _kept(value: str, parsed: object) -> str:
    return as_text(value) if isinstance(parsed, int | float) and str(parsed) != value else value


@functools.cache
def text_options() -> frozenset[str]:
    """Names of all options of a run that are text."""
    return frozenset({*_NOT_IN_SCHEMA, *_strings(OmegaConf.structured(LaunchConfig))})


def _strings(config: DictConfig, prefix: str = "") -> Iterator[str]:
    for key in config:
        node = config._get_node(key)
        if isinstance(node, DictConfig) and not node._is_none():
            yield from _strings(node, f"{prefix}{key!s}.")
        elif isinstance(node, StringNode):
            yield f"{prefix}{key!s}"

"""What the operating system says of the processor."""

from __future__ import annotations

from pathlib import Path

_UNITS = {"avx512_bf16", "amx_bf16", "bf16"}
"""Linux's flags of instructions that multiply numbers in bfloat16: x86-64's two and Arm's."""


def processor_fields() -> dict[str, str]:
    """What Linux says of the first processor: ``model name``, ``flags`` and others; empty where it says nothing."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    fields: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        fields.setdefault(name.strip(), value.strip())
    return fields


def has_bfloat16() -> bool | None:
    """Whether the processor has instructions for bfloat16, without which it is slower than float32; None: not known."""
    fields = processor_fields()
    flags = {*fields.get("flags", "").split(), *fields.get("Features", "").split()}  # x86-64, Arm
    return bool(flags & _UNITS) if flags else None

"""What the operating system says of the processor."""

from __future__ import annotations

import platform
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


def processor_name() -> str:
    """The processor's name; of an x86-64, its family and model, too, and whether it has AMX.

    Where the name is "AMD EPYC" or "Intel(R) Xeon(R) Processor" alone, as in many virtual machines, family and model
    distinguish processors of which one is twice as fast as the other. AMX multiplies matrices of bfloat16 several times
    faster.
    """
    fields = processor_fields()
    name = fields.get("model name") or platform.processor() or platform.machine()
    if "cpu family" not in fields:
        return name
    amx = "AMX" if "amx_bf16" in fields.get("flags", "").split() else "no AMX"
    return f"{name} (family {fields['cpu family']}, model {fields.get('model', 'unknown')}, {amx})"


def has_bfloat16() -> bool | None:
    """Whether the processor has instructions for bfloat16, without which it is slower than float32; None: not known."""
    fields = processor_fields()
    flags = {*fields.get("flags", "").split(), *fields.get("Features", "").split()}  # x86-64, Arm
    return bool(flags & _UNITS) if flags else None

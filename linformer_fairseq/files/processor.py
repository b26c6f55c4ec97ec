"""What the operating system says of the processor."""

from __future__ import annotations

from pathlib import Path

_UNITS = {"avx512_bf16", "amx_bf16", "bf16"}
"""Linux's flags of instructions that multiply numbers in bfloat16: x86-64's two and Arm's."""


def processor_fields() -> dict[str, str]:
    """What Linux says of the first processor: ``model name``, ``flags`` and others; empty where it says nothing.

    psutil has neither of the two.
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return {}
    fields: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines):
        fields.setdefault(name.strip(), value.strip())
    return fields


def processor_flags() -> set[str]:
    """The names of what the first processor can do, such as ``avx512_bf16``; empty where Linux says nothing."""
    fields = processor_fields()
    return {*fields.get("flags", "").split(), *fields.get("Features", "").split()}  # x86-64, Arm


def lacks_bfloat16() -> bool:
    """Whether bfloat16 is slower than float32 here, because the processor has no instructions for it; False if it is
    not known."""
    flags = processor_flags()
    return bool(flags) and not flags & _UNITS

"""What a user can do something about."""

from __future__ import annotations


class BenchmarkError(Exception):
    """Printed as one line, exit status 1."""

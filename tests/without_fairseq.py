"""Where fairseq is not installed, tests that import it are skipped, also where what they use does; no test says so."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest


def _skip(report: pytest.CollectReport | pytest.TestReport, path: Path, call: pytest.CallInfo[object] | None) -> None:
    """Make a failure a skip if it comes from an import of fairseq."""
    error = call.excinfo.value if call and call.excinfo else None
    while error is not None and not (isinstance(error, ModuleNotFoundError) and error.name == "fairseq"):
        error = error.__cause__ or error.__context__
    if error is not None:
        report.outcome, report.longrepr = "skipped", (str(path), 0, "Skipped: fairseq is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A file, or a folder for its conftest.py."""
    report = yield
    _skip(report, collector.path, report.__dict__.get("call"))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test, or a fixture of it."""
    report = yield
    _skip(report, item.path, call)
    return report

"""`linformer doctor`: prints the versions of the packages that Linformer uses, and problems with them."""

from __future__ import annotations

import argparse

from linformer_fairseq.cli.findings import Component, Finding, State, examine_all, is_fatal

COLUMNS = ("component", "version", "state", "remark")
STYLES = {State.OK: "green", State.MISSING: "dim", State.WARNING: "yellow", State.WRONG: "bold red"}


def remark(component: Component, finding: Finding) -> str:
    """The last column: what does not work without an optional component, and what to do."""
    lost = not component.required and finding.state in (State.MISSING, State.WRONG)
    loses = f"without it: {component.without_it}" if lost else ""
    return "; ".join(part for part in (loses, finding.note) if part)


def rows(results: list[tuple[Component, Finding]]) -> list[tuple[str, str, str, str]]:
    """The rows of the table: component, version, state, remark."""
    return [
        (
            component.name,
            finding.version or "-",
            finding.state.value + (" (required)" if is_fatal(component, finding) else ""),
            remark(component, finding),
        )
        for component, finding in results
    ]


def run(arguments: argparse.Namespace) -> int:
    """Examine the environment, print a table and return the exit status."""
    results = examine_all()
    show(results)
    return int(any(is_fatal(component, finding) for component, finding in results))


def show(results: list[tuple[Component, Finding]]) -> None:
    """Print the table and a summary line."""
    broken = [component.name for component, finding in results if is_fatal(component, finding)]
    summary = f"Fix first: {', '.join(broken)}." if broken else "Everything that is required is here."
    found = rows(results)
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        console = Console(highlight=False)
        on_terminal = console.is_terminal
    except ModuleNotFoundError:  # a broken environment may lack rich as well
        on_terminal = False
    if not on_terminal:  # a pipe has no width: lines are whole
        widths = [max(map(len, column)) for column in zip(COLUMNS, *found, strict=True)]
        for row in (COLUMNS, *found):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        print(f"\n{summary}")
        return
    table = Table(*COLUMNS[:-1], box=None, pad_edge=False)
    table.add_column(COLUMNS[-1], overflow="fold")
    for row, (_, finding) in zip(found, results, strict=True):
        table.add_row(*map(escape, row), style=STYLES[finding.state])
    console.print(table)
    console.print(f"\n{escape(summary)}", style="bold red" if broken else "green")

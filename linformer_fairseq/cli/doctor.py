"""`linformer doctor`: prints the versions of the packages that Linformer uses, and problems with them."""

from __future__ import annotations

import argparse

from linformer_fairseq.cli.findings import Component, Finding, State, examine_all, is_fatal

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
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ModuleNotFoundError:
        # A broken environment may lack rich as well.
        for row in rows(results):
            print("\t".join(row))
        print(summary)
        return
    table = Table("component", "version", "state", box=None, pad_edge=False)
    table.add_column("remark", overflow="fold")
    for row, (_, finding) in zip(rows(results), results, strict=True):
        table.add_row(*map(escape, row), style=STYLES[finding.state])
    console = Console(highlight=False)
    console.print(table)
    console.print(f"\n{escape(summary)}", style="bold red" if broken else "green")

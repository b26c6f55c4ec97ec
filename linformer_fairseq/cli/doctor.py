"""`linformer doctor`: the versions of what Linformer uses, and what is missing or wrong."""

from __future__ import annotations

import argparse

from linformer_fairseq.cli.findings import Component, Finding, State, examine_all, is_fatal

STYLES = {State.OK: "green", State.MISSING: "dim", State.WARNING: "yellow", State.WRONG: "bold red"}


def remark(component: Component, finding: Finding) -> str:
    """The last column: what one loses without an optional component, and what there is to know or to do."""
    loses = "" if component.required or finding.state is not State.MISSING else f"without it: {component.without_it}"
    return "; ".join(part for part in (loses, finding.note) if part)


def rows(results: list[tuple[Component, Finding]]) -> list[tuple[str, str, str, str]]:
    """The table as texts: component, version, state, remark."""
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
    """Print the table and a line that sums it up."""
    broken = [component.name for component, finding in results if is_fatal(component, finding)]
    summary = f"Fix first: {', '.join(broken)}." if broken else "Everything that is required is here."
    try:
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table
    except ModuleNotFoundError:
        # The environments that need a doctor most may lack rich as well.
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

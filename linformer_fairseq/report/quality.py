"""Table 2 and Figure 3 of the paper: accuracy of finetuned models, and validation perplexity in pretraining."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from linformer_fairseq.report.rows import OF_PAPER, PRETRAIN, origin, read_files
from linformer_fairseq.report.section import Missing, Part, shown
from linformer_fairseq.results.figure3 import figures
from linformer_fairseq.results.paper import PANELS, TABLE2, TASKS
from linformer_fairseq.results.perplexity import perplexity_table
from linformer_fairseq.results.render import markdown
from linformer_fairseq.results.selection import identity
from linformer_fairseq.results.table2 import paper_row
from linformer_fairseq.results.table2 import table2 as table_of

_TABLE2 = f"""{PRETRAIN}
linformer finetune --multirun task=sst2 task.data=work/sst2 pretrained=runs/NAME_s1/checkpoint_best.pt
linformer results collect runs"""
_FIGURE3 = f"""{PRETRAIN}
linformer results collect runs
linformer results figure3"""


def table2(results: Path) -> Iterator[Part]:
    """The paper's table with our runs of its scale, and tables of those of other scales."""
    files = read_files(results, OF_PAPER)
    finetunings = {name: [row for row in rows if row.stage == "finetuning"] for name, rows in files.items()}
    rows = [row for found in finetunings.values() for row in found]
    yield markdown(*table_of(rows))
    for name, found in finetunings.items():
        if found:
            yield origin(results, name, OF_PAPER[name])
    wanted = [(row, task) for row in TABLE2 if row.reproduced for task in TASKS]
    made = {(paper_row(row), row.task) for row in rows if row.finished and row.accuracy}
    if left := sum(pair not in made for pair in wanted):
        yield Missing(f"{left} of {len(wanted)} accuracies at the paper's scale", _TABLE2)
    if not finetunings.get("small/runs.jsonl"):
        yield Missing("the table at small scale", OF_PAPER["small/runs.jsonl"])


def figure3(results: Path) -> Iterator[Part]:
    """Our curves in the paper's panels, and the perplexities at their ends."""
    drawn = {
        name: [row for row in rows if row.stage == "pretraining" and set(row.figure3) & PANELS.keys()]
        for name, rows in read_files(results, OF_PAPER).items()
    }
    for name, rows in drawn.items():
        if not rows:
            continue
        found, remarks = figures(rows)
        folder = Path(name).parent
        for figure in found:
            yield f"### {figure.title}\n"
            picture = f"![{figure.title}]({(folder / figure.stem).as_posix()}.png)"
            yield from shown(results, [picture], f"linformer results figure3 --runs {results.name}/{name}")
            yield f"\n{figure.caption}\n"
        yield from (f"- {remark}\n" for remark in remarks)
        yield markdown(*perplexity_table(rows))
        by_hours = (folder / "perplexity.png").as_posix()
        if (results / by_hours).is_file():
            yield f"![Validation perplexity by tokens and by hours]({by_hours})\n"
        yield origin(results, name, OF_PAPER[name])
    large = [row for rows in drawn.values() for row in rows if row.scale.paper]
    left = []
    for panel, (_, _, models) in PANELS.items():
        made = len({identity(row.model) for row in large if panel in row.figure3})
        if made < models:
            left.append(f"{models - made} of {models} in panel {panel}")
    if left:
        yield Missing(f"curves at the paper's scale: {', '.join(left)}", _FIGURE3)
    if not drawn.get("small/runs.jsonl"):
        yield Missing("the figure at small scale", OF_PAPER["small/runs.jsonl"])

"""Table 2 of the paper: accuracy of finetuned models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from linformer_fairseq.report.rows import OF_PAPER, PRETRAIN, origin, read_files
from linformer_fairseq.report.section import Missing, Part
from linformer_fairseq.results.paper import TABLE2
from linformer_fairseq.results.render import markdown
from linformer_fairseq.results.table2 import paper_row, table2

_FULL_SIZE = f"""{PRETRAIN}
linformer finetune --multirun task=sst2 task.data=work/sst2 pretrained=runs/NAME_s1/checkpoint_best.pt
linformer results collect runs"""


def accuracy(results: Path) -> Iterator[Part]:
    """The paper's table with our runs of its scale, and tables of those of other scales."""
    files = read_files(results, OF_PAPER)
    finetunings = {name: [row for row in rows if row.stage == "finetuning"] for name, rows in files.items()}
    rows = [row for found in finetunings.values() for row in found]
    yield markdown(*table2(rows))
    for name, found in finetunings.items():
        if found:
            yield origin(results, name, OF_PAPER[name])
    wanted = [row for row in TABLE2 if row.reproduced]
    made = {paper_row(row) for row in rows if row.finished}
    if left := sum(row not in made for row in wanted):
        yield Missing(f"{left} of {len(wanted)} rows at the paper's scale", _FULL_SIZE)
    if not finetunings.get("small/runs.jsonl"):
        yield Missing("the table at small scale", OF_PAPER["small/runs.jsonl"])

"""What models learn with other options than the paper's: the studies of scripts/reproduce_learning.sh."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from linformer_fairseq.report.rows import origin, read_files
from linformer_fairseq.report.section import Missing, Part
from linformer_fairseq.results.accuracy import accuracy_table, read_controls
from linformer_fairseq.results.perplexity import perplexity_table
from linformer_fairseq.results.render import markdown

_SCRIPT = "scripts/reproduce_learning.sh"
_OTHERS = {
    "learning/first/runs.jsonl": ("The first linformer-small", "with 4 layers and windows of one width"),
    "learning/tried/runs.jsonl": (
        "Experiments on the way to the default model",
        "some of them with settings that are not options of the model",
    ),
}
"""Rows that no study makes any more: title, and what is special about them."""


@dataclass(frozen=True)
class Study:
    """A study of the script."""

    name: str
    title: str
    runs: int
    """Pretrainings and finetunings, with the script's number of seeds."""
    made: str = ".*"
    """What the names of these match, where the file has rows of other recipes, too."""

    @property
    def rows(self) -> str:
        """Its file of rows, in the folder of results."""
        return f"learning/{self.name}/runs.jsonl"

    @property
    def figure(self) -> str:
        """The figure that the script draws, in the folder of results."""
        return f"learning/{self.name}/perplexity.png"


STUDIES = (
    Study("projections", "Options of the model", 363),
    Study("length", "Long inputs", 114),
    Study("plateau", "Long training", 6),
    Study(
        "released",
        "The models that come with the package",
        68,
        r"(linformer|roberta)(_blocks)?_s1|linformer_reviews_s[12](/.*)?|"
        r"((linformer|roberta)_small_batches|untrained_(linformer|roberta))_s1(/.*)?",
    ),
    Study("conversion", "A converted RoBERTa", 7),
)


def learning(results: Path) -> Iterator[Part]:
    """Perplexity and accuracy in each study."""
    yield (
        "Speeds and hours depend on what else ran on the machine; "
        f"{results.name}/learning/README.md says where they mean nothing.\n"
    )
    files = read_files(results, [study.rows for study in STUDIES])
    for study in STUDIES:
        command = f"{_SCRIPT} {study.name}"
        yield f"\n### {study.title}\n"
        rows = files.get(study.rows, [])
        if any(row.stage == "pretraining" for row in rows):
            yield markdown(*perplexity_table(rows))
            if (results / study.figure).is_file():
                yield f"![Validation perplexity by tokens and by hours]({study.figure})\n"
        tasks = {row.task for row in rows if row.stage == "finetuning"}
        if tasks:
            folder = (results / study.rows).parent
            controls = [folder / f"{task}.json" for task in sorted(filter(None, tasks))]
            yield markdown(*accuracy_table(rows, read_controls(path for path in controls if path.is_file())))
        if rows:
            yield origin(results, study.rows, command)
        made = sum(row.finished and bool(re.fullmatch(study.made, row.name)) for row in rows)
        if made < study.runs:
            yield Missing(f"{study.title}: {made} of the {study.runs} runs that the script makes", command)
    for name, rows in read_files(results, list(_OTHERS)).items():
        title, special = _OTHERS[name]
        yield f"\n### {title}\n"
        yield (
            f"{len(rows)} runs, {special}; {results.name}/learning/README.md has their outcomes. "
            f"(Rows: {results.name}/{name})"
        )

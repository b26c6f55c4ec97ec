"""What is fixed about each task: columns, labels, metrics, and how many examples the official files hold."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hub:
    """Where the Hugging Face hub has a task."""

    repository: str
    revision: str
    """The commit that is meant: so that a run can be repeated."""
    config: str


def _glue(config: str) -> Hub:
    return Hub("nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c", config)


_NOWHERE = Hub("", "", "")


@dataclass(frozen=True)
class Task:
    """A classification task."""

    name: str
    labels: tuple[str, ...]
    """Label number i of a model's output is labels[i]. Fixed by the task, so that a checkpoint means the same
    whatever sample it was trained on; in the hub's order. Empty: those of the first file, alphabetically."""
    texts: tuple[str, ...] = ("sentence",)
    """Columns of the one or two texts."""
    label: str = "label"
    """Column of the label."""
    identifier: str = "index"
    """Column of an example's number; where a file has none, the number of its row, from 0, stands for it."""
    metrics: tuple[str, ...] = ("accuracy",)
    positive: str | None = None
    """The class whose F1 is meant."""
    folder: str = ""
    """Name of the folder in GLUE, and of the submission file."""
    hub: Hub = _NOWHERE
    official: Mapping[str, int] = field(default_factory=dict)
    """Examples of the official files, by split."""


TASKS = {
    task.name: task
    for task in (
        Task(
            name="sst2",
            labels=("0", "1"),
            folder="SST-2",
            hub=_glue("sst2"),
            official={"train": 67_349, "valid": 872, "test": 1_821},
        ),
        Task(
            name="qnli",
            labels=("entailment", "not_entailment"),
            texts=("question", "sentence"),
            folder="QNLI",
            hub=_glue("qnli"),
            official={"train": 104_743, "valid": 5_463, "test": 5_463},
        ),
        Task(
            name="qqp",
            labels=("0", "1"),
            texts=("question1", "question2"),
            label="is_duplicate",
            identifier="id",
            metrics=("accuracy", "f1"),
            positive="1",
            folder="QQP",
            hub=_glue("qqp"),
            official={"train": 363_846, "valid": 40_430, "test": 390_965},
        ),
        Task(
            name="imdb",
            labels=("neg", "pos"),
            texts=("text",),
            hub=Hub("stanfordnlp/imdb", "e6281661ce1c48d982bc483cf8a173c1bbeb5d31", "plain_text"),
            official={"train": 25_000, "valid": 25_000},
        ),
        Task(name="tsv", labels=()),
    )
}

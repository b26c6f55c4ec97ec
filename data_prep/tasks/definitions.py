"""The definition of each task: columns, labels, and the number of examples in the official files."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Hub:
    """The location of a task on the Hugging Face hub."""

    repository: str
    revision: str
    """A fixed commit, for reproducibility."""
    config: str
    splits: Mapping[str, str] = field(
        default_factory=lambda: {"train": "train", "validation": "valid", "test": "test"}  # GLUE's
    )
    """Our splits by the hub's names; others there are left out."""
    remark: str | None = None
    """What the user is told of the splits."""


def _glue(config: str) -> Hub:
    return Hub("nyu-mll/glue", "bcdcba79d07bc864c1c254ccfcedcce55bcc9a8c", config)


_NOWHERE = Hub("", "", "")


@dataclass(frozen=True)
class Task:
    """A classification task."""

    name: str
    """Also decides what is done to a text before it is tokenized (`TaskInputs.text`)."""
    labels: tuple[str, ...]
    """Output i of a model is labels[i]. The order is fixed by the task (as on the hub), so that it does not depend on
    the training data. Empty: the labels in the first file, in alphabetical order."""
    texts: tuple[str, ...] = ("sentence",)
    """Columns of the one or two texts."""
    label: str = "label"
    """Column of the label."""
    identifier: str = "index"
    """Column of the example's number; if a file has none, the number of the row, from 0, is used."""
    positive: str | None = None
    """The positive class of F1."""
    folder: str = ""
    """Name of the folder in GLUE, and of the submission file; empty for a task that is not GLUE's."""
    hub: Hub = _NOWHERE
    official: Mapping[str, int] = field(default_factory=dict)
    """Number of examples in the official files, by split."""


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
            positive="1",
            folder="QQP",
            hub=_glue("qqp"),
            official={"train": 363_846, "valid": 40_430, "test": 390_965},
        ),
        Task(
            name="imdb",
            labels=("neg", "pos"),
            texts=("text",),
            hub=Hub(
                "stanfordnlp/imdb",
                "e6281661ce1c48d982bc483cf8a173c1bbeb5d31",
                "plain_text",
                splits={"train": "train", "test": "valid"},
                remark="valid is the test set: IMDB has no dev set; unlabelled reviews are left out",
            ),
            official={"train": 25_000, "valid": 25_000},
        ),
        Task(name="tsv", labels=()),
    )
}

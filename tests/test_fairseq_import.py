"""fairseq is imported without the packages of its metrics, which are imported when a metric is computed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.usefixtures("fairseq"), pytest.mark.slow]
PACKAGES = ("sklearn", "scipy", "pandas", "pyarrow")


def _run(program: str) -> object:
    """What a program in a new process leaves in ``found``; ``loaded()`` is there to tell which packages it has."""
    first = f"import json, sys\nloaded = lambda: [name for name in {PACKAGES} if name in sys.modules]\n"
    words = [sys.executable, "-c", f"{first}{program}\nprint(json.dumps(found))"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_metrics_are_those_of_the_packages() -> None:
    program = """
import linformer_fairseq.models
before = loaded()
from fairseq.criterions import sentence_prediction as scores
from fairseq.tasks.audio_classification import sklearn_metrics
import numpy
found = scores.acc_and_f1(numpy.array([1, 0, 1, 1]), numpy.array([1, 1, 1, 0]))
found |= scores.pearson_and_spearman([1, 2, 4], [1, 3, 2])
found |= {"mcc": scores.matthews_corrcoef([1, 0, 1, 1], [1, 1, 1, 0])}
found |= {"roc": sklearn_metrics.roc_curve([0, 1], [0.1, 0.9])[1].tolist()}
found = {"before": before, "after": loaded()[:2], **found}
import scipy.stats, sklearn.metrics
assert isinstance(scipy.stats.norm, scipy.stats.rv_continuous) and isinstance(sklearn.metrics.__all__, list)
"""
    assert _run(program) == {
        "before": [],
        "after": ["sklearn", "scipy"],
        "acc": 0.5,
        "f1": pytest.approx(2 / 3),
        "acc_and_f1": pytest.approx((1 / 2 + 2 / 3) / 2),
        "mcc": pytest.approx(-1 / 3),
        "pearson": pytest.approx(1 / (14 / 3 * 2) ** 0.5),
        "spearmanr": pytest.approx(1 / 2),
        "corr": pytest.approx((1 / (14 / 3 * 2) ** 0.5 + 1 / 2) / 2),
        "roc": [0, 1, 1],
    }


def test_the_programs_logging_stays() -> None:
    program = """
import logging
root = logging.getLogger()
def state():
    return [root.level, len(root.handlers)]
import linformer_fairseq.models
found = [state()]
logging.basicConfig(level=logging.ERROR)
import fairseq.models.roberta, linformer_fairseq
linformer_fairseq.register()
found.append(state())
"""
    assert _run(program) == [[30, 0], [40, 1]]


def test_what_is_loaded_already_is_used() -> None:
    program = """
import sklearn.metrics, scipy.stats
import linformer_fairseq.models
from fairseq.criterions import sentence_prediction as scores
found = [scores.f1_score is sklearn.metrics.f1_score, scores.pearsonr is scipy.stats.pearsonr]
"""
    assert _run(program) == [True, True]


def test_an_import_that_fails_leaves_nothing_behind() -> None:
    program = """
import linformer_fairseq
sys.modules["omegaconf"] = None
try:
    import fairseq
    found = "imported"
except ImportError:
    found = [name for name in sys.modules if name.startswith(("sklearn", "scipy", "pyarrow"))]
"""
    assert _run(program) == []

"""The page about the results at small scale: counts from the data, sentences by the numbers."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.results import merge_rows
from linformer_fairseq.results.accuracy import Control
from linformer_fairseq.results.rows import Row, Score
from scripts.reproduce_tools import page as tool
from tests.binarised import write_items
from tests.results.examples import finetuned, model, row, scale

SIZE = (2, 128)
SCALE = scale(2, 128, 600)
CONTROL = {"bag_of_words": 81.5, "majority": 25.0, "seconds": 3.0}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Data whose counts are known: 4 symbols beside fairseq's own, 10 and 4 labels for each task."""
    folder = tmp_path / "work"
    write_items(folder / "bin" / "train", [[4, 4, 4, 5, 2], [4, 5, 6, 2]])
    write_items(folder / "bin" / "valid", [[4, 7, 2]])
    (folder / "bin" / "dict.txt").write_text("a 1\nb 1\nc 1\nd 1\n")
    (folder / "text").mkdir()
    (folder / "text" / "manifest.json").write_text(json.dumps({"splits": {"train": {"words": 1_234_567}}}))
    for task in ("sst2", "imdb", "qnli", "qqp"):
        write_items(folder / task / "label" / "train", [[4]] * 6 + [[5]] * 4)
        write_items(folder / task / "label" / "valid", [[5]] * 3 + [[4]])
        (folder / "controls").mkdir(exist_ok=True)
        (folder / "controls" / f"{task}.json").write_text(json.dumps({"task": task, **CONTROL}))
    return folder


def small(name: str, final: float | None, **changes: object) -> Row:
    score = Score(final, final or 90.0, 600)
    return row(name, model=model(n=256, k=64, size=SIZE), scale=SCALE, max_update=600, perplexity=score, **changes)


def made(work: Path, rows: list[Row]) -> str:
    results = work.parent / "results"
    merge_rows(results / "runs.jsonl", rows)
    (results / "figure3_x.png").touch()
    tool.main(["--work", str(work), "--results", str(results), "--command", "scripts/reproduce_small.sh --updates 600"])
    return (results / "README.md").read_text()


def test_counts_and_perplexity_of_word_frequencies(work: Path) -> None:
    control = Control("sst2", bag_of_words=81.5, majority=25.0)
    assert tool.read_task(work / "sst2", control) == tool.Task(train=10, valid=4, control=control)
    # train has 9 tokens of 8 symbols (2: twice, 4: four times); a tenth is added to each
    total = 9 + 8 * 0.1
    expected = math.exp(-sum(math.log(count / total) for count in (4.1, 0.1, 2.1)) / 3)
    assert tool.unigram_perplexity(work / "bin") == pytest.approx(expected)


def roberta(final: float, **changes: object) -> Row:
    return dataclasses.replace(small("roberta_s1", final, **changes), model=model("roberta", n=256, size=SIZE))


def test_the_page(work: Path) -> None:
    rows = [
        small("linformer_s1", 95.0),
        small("linformer_s2", 85.0, seed=2),
        small("diverged", None, finished=False, seed=3),
    ]
    rows.append(roberta(100.0))
    untrained = {"scale": scale(2, 128, 1), "run": "untrained"}
    for seed, accuracies in ((1, (90.0, 80.0)), (2, (78.0, 76.0))):
        for task, accuracy in zip(("sst2", "qnli"), accuracies, strict=True):
            rows.append(finetuned(task, accuracy, seed, model=model(n=256, k=64, size=SIZE), scale=SCALE))
    rows.append(finetuned("sst2", 60.0, model=model(n=256, k=64, size=SIZE), **untrained))
    for task, accuracy in (("sst2", 85.0), ("qnli", 81.0)):
        changes = {"model": model("roberta", n=256, size=SIZE), "scale": SCALE, "run": "roberta_s1"}
        rows.append(finetuned(task, accuracy, **changes))
    text = made(work, rows)
    assert "Made by `scripts/reproduce_small.sh --updates 600`." in text
    assert "![Validation perplexity](figure3_x.png)" in text
    assert "| model | 2 layers x 128, 2 heads | 12 layers x 768, 12 heads |" in text
    assert "| tokens in training | 4.9 million | not said |" in text and "| text | 1.2 million words |" in text
    assert "| RoBERTa, n = 256 | 1,000 | 100.0 | - | - | - |" in text
    name = "Linformer, n = 256, k = 64, layerwise"
    assert f"| {name} | 1,000 | 90.0 (85.0 to 95.0, 2) |" in text
    assert "| always the most frequent answer | 25.0 | 25.0 | 25.0 | 25.0 |" in text
    assert "| bag of words | 81.5 | 81.5 | 81.5 | 81.5 |" in text
    assert f"| {name} | 84.0 (78.0 to 90.0, 2) | - | 78.0 (76.0 to 80.0, 2) | - |" in text
    assert f"| {name}, no pretraining | 60.0 | - | - | - |" in text
    assert "SST-2 -1.0, QNLI -3.0. On 1 of 2 tasks it is at most 2 points behind." in text
    assert f"{name} is above the bag of words on 1 of 4 tasks: SST-2." in text
    assert str(work.parent) not in text
    controls = json.loads((work.parent / "results" / "controls.json").read_text())
    assert controls["imdb"] == {"task": "imdb", **CONTROL}, "with all that the file has"


def test_at_how_many_validations_the_linformer_is_below(work: Path) -> None:
    curve = [[200, 300.0], [400, 200.0], [600, 150.0]]
    rows = [
        roberta(150.0, curve=curve),
        small("a_s1", 100.0, curve=[[200, 310.0], [400, 170.0], [600, 100.0]]),
        small("a_s2", 110.0, seed=2, curve=[[200, 260.0], [400, 240.0], [600, 110.0]]),
    ]
    text = made(work, rows)
    assert "of RoBERTa, n = 256 after as many updates: Linformer, n = 256, k = 64, layerwise: 2 of 3." in text


def test_and_after_as_many_hours(work: Path) -> None:
    """The Linformer has twice the speed, so that its validations come when the RoBERTa has made half of the updates."""
    rows = [
        roberta(150.0, curve=[[200, 300.0], [400, 200.0], [600, 150.0]], tokens_per_second=100.0),
        small("a_s1", 100.0, curve=[[200, 10.0], [400, 310.0], [600, 249.0]], tokens_per_second=200.0),
    ]
    text = made(work, rows)
    assert "after as many updates: Linformer, n = 256, k = 64, layerwise: 1 of 3." in text
    assert "between its validations: Linformer, n = 256, k = 64, layerwise: 1 of 2." in text


def test_official_numbers_stand_beside_the_numbers_of_examples(work: Path) -> None:
    text = made(work, [small("linformer_s1", 100.0)])
    assert (
        "| examples for training (in the official files) | 10 (67,349) | 10 (25,000) | 10 (104,743) | 10 (363,846) |"
        in text
    )


def test_what_is_missing_is_named(work: Path) -> None:
    (work / "qqp" / "label" / "valid.idx").unlink()
    with pytest.raises(UserError, match="qqp/label/valid.idx: missing"):
        made(work, [small("linformer_s1", 100.0)])


@pytest.mark.parametrize("field", ["majority", "bag_of_words"])
def test_a_damaged_control_is_named(work: Path, field: str) -> None:
    path = work / "controls" / "qnli.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != field}))
    with pytest.raises(UserError, match=f"controls/qnli.json: {field}: missing"):
        made(work, [small("linformer_s1", 100.0)])

"""The page about the results at small scale: counts from the data, sentences by the numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

pytest.importorskip("fairseq")

import torch
from fairseq.data import indexed_dataset

from data_prep.support.errors import DataError
from linformer_fairseq.results import merge_rows
from linformer_fairseq.results.rows import Row, Score
from scripts.reproduce_tools import page as tool
from tests.results.examples import finetuned, model, row, scale

SIZE = (2, 128)
SCALE = scale(2, 128, 600)


def write(prefix: Path, items: list[list[int]], symbols: int = 100) -> None:
    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder = indexed_dataset.make_builder(f"{prefix}.bin", impl="mmap", vocab_size=symbols)
    for item in items:
        builder.add_item(torch.tensor(item))
    builder.finalize(f"{prefix}.idx")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Data whose counts are known: 4 symbols beside fairseq's own, 10 and 4 labels for each task."""
    folder = tmp_path / "work"
    write(folder / "bin" / "train", [[4, 4, 4, 5, 2], [4, 5, 6, 2]])
    write(folder / "bin" / "valid", [[4, 7, 2]])
    (folder / "bin" / "dict.txt").write_text("a 1\nb 1\nc 1\nd 1\n")
    (folder / "text").mkdir()
    (folder / "text" / "manifest.json").write_text(json.dumps({"splits": {"train": {"words": 1_234_567}}}))
    for task in ("sst2", "imdb", "qnli", "qqp"):
        write(folder / task / "label" / "train", [[4]] * 6 + [[5]] * 4)
        write(folder / task / "label" / "valid", [[5]] * 3 + [[4]])
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
    assert tool.read_task(work / "sst2") == tool.Task(train=10, valid=4, majority=75.0)
    # train has 9 tokens of 8 symbols (2: twice, 4: four times); a tenth is added to each
    total = 9 + 8 * 0.1
    expected = math.exp(-sum(math.log(count / total) for count in (4.1, 0.1, 2.1)) / 3)
    assert tool.unigram_perplexity(work / "bin") == pytest.approx(expected)


def test_the_page(work: Path) -> None:
    unigram = tool.unigram_perplexity(work / "bin")
    baseline = small("roberta_s1", 0.5 * unigram)
    rows = [small("linformer_s1", 0.95 * unigram), small("diverged", None, finished=False)]
    rows.append(Row(**{**vars(baseline), "model": model("roberta", n=256, size=SIZE)}))
    for seed, accuracies in ((1, (90.0, 80.0)), (2, (78.0, 76.0))):
        for task, accuracy in zip(("sst2", "qnli"), accuracies, strict=True):
            rows.append(finetuned(task, accuracy, seed, model=model(n=256, k=64, size=SIZE), scale=SCALE))
    text = made(work, rows)
    assert "Made by `scripts/reproduce_small.sh --updates 600`." in text
    assert "![Validation perplexity against updates](figure3_x.png)" in text
    assert "| model | 2 layers x 128, 2 heads | 12 layers x 768, 12 heads |" in text
    assert "| tokens in training | 4.9 million | not said |" in text and "| text | 1.2 million words |" in text
    assert f"| RoBERTa, n = 256 | 1,000 | {0.5 * unigram:,.1f} | 50% | 1500.0 |" in text
    assert "| Linformer, n = 256, k = 64, layerwise (unfinished) | 1,000 | - | - | 1500.0 |" in text
    assert "1 of 3 models end at least a tenth below the perplexity of word frequencies" in text
    assert "0 of 2 Linformers with n = 256 end below the RoBERTa in perplexity." in text
    name = "Linformer, n = 256, k = 64, layerwise"
    assert f"| {name}, lowest to highest seed | 78.0 to 90.0 % | - | 76.0 to 80.0 % | - |" in text
    assert "| always the most frequent answer | 75.0 % | 75.0 % | 75.0 % | 75.0 % |" in text
    assert f"above the most frequent answer with every seed: SST-2 ({name})." in text
    assert f"nothing that is certain, was learned: QNLI ({name})." in text
    assert str(work.parent) not in text


def test_how_the_linformers_stand_beside_the_roberta(work: Path) -> None:
    baseline = Row(**{**vars(small("roberta_s1", 100.0)), "model": model("roberta", n=256, size=SIZE)})
    rows = [baseline, small("a", 99.0), small("b", 101.0), small("c", None)]
    text = made(work, rows)
    assert "- 1 of 3 Linformers with n = 256 end below the RoBERTa in perplexity." in text


def test_whether_the_order_was_another_one_on_the_way(work: Path) -> None:
    def run(name: str, k: int, *perplexities: float) -> Row:
        curve = [[200 * (i + 1), perplexity] for i, perplexity in enumerate(perplexities)]
        changed = {"curve": curve, "model": model(n=256, k=k, size=SIZE)}
        return Row(**{**vars(small(name, perplexities[-1])), **changed})

    baseline = Row(**{**vars(run("roberta_s1", 0, 300.0, 200.0, 150.0)), "model": model("roberta", n=256, size=SIZE)})
    rows = [
        baseline,
        run("a", 1, 200.0, 180.0, 101.0),
        run("b", 2, 210.0, 170.0, 100.0),
        run("c", 3, 400.0, 300.0, 200.0),
    ]
    text = made(work, rows)
    assert "2 of 3 Linformers with n = 256 end below the RoBERTa" in text
    assert "the same ones at each of the 3 validations from update 200 on" in text and "not always" not in text
    assert "within 1.0 % of each other: Linformer, k = 2, layerwise; Linformer, k = 1, layerwise." in text
    rows[1] = run("a", 1, 310.0, 180.0, 101.0)
    assert "not always the same ones at each" in made(work, rows)
    (work.parent / "results" / "runs.jsonl").unlink()
    assert "the order of all models is, too" in made(work, [rows[0], rows[2], rows[3]])


def test_official_numbers_stand_beside_the_numbers_of_examples(work: Path) -> None:
    text = made(work, [small("linformer_s1", 100.0)])
    assert (
        "| examples for training (in the official files) | 10 (67,349) | 10 (25,000) | 10 (104,743) | 10 (363,846) |"
        in text
    )


def test_what_is_missing_is_named(work: Path) -> None:
    (work / "qqp" / "label" / "valid.idx").unlink()
    with pytest.raises(DataError, match="qqp/label/valid.idx: missing"):
        made(work, [small("linformer_s1", 100.0)])

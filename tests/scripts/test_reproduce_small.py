"""scripts/reproduce_small.sh, scaled down: interrupted, carried on, and what comes out; its page; wrong options."""

from __future__ import annotations

import fcntl
import json
import os
import pydoc_data.topics
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = REPOSITORY / "scripts" / "reproduce_small.sh"
TASKS = ("imdb", "qnli", "qqp", "sst2")


def start(*arguments: object, data: Path | None) -> subprocess.Popen[str]:
    """The script, in a process group of its own, as a terminal does it."""
    environment = {key: value for key, value in os.environ.items() if key != "LINFORMER_DATA"}
    return subprocess.Popen(
        [SCRIPT, *map(str, arguments)],
        env={**environment, "CUDA_VISIBLE_DEVICES": "", **({"LINFORMER_DATA": str(data)} if data else {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--update", "3"], "unknown argument: --update"),
        (["--updates", "many"], "--updates many: expected a whole number above 0"),
        (["--jobs"], "--jobs: expected a value"),
        (["--out", "a:b"], "fairseq cannot read a path with a colon"),
        (["gone.txt"], "gone.txt: not there, or not readable"),
        ([], "corpus/books.txt.xz: not there, or not readable"),
    ],
)
def test_wrong_use_is_said_before_anything_is_done(words: list[str], message: str, tmp_path: Path) -> None:
    if words == ["--out", "a:b"]:
        data_folder(tmp_path, reviews=1)
        words = [*words, str(tmp_path / "corpus.txt")]
    process = start(*words, data=tmp_path)
    said = process.communicate(timeout=30)[0]
    assert process.returncode == 1 and said.count("\n") == 1 and message in said


def test_a_page_of_another_kind_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    process = start("--results", tmp_path, data=tmp_path)
    said = process.communicate(timeout=30)[0]
    assert process.returncode == 1 and f"--results {tmp_path}" in said and "README.md" in said


def test_data_in_a_folder_with_an_ampersand(tmp_path: Path) -> None:
    """In bash's replacements, an unquoted & is what is replaced; the script makes the paths of tasks by one."""
    (tmp_path / "R&D").mkdir()
    (tmp_path / "corpus.txt").touch()
    process = start(tmp_path / "corpus.txt", data=tmp_path / "R&D")
    assert f"{tmp_path}/R&D/glue/SST-2: not there" in process.communicate(timeout=30)[0]


def test_without_data() -> None:
    process = start(data=None)
    assert "LINFORMER_DATA is not set" in process.communicate(timeout=30)[0] and process.returncode == 1


def data_folder(folder: Path, reviews: int = 6) -> None:
    """What LINFORMER_DATA names, without a corpus, and corpus.txt; sentences with a number in them are negative."""
    chosen = random.Random(1)
    text = [line.strip() for topic in pydoc_data.topics.topics.values() for line in topic.split("\n\n") if line.strip()]
    (folder / "corpus.txt").write_text("\n\n".join(" ".join(paragraph.split()) for paragraph in text))
    words = [word for word in " ".join(text).split() if word.isalpha()]

    def sentence(label: int) -> str:
        return " ".join([*chosen.choices(words, k=6), *(["42"] if label else [])])

    def table(name: str, header: str, line: str) -> None:
        for split, count in (("train", 40), ("dev", 8)):
            path = folder / "glue" / name / f"{split}.tsv"
            path.parent.mkdir(parents=True, exist_ok=True)
            labels = [i % 4 != 0 for i in range(count)]  # three quarters
            lines = [line.format(i=i, a=sentence(y), b=sentence(0), y=int(y)) for i, y in enumerate(labels)]
            path.write_text("\n".join([header, *lines]) + "\n")

    table("SST-2", "sentence\tlabel", "{a}\t{y}")
    table("QQP", "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "{i}\t1\t2\t{a}\t{b}\t{y}")
    table("QNLI", "index\tquestion\tsentence\tlabel", "{i}\t{a}\t{b}\t{y}")
    path = folder / "glue" / "QNLI"
    for split in ("train", "dev"):
        lines = (path / f"{split}.tsv").read_text().splitlines()
        named = [line[:-1] + ("entailment" if line[-1] == "1" else "not_entailment") for line in lines[1:]]
        (path / f"{split}.tsv").write_text("\n".join([lines[0], *named]) + "\n")
    for part in ("train", "test"):
        for label, rating in (("pos", 9), ("neg", 2)):
            for i in range(reviews):
                review = folder / "aclImdb" / part / label / f"{i}_{rating}.txt"
                review.parent.mkdir(parents=True, exist_ok=True)
                review.write_text(sentence(rating == 2))
    with tarfile.open(folder / "aclImdb.tar.xz", "w:xz") as archive:
        archive.add(folder / "aclImdb", "aclImdb")


@pytest.mark.slow
@pytest.mark.skipif(
    Path(sys.prefix) != REPOSITORY / ".venv", reason="the script uses .venv, and these tests run elsewhere"
)
@pytest.mark.usefixtures("fairseq")
def test_the_whole_chain_interrupted_and_carried_on(tmp_path: Path) -> None:
    data_folder(tmp_path)
    work, results = tmp_path / "a folder" / "work", tmp_path / "results"
    results.mkdir()
    (results / "figure3_of_another_scale.png").touch()
    own = [results / "figure3_notes.txt", results / "perplexity_notes.md"]
    for path in own:
        path.touch()
    words = ["--out", work, "--results", results, "--updates", 4, "--finetune-updates", 2, "--seeds", 1]
    words += [tmp_path / "corpus.txt"]

    process = start(*words, data=tmp_path)
    deadline = time.monotonic() + 400
    while not (finished := list(work.glob("trained_*/*/checkpoint_last.pt"))):
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[0]
    assert process.returncode == 130 and said.endswith("what is finished is kept.\n"), said
    with (work / ".lock").open("a") as lock:  # every run holds it: none is left behind
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    process = start(*words, data=tmp_path)
    said = process.communicate(timeout=1500)[0]
    assert process.returncode == 0, said
    rows = [json.loads(line) for line in (results / "runs.jsonl").read_text().splitlines()]
    assert len(rows) == 9 + 2 + 4 * (2 + 2) and all(row["finished"] for row in rows)
    pretrained = [row for row in rows if row["stage"] == "pretraining" and row["max_update"] > 1]
    assert sorted(panel for row in pretrained for panel in row["figure3"]) == [*"aaaa", *"ccccc", *"ddd"]
    assert {row["updates"] for row in pretrained} == {4} and all(row["curve"] for row in pretrained)
    tuned = {(row["pretrained"]["run"], row["task"], row["seed"]) for row in rows if row["stage"] == "finetuning"}
    models = ("linformer_mini_n256_k64_layerwise_s1", "roberta_mini_n256_s1")
    assert tuned == {(run, task, 1) for run in (*models, "linformer_s1", "roberta_s1") for task in TASKS}
    done_before = finished[0].parent.name
    (attempts,) = [row["attempts"] for row in rows if row["name"] == done_before]
    assert attempts <= 2 and sum(row["attempts"] for row in rows) <= len(rows) + 2, "what has finished is not repeated"

    table = (results / "table2.md").read_text()
    assert "ours at another scale than the paper's: 2 layers x 128, 4 updates of 2,048 tokens" in table
    assert table.count(" (1, 0.001)") == 16 and "- (0 runs)" in table
    assert r"\begin{tabular}" in (results / "table2.tex").read_text()
    figures = sorted(path.name for path in results.glob("*.[ps][nv]g"))
    stems = ("figure3_2x128_4updates_2048tokens", "perplexity")
    assert figures == [f"{stem}.{ending}" for stem in stems for ending in ("png", "svg")]
    assert all(path.is_file() for path in own), "only what the script writes is removed"
    page = (results / "README.md").read_text()
    command = "scripts/reproduce_small.sh --updates 4 --finetune-updates 2 --pretraining-seeds 1 --seeds 1"
    assert f"`{command}`" in page and figures[0] in page
    assert "| always the most frequent answer | 75.0 | 50.0 | 75.0 | 75.0 |" in page
    assert str(tmp_path) not in page + table + (results / "runs.jsonl").read_text()

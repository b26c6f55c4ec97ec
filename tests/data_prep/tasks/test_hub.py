"""Tasks from the hub: the real libraries against a small server, and the files that were fetched by hand."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("datasets")

import pyarrow
import pyarrow.parquet

from data_prep.tasks.definitions import TASKS, Hub, Task
from data_prep.tasks.examples import Limit
from data_prep.tasks.prepare import open_source
from data_prep.tasks.prepare import prepare as prepare_task
from data_prep.tasks.rows import Row
from linformer_fairseq.files.cuts import CUTS
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_inputs import read_inputs
from tests.conftest import REPOSITORY
from tests.data_prep.hub_server import HubServer, closed_port_endpoint, hub_environment, parquet_bytes
from tests.data_prep.processes import manifest

pytestmark = pytest.mark.slow  # they import `datasets`

_QNLI = {
    "train": {"question": ["why", "what"], "sentence": ["good", 'bad "list'], "label": [1, 0], "idx": [0, 1]},
    "validation": {"question": ["is it"], "sentence": ["not"], "label": [0], "idx": [0]},
    "test": {"question": ["what is", "a"], "sentence": ["film", "b"], "label": [-1, -1], "idx": [0, 1]},
}
_IMDB = {
    "train": {"text": ["bad<br />film", "good \x85"], "label": [0, 1]},
    "test": {"text": ["the list"], "label": [1]},
    "unsupervised": {"text": ["what"], "label": [-1]},
}


def files(config: str, tables: dict[str, dict[str, list[Any]]]) -> dict[str, bytes]:
    """A repository as the hub has it, with the README that says which file is which split."""
    splits = "".join(f"  - split: {name}\n    path: {config}/{name}-*\n" for name in tables)
    readme = f"---\nlicense: other\nconfigs:\n- config_name: {config}\n  data_files:\n{splits}---\n"
    return {
        "README.md": readme.encode(),
        **{f"{config}/{name}-00000-of-00001.parquet": parquet_bytes(table) for name, table in tables.items()},
    }


def repository(task: str) -> str:
    hub = TASKS[task].hub
    return f"datasets/{hub.repository}@{hub.revision}"


def run(task: str, tokenizer: Path, out: Path, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    words = ["-m", "data_prep.prepare_task", task, "--from", "hub", "--tokenizer", tokenizer, "--out", out]
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=600
    )


def test_pairs_from_the_hub_or_by_hand(
    prepare: Callable[..., Path],
    read_back: Callable[..., list[dict[str, Any]]],
    encode: Callable[[str], list[int]],
    tokenizer_folder: Path,
    tmp_path: Path,
) -> None:
    content = files("qnli", _QNLI)
    out = tmp_path / "task"
    with HubServer({repository("qnli"): content}) as hub:
        done = run("qnli", tokenizer_folder, out, hub.environment(tmp_path / "caches"))
    assert done.returncode == 0, done.stderr
    assert read_back(out, "train") == [
        {"tokens": [0, *encode("why"), 2, *encode("good")], "label": 1},
        {"tokens": [0, *encode("what"), 2, *encode('bad "list')], "label": 0},
    ]
    assert [row["label"] for row in read_back(out, "test")] == [None, None]
    source = manifest(out)["source"]
    assert source["revision"] == TASKS["qnli"].hub.revision
    assert source["license"] == "other"
    for path, data in content.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    by_hand = prepare("qnli", tmp_path / "qnli", out=tmp_path / "by_hand")
    assert manifest(by_hand)["sha256"] == manifest(out)["sha256"]


def test_reviews_from_the_hub(
    read_back: Callable[..., list[dict[str, Any]]],
    encode: Callable[[str], list[int]],
    tokenizer_folder: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "task"
    with HubServer({repository("imdb"): files("plain_text", _IMDB)}) as hub:
        done = run("imdb", tokenizer_folder, out, hub.environment(tmp_path / "caches"))
    assert done.returncode == 0, done.stderr
    assert "unlabelled reviews are left out" in done.stdout
    assert read_back(out, "train") == [
        {"tokens": [0, *encode("bad film")], "label": 0},
        {"tokens": [0, *encode("good \x85")], "label": 1},
    ]
    assert read_back(out, "valid") == [{"tokens": [0, *encode("the list")], "label": 1}]


def test_out_of_reach(tokenizer_folder: Path, tmp_path: Path) -> None:
    environment = hub_environment(closed_port_endpoint(), tmp_path / "caches")
    done = run("sst2", tokenizer_folder, tmp_path / "task", environment)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"fetch sst2/*.parquet of the data set nyu-mll/glue (revision {TASKS['sst2'].hub.revision}" in done.stderr
    assert "then give 'FOLDER/sst2' in place of 'hub'" in done.stderr
    assert not (tmp_path / "task").exists()


def test_a_parquet_folder_is_no_pattern(
    prepare: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``sst2 [12]`` as a pattern is ``sst2 1``; a relative name is looked up below the current folder."""
    for place, label in (("sst2 [12]", 1), ("sst2 1", 0)):
        folder = tmp_path / "[here]" / place
        folder.mkdir(parents=True)
        for split in ("train", "validation", "test"):
            (folder / f"{split}-0.parquet").write_bytes(parquet_bytes({"sentence": [split], "label": [label]}))
    monkeypatch.chdir(tmp_path / "[here]")
    task = prepare("sst2", "sst2 [12]")
    assert manifest(task)["splits"]["train"]["labels"] == {"1": 1}


@pytest.mark.parametrize(("more", "found"), [({}, "0\n1\n"), ({"idx": [7, 5]}, "7\n5\n")])
def test_rows_without_a_number_are_counted_from_zero(
    prepare: Callable[..., Path], tmp_path: Path, more: dict[str, list[int]], found: str
) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    for split in ("train", "validation", "test"):
        content = parquet_bytes({"sentence": ["good", "bad"], "label": [1, 0], **more})
        (folder / f"{split}-0.parquet").write_bytes(content)
    task = prepare("sst2", folder)
    assert {path.name: path.read_text() for path in (task / "ids").iterdir()} == {
        f"{split}.txt": found for split in ("train", "valid", "test")
    }


def test_another_task_of_the_hub_is_not_taken_for_imdb(tokenizer_folder: Path, tmp_path: Path) -> None:
    task = Task("topics", ("a", "b"), texts=("text",), hub=Hub("owner/topics", "main", "plain"))
    folder = tmp_path / "plain"
    folder.mkdir()
    with pytest.raises(UserError, match=f"^--from {folder}: expected hub, or a folder with the train-.*owner/topics"):
        open_source(task, [str(folder)], "strict")
    for split in task.hub.splits:
        (folder / f"{split}-0.parquet").write_bytes(parquet_bytes({"text": [f"{split}<br />film"], "label": [1]}))
    source = open_source(task, [str(folder)], "strict")
    rows = {row.split: row.texts for row in source.rows() if isinstance(row, Row)}
    texts = {"train": "train<br />film", "valid": "validation<br />film", "test": "test<br />film"}
    assert rows == {split: (text,) for split, text in texts.items()} and not source.facts.remarks
    # what a model that was trained on them makes of a text
    prepare_task(task, source, tokenizer_folder, tmp_path / "task", Limit(None, CUTS[0]), strict=True, options={})
    assert read_inputs(tmp_path / "task").text(texts["train"]) == texts["train"]


def test_bad_parquet_files(prepare: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    names = {"train": "train-0.parquet", "validation": "validation-0.parquet", "test": "test-0.parquet"}
    good = parquet_bytes({"sentence": ["good", "bad"], "label": [1, 0]})
    for name in names.values():
        (folder / name).write_bytes(good)
    (folder / names["validation"]).write_bytes(good[:-20])
    with pytest.raises(UserError, match="validation-0.parquet: .*not a whole parquet file"):
        prepare("sst2", folder)
    (folder / names["validation"]).write_bytes(parquet_bytes({"text": ["good"], "label": [1]}))
    with pytest.raises(UserError, match="validation-0.parquet: .*sentence.*text, label"):
        prepare("sst2", folder)
    (folder / names["validation"]).unlink()
    with pytest.raises(UserError, match=r"no validation-\*.parquet; fetch the whole folder sst2"):
        prepare("sst2", folder)
    schema = pyarrow.schema({"sentence": pyarrow.string(), "label": pyarrow.int64()})
    for empty in ("validation", "train"):
        for name in names.values():
            (folder / name).write_bytes(good)
        pyarrow.parquet.ParquetWriter(folder / names[empty], schema).close()
        with pytest.raises(UserError, match=f"{names[empty]}: has no rows"):
            prepare("sst2", folder)
        pyarrow.parquet.write_table(schema.empty_table(), folder / names[empty])  # one group, of no rows
        with pytest.raises(UserError, match=f"{names[empty]}: has no rows"):
            prepare("sst2", folder)
        (folder / names[empty]).write_bytes(good)
    damaged = good[:4] + b"\xff" * 40 + good[44:]  # the header of a page, which the footer tells nothing of
    (folder / names["validation"]).write_bytes(damaged)
    with pytest.raises(UserError, match="validation-0.parquet: not a whole parquet file"):
        prepare("sst2", folder)
    odd = {"sentence": ["good", None, "bad", "why"], "label": [1, 0, 7, -1]}
    (folder / names["validation"]).write_bytes(parquet_bytes(odd))
    task = prepare("sst2", folder)
    rejected = (task / "rejected.tsv").read_text()
    assert "\t2\ta text is missing" in rejected
    assert "\t3\tlabel 7 is no number below 2" in rejected
    assert "\t4\thas no label" in rejected


def test_bytes_of_parquet_files_that_are_not_utf8(prepare: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    texts = pyarrow.array([b"good", b"caf\xe9"], pyarrow.binary()).view(pyarrow.string())
    for name, sentences in (("train", texts), ("validation", ["fine"]), ("test", ["well"])):
        content = parquet_bytes({"sentence": sentences, "label": [1] * len(sentences)})
        (folder / f"{name}-0.parquet").write_bytes(content)
    with pytest.raises(UserError, match=r"train-0.parquet, row 2: not UTF-8: byte 0xe9 at offset 3"):
        prepare("sst2", folder)
    task = prepare("sst2", folder, options=("--errors", "replace"))
    assert manifest(task)["splits"]["train"]["labels"] == {"1": 2}
    # a column that no example is made of
    content = parquet_bytes({"sentence": ["good", "bad"], "label": [1, 0], "author": texts})
    (folder / "train-0.parquet").write_bytes(content)
    assert manifest(prepare("sst2", folder))["splits"]["train"]["labels"] == {"0": 1, "1": 1}


def test_rows_are_placed_in_their_own_file(prepare: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    first = {"sentence": ["good", "bad"], "label": [1, 0], "idx": [0, 1]}
    second = {"sentence": ["fine", None, "poor"], "label": [1, 0, 0], "idx": [2, 3, 1]}
    for name, table in (("train-0", first), ("train-1", second), ("validation-0", first), ("test-0", first)):
        (folder / f"{name}.parquet").write_bytes(parquet_bytes(table))
    task = prepare("sst2", folder)
    assert (task / "ids" / "train.txt").read_text() == "0\n1\n2\n"
    rejected = [line.split("\t")[:3] for line in (task / "rejected.tsv").read_text().splitlines()[1:]]
    assert rejected == [
        [f"{folder}/train-1.parquet", "2", "a text is missing"],
        [f"{folder}/train-1.parquet", "3", f"identifier '1' occurs twice, first in {folder}/train-0.parquet, line 2"],
    ]


def test_numbers_that_occur_in_two_files_at_the_same_row(prepare: Callable[..., Path], tmp_path: Path) -> None:
    folder = tmp_path / "sst2"
    folder.mkdir()
    for name in ("train-0", "train-1", "validation-0", "test-0"):
        (folder / f"{name}.parquet").write_bytes(parquet_bytes({"sentence": [name], "label": [1], "idx": [7]}))
    assert (prepare("sst2", folder) / "ids" / "train.txt").read_text() == "7\n"

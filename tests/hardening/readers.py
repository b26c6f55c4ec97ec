"""The table of the project's readers: how to make a good file, and how to read all of it."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
import zstandard

from data_prep.sources import parse_source
from data_prep.support.step import Step
from data_prep.tasks.definitions import TASKS
from data_prep.tasks.glue import GlueSource
from data_prep.tasks.imdb import ImdbSource
from data_prep.tasks.soft_labels import read_soft_labels
from data_prep.tasks.tsv import TsvSource
from data_prep.tokenizers import load_tokenizer
from linformer_fairseq.checkpoints import released_file
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.conversion.convert import Choices, convert
from linformer_fairseq.conversion.huggingface_source import FILES
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_check import check
from linformer_fairseq.files.mmap_dataset import bin_of, idx_of, open_dataset
from linformer_fairseq.files.soft_labels import soft_labels_of
from linformer_fairseq.files.task_data import read_task
from linformer_fairseq.files.tokenizers import ENCODER, MERGES, SENTENCEPIECE, find_tokenizer
from linformer_fairseq.launch import run_folder
from linformer_fairseq.launch.compose import compose, config_dir, resolved
from linformer_fairseq.prediction.inputs import open_source
from linformer_fairseq.results.rows import to_line
from linformer_fairseq.results.run_row import LOG, read_run
from linformer_fairseq.results.store import read_rows
from tests.archives import tarred, zipped
from tests.binarised import write_items, write_task
from tests.checkpoint_files import make_state
from tests.conversion.sources import make_huggingface
from tests.data_prep.small_tokenizers import make_gpt2, make_sentencepiece, text
from tests.hardening.mutations import Mutate, json_mutant, mutant, signed_mutant
from tests.models import make_classifier
from tests.report import small_results
from tests.results import examples

LINES = [line for line in text(6).split("\n") if line]


@dataclass(frozen=True)
class Reader:
    """A reader of one kind of file."""

    name: str
    make: Callable[[Path], Path]
    """Makes the good files in an existing folder; returns the one that the mutants take the place of."""
    read: Callable[[Path, Path], object]
    """Reads all of that file; the second path is of a folder that it may make."""
    mutate: Mutate = mutant
    also: tuple[str, ...] | None = ()
    """Other files of the same folder that an error may name, as one that does not fit; "" is the folder itself. None:
    an error names a key of what several files make together."""
    share: float = 1
    """Of the mutants that readers get: those that take long get fewer."""
    lenient: bool = False
    """What is wrong in a line is passed on in its place, or left out, so that nearly no file is refused."""


def _write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def _file(name: str, content: bytes | str) -> Callable[[Path], Path]:
    return lambda folder: _write(folder / name, content)


# --- dictionaries and tokenizers


def _in(make: Callable[[Path], Path], name: str) -> Callable[[Path], Path]:
    return lambda folder: make(folder) / name


def _parent(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
    return lambda folder: make(folder).parent


def _dictionary(path: Path, out: Path) -> None:
    dictionary.read_vocabulary(path)
    dictionary.read_labels(path)


def _tokenizer(path: Path, out: Path) -> None:
    tokenizer = load_tokenizer(path.parent)
    tokenizer.decode(tokenizer.encode(LINES[0]))


def _fast_tokenizer(path: Path, out: Path) -> None:
    from linformer_fairseq.exporting.hugging_face.tokenizer import fast_tokenizer

    fast_tokenizer(find_tokenizer([path.parent]), path.with_name(dictionary.NAME)).encode(LINES[0])


_SP_FILES, _GPT2_FILES = (SENTENCEPIECE, dictionary.NAME), (ENCODER, MERGES, dictionary.NAME)
_TOKENIZERS = [
    Reader("dict.txt", _in(make_gpt2, dictionary.NAME), _dictionary),
    Reader("tokenizer: dict.txt", _in(make_sentencepiece, dictionary.NAME), _tokenizer, also=_SP_FILES, share=0.5),
    Reader("tokenizer: sentencepiece", _in(make_sentencepiece, SENTENCEPIECE), _tokenizer, also=_SP_FILES, share=0.5),
    Reader("tokenizer: encoder.json", _in(make_gpt2, ENCODER), _tokenizer, json_mutant, _GPT2_FILES, 0.5),
    Reader("tokenizer: vocab.bpe", _in(make_gpt2, MERGES), _tokenizer, also=_GPT2_FILES, share=0.5),
    Reader(
        "fast: sentencepiece", _in(make_sentencepiece, SENTENCEPIECE), _fast_tokenizer, mutant, _SP_FILES, 0.3, True
    ),
    Reader("fast: encoder.json", _in(make_gpt2, ENCODER), _fast_tokenizer, json_mutant, _GPT2_FILES, 0.3),
    Reader("fast: vocab.bpe", _in(make_gpt2, MERGES), _fast_tokenizer, mutant, _GPT2_FILES, 0.3),
]

# --- records


def _run_json(folder: Path) -> Path:
    log = [examples.training(1), "2026-01-01 | INFO | begin", examples.training(2), examples.validation(2, ppl=12.5)]
    return examples.run_folder(folder, log) / "run.json"


def _run(path: Path, out: Path) -> None:
    to_line(read_run(path.parent))
    record = run_folder.read_record(path.parent) or {}
    run_folder.updates_done(record)
    run_folder.has_finished(record, {"max_update": 3, "stops": {}})


def _rows(path: Path, out: Path) -> None:
    for row in read_rows(path):
        to_line(row)


def _task(folder: Path) -> Path:
    write_task(folder, ("yes", "no"), {"valid": [([5, 6, dictionary.EOS], 0), ([7, dictionary.EOS], 1)]}, words=9)
    _write(folder / "ids" / "valid.txt", "0\n1\n")
    manifest = {"positive": "yes", "submission": "SST-2.tsv", "splits": {"valid": {"counts": {"rejected": 1}}}}
    return _write(folder / "manifest.json", json.dumps(manifest))


def _manifest(path: Path, out: Path) -> None:
    task = read_task(path.parent)
    assert task.submission is None or Path(task.submission).name == task.submission
    assert task.positive in (None, 0, 1)
    task.rejected("valid")


def _task_files(path: Path, out: Path) -> None:
    folder = path.parent.parent
    task = read_task(folder)
    task.require("valid")
    task.identifiers("valid")


def _of_task(name: str) -> Callable[[Path], Path]:
    return lambda folder: _task(folder).parent / name


def _soft_labels(folder: Path) -> Path:
    path = soft_labels_of(_task(folder).parent, "valid")
    path.parent.mkdir()
    np.save(path, np.array([[0.75, 0.25], [0.5, 0.5]], np.float32))
    return path


def _stored_soft_labels(path: Path, out: Path) -> None:
    assert read_task(path.parent.parent).soft_labels("valid").shape == (2, 2)


def _soft_labels_of_table(path: Path, out: Path) -> None:
    for probabilities in read_soft_labels(path, ("no", "yes")).values():
        assert probabilities.shape == (2,)


def _step(folder: Path) -> Path:
    """A finished step, which may replace what it has made."""
    with Step(folder / "data", {"program": "p"}) as step:
        (step.outputs / "bin").mkdir()
        (step.outputs / "bin" / "train.bin").write_text("x")
        step.finish({})
    return folder / "data" / "manifest.json"


def _redone_step(path: Path, out: Path) -> None:
    with Step(path.parent, {"program": "p"}, redo=True) as step:
        (step.outputs / "new").write_text("x")
        step.finish({})


_ROW = to_line(examples.row())


def _small_results(name: str) -> Callable[[Path], Path]:
    return lambda folder: small_results.make(folder / "results") / name


def _report(path: Path, out: Path) -> None:
    from linformer_fairseq.report.build import page

    page(next(folder for folder in path.parents if folder.name == "results"))


_RECORDS = [
    Reader("run.json", _run_json, _run, json_mutant),
    Reader("report: speed", _small_results("efficiency/inference_table3.json"), _report, json_mutant, share=0.1),
    Reader("report: spectrum", _small_results("analysis/one/spectrum.json"), _report, json_mutant, share=0.1),
    Reader("report: theory", _small_results("analysis/two/theory.json"), _report, json_mutant, share=0.1),
    Reader("train.log", lambda folder: _run_json(folder).with_name(LOG), _run, json_mutant, share=0.5, lenient=True),
    Reader(
        "rows of results", _file("runs.jsonl", _ROW + to_line(examples.row("other"))), _rows, json_mutant, share=0.5
    ),
    Reader("manifest of a task", _task, _manifest, json_mutant),
    Reader("identifiers of a task", _of_task("ids/valid.txt"), _task_files, share=0.25),
    Reader("index of a task", _of_task("input0/valid.idx"), _task_files, also=("valid.bin",), share=0.5),
    Reader("tokens of a task", _of_task("input0/valid.bin"), _task_files, also=("valid.idx",), share=0.5),
    Reader("soft labels of a task", _soft_labels, _stored_soft_labels, share=0.5),
    Reader(
        "table of soft labels",
        _file("teacher.tsv", "id\tno\tyes\n" + "".join(f"{n}\t0.{n}\t0.{10 - n}\n" for n in range(1, 10))),
        _soft_labels_of_table,
        share=0.5,
    ),
    Reader("manifest of a step", _step, _redone_step, json_mutant, ("",), 0.2),
]

# --- memory-mapped data


def _dataset(folder: Path) -> Path:
    write_items(folder / "train", [[*range(4, 4 + size), dictionary.EOS] for size in range(1, 40)])
    return folder / "train"


def _mapped(path: Path, out: Path) -> None:
    dataset = open_dataset(path.with_suffix(""))
    check(dataset, 50)
    for number in range(min(3, dataset.items)):
        dataset.item(number)


_MMAP = [
    Reader("index", lambda folder: idx_of(_dataset(folder)), _mapped, also=("train.bin",)),
    Reader("tokens", lambda folder: bin_of(_dataset(folder)), _mapped, also=("train.idx",)),
]

# --- texts to predict


def _inputs(fields: Sequence[str] = ()) -> Callable[[Path, Path], object]:
    def read(path: Path, out: Path) -> None:
        for item in open_source(path, io.BytesIO(), None, fields).items:
            assert isinstance(item.text, str | tuple | ValueError)

    return read


def _parquet(folder: Path) -> Path:
    table = pyarrow.table({"text": LINES * 5, "label": list(range(len(LINES) * 5))})
    pyarrow.parquet.write_table(table, folder / "some.parquet", row_group_size=20)
    return folder / "some.parquet"


def _json_lines(*extra: tuple[str, Any]) -> str:
    return "".join(json.dumps({"text": line, **dict(extra)}) + "\n" for line in LINES)


_INPUTS = [
    Reader("inputs: lines", _file("some.txt", "\n".join(LINES)), _inputs(), lenient=True),
    Reader("inputs: TSV", _file("some.tsv", "label\ttext\n" + "".join(f"1\t{x}\n" for x in LINES)), _inputs(["text"])),
    Reader(
        "inputs: JSON lines",
        _file("some.jsonl", _json_lines(("more", [1, {"a": 2}]))),
        _inputs(),
        json_mutant,
        lenient=True,
    ),
    Reader("inputs: parquet", _parquet, _inputs(), share=0.5),
]

# --- sources of a corpus and of tasks


def _documents(path: Path, out: Path) -> None:
    for unit in parse_source(str(path)).units:
        for record in unit.documents():
            assert isinstance(record.text, str)


_ARTICLE = '<doc id="1" url="x" title="One">\nOne\n\n{}\n</doc>\n'
_WIKI = "".join(_ARTICLE.format(line) for line in LINES)
_TEXT = "\n\n".join(LINES).encode()
_SOURCES = [
    Reader("source: text", _file("a.txt", _TEXT), _documents),
    Reader("source: JSON lines", _file("a.jsonl", _json_lines()), _documents, json_mutant),
    Reader("source: WikiExtractor", _file("wiki_00", _WIKI), _documents),
    Reader("source: parquet", _parquet, _documents, share=0.5),
    Reader("source: gzip", _file("a.txt.gz", gzip.compress(_TEXT, mtime=0)), _documents),
    Reader("source: bzip2", _file("a.txt.bz2", bz2.compress(_TEXT)), _documents),
    Reader("source: xz", _file("a.txt.xz", lzma.compress(_TEXT)), _documents),
    Reader("source: Zstandard", _file("a.txt.zst", zstandard.compress(_TEXT)), _documents),
]


def _table(rows: int) -> str:
    return "sentence\tlabel\n" + "".join(f"{LINES[row]}\t{row % 2}\n" for row in range(rows))


def _tables(folder: Path) -> Path:
    _write(folder / "SST-2" / "dev.tsv", _table(3))
    return _write(folder / "SST-2" / "train.tsv", _table(5))


REVIEWS = {
    f"aclImdb/{split}/{label}/{number}_7.txt": f"{LINES[number]}<br />more".encode()
    for split in ("train", "test")
    for label in ("pos", "neg")
    for number in (0, 1)
}


def _glue(path: Path, out: Path) -> None:
    place = path if path.suffix == ".zip" else path.parent.parent
    for row in GlueSource(TASKS["sst2"], place, "strict").rows():
        str(row)


def _imdb(path: Path, out: Path) -> None:
    for row in ImdbSource(TASKS["imdb"], path, "strict").rows():
        str(row)


def _tsv(path: Path, out: Path) -> None:
    for row in TsvSource([path], "strict").rows():
        str(row)


_ZIP = {"SST-2/train.tsv": _table(5), "SST-2/dev.tsv": _table(3)}
_TASKS = [
    Reader("task: GLUE", _tables, _glue),
    Reader("task: zip of GLUE", lambda folder: zipped(folder / "SST-2.zip", _ZIP), _glue),
    Reader("task: tar of IMDB", lambda folder: tarred(folder / "aclImdb.tar", REVIEWS), _imdb),
    Reader("task: tar.gz of IMDB", lambda folder: tarred(folder / "aclImdb.tar.gz", REVIEWS), _imdb),
    Reader("task: TSV", _file("train.tsv", "".join(f"{n % 2}\t{line}\n" for n, line in enumerate(LINES))), _tsv),
]

# --- checkpoints and models


def _released(folder: Path) -> Path:
    cfg = {"model": {"_name": "linformer_roberta", "encoder_layers": 1}, "task": {"_name": "masked_lm"}}
    return _write(folder / "model.safetensors", released_file.released(make_state(3, None, {**cfg, "criterion": None})))


def _checkpoint(path: Path, out: Path) -> None:
    state = read_checkpoint(path)
    assert isinstance(state["model"], dict)


def huggingface(folder: Path, *, fast: bool = False) -> Path:
    """A folder of Hugging Face's RoBERTa of one layer x 8, without what is not read; returns its config.json."""
    sizes = {"num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 16}
    make_huggingface(folder / "roberta", fast=fast, **sizes)
    path = folder / "roberta" / "config.json"
    config = json.loads(path.read_text())
    read = ("model_type", "num_attention_heads", "layer_norm_eps", "pad_token_id", "hidden_dropout_prob")
    return _write(path, json.dumps({key: config[key] for key in (*sizes, *read)}))


def sharded(folder: Path) -> Path:
    """The same with an index of the one file with weights; returns the index."""
    index = {"metadata": {}, "weight_map": {"a": "model.safetensors", "b": "model.safetensors"}}
    return _write(huggingface(folder).with_name("model.safetensors.index.json"), json.dumps(index))


def to_linformer(path: Path, out: Path) -> None:
    """Convert the folder of a file of Hugging Face's."""
    choices = Choices(4, "layerwise", "convolution", "window_means", None, 1)
    try:
        convert(path.parent, "x", out, choices, None, None, torch.device("cpu"))
    except ValueError as error:
        raise UserError(str(error)) from error  # as cli/convert.py does


def _of_huggingface(name: str, *, fast: bool = False) -> Callable[[Path], Path]:
    return lambda folder: huggingface(folder, fast=fast).with_name(name)


_HF = ("config.json", "model.safetensors", *FILES[2:], "")
_MODELS = [
    Reader("released model", _released, _checkpoint),
    Reader("released model, signed", _released, _checkpoint, signed_mutant),
    Reader("convert: config.json", huggingface, to_linformer, json_mutant, _HF, 0.1),
    Reader("convert: safetensors", _of_huggingface("model.safetensors"), to_linformer, mutant, _HF, 0.1),
    Reader("convert: index", sharded, to_linformer, json_mutant, _HF, 0.1),
    Reader("convert: vocab.json", _of_huggingface("vocab.json"), to_linformer, json_mutant, _HF, 0.1),
    Reader("convert: merges.txt", _of_huggingface("merges.txt"), to_linformer, mutant, _HF, 0.1),
    Reader(
        "convert: tokenizer.json", _of_huggingface("tokenizer.json", fast=True), to_linformer, json_mutant, _HF, 0.1
    ),
]


def exported(folder: Path) -> Path:
    """A classifier as `linformer export hf` writes it; returns its config.json."""
    from linformer_fairseq.exporting.hugging_face import export_folder

    export_folder(str(make_classifier(folder / "work")), folder / "exported")
    shutil.rmtree(folder / "work")
    return folder / "exported" / "config.json"


def import_(path: Path, out: Path) -> None:
    """Import the folder of a file of transformers."""
    from linformer_fairseq.exporting.hugging_face import import_folder

    import_folder(path.parent, out)
    read_checkpoint(out / "model.pt")


_EXPORTED = ("config.json", "model.safetensors", *_SP_FILES, "")
_MODELS += [
    Reader("import: config.json", exported, import_, json_mutant, _EXPORTED, 0.05),
    Reader("import: safetensors", _in(_parent(exported), "model.safetensors"), import_, mutant, _EXPORTED, 0.05),
    Reader("import: dict.txt", _in(_parent(exported), dictionary.NAME), import_, mutant, _EXPORTED, 0.05),
]


def _yaml(path: Path, out: Path) -> None:
    resolved(compose("pretraining", ["task.data=x"], path.parent))


def configs(folder: Path) -> Path:
    """A copy of the project's configs; returns the one of pretraining."""
    shutil.copytree(config_dir(), folder, dirs_exist_ok=True)
    return folder / "pretraining.yaml"


_CONFIGS = [Reader("config", configs, _yaml, also=None, share=0.005)]

READERS = (*_TOKENIZERS, *_RECORDS, *_MMAP, *_INPUTS, *_SOURCES, *_TASKS, *_MODELS, *_CONFIGS)

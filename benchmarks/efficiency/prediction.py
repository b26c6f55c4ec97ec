"""`linformer benchmark prediction`: speed of `linformer predict` and of a Hugging Face pipeline on the same files."""

from __future__ import annotations

import argparse
import csv
import lzma
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from benchmarks.efficiency import sizes
from benchmarks.efficiency.checks import say
from benchmarks.efficiency.machine import DTYPES, device_of, provenance, threads
from benchmarks.efficiency.models.fairseq_task import encoder_options
from benchmarks.efficiency.models.peers import roberta_config
from benchmarks.efficiency.models.registry import check_names
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.store import Store
from benchmarks.efficiency.timing import all_in_rounds, figures, seconds_of, times_faster
from benchmarks.measuring import RESULTS, real_data, said
from linformer_fairseq.files.dictionary import BOS, EOS, PAD, SPECIAL, UNK
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.markdown import markdown_table

_OUR_PROGRAM, _PIPELINE = "linformer predict", "Hugging Face pipeline"
LONG = 4000
"""Characters of the shortest document: more than 512 tokens."""
_WARM_UP = 4
_CLASSES = 2

Program = Callable[[Path], int]
"""Classifies the lines of a file; returns their number."""


def run(args: argparse.Namespace) -> int:
    """Measure both programs on both files; returns the exit status.

    Raises:
        UserError: something that the user can fix.
    """
    check_names(["linformer", "roberta_hf"])
    data = real_data()
    bpe = args.bpe or (data and data / "bpe")
    if bpe is None or not ((args.documents and args.sentences) or data):
        raise UserError("set LINFORMER_DATA to the folder of real data, or give --bpe, --documents and --sentences")
    device, size, used = device_of(args.device), sizes.sizes_of(args), threads(args.threads)
    settings = {
        "texts": args.texts,
        "positions": args.positions,
        "projected_dim": args.projected_dim,
        "rounds": args.rounds,
        "threads": used,
        **vars(size),
    }
    out = args.out or RESULTS / f"prediction_{device.type}_{args.dtype}.json"
    store = Store(out, "prediction", settings, provenance(device, args.dtype))
    programs: dict[tuple[str, int | None], Program] = {
        (_OUR_PROGRAM, None): ours(size, args.positions, args.projected_dim, bpe, device, DTYPES[args.dtype])
    }
    pipeline = hugging_face(size, args.positions, bpe, device, DTYPES[args.dtype])
    programs |= {(_PIPELINE, batch): partial(pipeline, batch) for batch in args.batch_sizes}
    with tempfile.TemporaryDirectory(prefix="prediction_benchmark_") as folder:
        for kind, lines in texts(args, data).items():
            path, few = Path(folder, f"{kind}.txt"), Path(folder, "few.txt")
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            few.write_text("".join(f"{line}\n" for line in lines[:_WARM_UP]), encoding="utf-8")
            for program in programs.values():
                program(few)
            calls = {name: partial(seconds_of, partial(one, path), device) for name, one in programs.items()}
            taken = all_in_rounds(calls, args.rounds)
            for (name, batch), values in taken.items():
                ratio = times_faster(values, taken[_OUR_PROGRAM, None])
                store.add(
                    {
                        "input": kind,
                        "texts": len(lines),
                        "characters": sum(map(len, lines)),
                        "program": name,
                        "batch_size": batch,
                        **figures(values),
                        "ours_times_faster": ratio[1],
                        "ours_times_faster_quartiles": [ratio[0], ratio[2]],
                    }
                )
                batches = f", batches of {batch}" if batch else ""
                speed = len(lines) / statistics.median(values)
                say(f"{kind}: {name}{batches}: {speed:,.1f} texts/s, ours {ratio[1]:.2f} times as fast")
    store.write()
    say(f"written to {store.path}")
    return 0


def texts(args: argparse.Namespace, data: Path | None) -> dict[str, list[str]]:
    """The lines of both files.

    Raises:
        UserError: a file has none.
    """
    found = {}
    for kind, path, make in (("documents", args.documents, documents), ("sentences", args.sentences, sentences)):
        if path:
            with path.open(encoding="utf-8") as stream:
                lines = [line.strip() for line in islice(stream, args.texts)]
        else:
            assert data is not None
            lines = list(islice(make(data), args.texts))
        if not all(lines) or not lines:
            raise UserError(f"{path or data}: expected a text on each line")
        found[kind] = lines
    return found


def documents(data: Path) -> Iterator[str]:
    """Long articles of Wikipedia, each on a line."""
    with lzma.open(data / "corpus" / "wiki.txt.xz", "rt", encoding="utf-8") as stream:
        paragraphs: list[str] = []
        for line in chain(stream, [""]):  # an empty line ends an article
            if line.strip():
                paragraphs.append(line.strip())
                continue
            article = " ".join(paragraphs)
            if len(article) >= LONG:
                yield article
            paragraphs = []


def sentences(data: Path) -> Iterator[str]:
    """SST-2's development set."""
    with (data / "glue" / "SST-2" / "dev.tsv").open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield row["sentence"].strip()


def ours(size: Sizes, n: int, k: int, bpe: Path, device: torch.device, dtype: torch.dtype) -> Program:
    """What `linformer predict` runs, with a model of default options."""
    from fairseq.data import Dictionary

    from linformer_fairseq.files.task_inputs import TaskInputs
    from linformer_fairseq.models import LinformerRobertaConfig, LinformerRobertaModel, hub_interface
    from linformer_fairseq.prediction.inputs import open_source

    dictionary = Dictionary.load(str(bpe / "dict.txt"))
    dictionary.add_symbol("<mask>")
    config = LinformerRobertaConfig(**encoder_options(size, n, 0.0), projected_dim=k)
    special = SimpleNamespace(init_token=dictionary.bos(), separator_token=dictionary.eos())
    task = SimpleNamespace(cfg=special, source_dictionary=dictionary, max_positions=lambda: n)
    model = LinformerRobertaModel.build_model(config, task)
    model.register_classification_head("classes", num_classes=_CLASSES)
    hub = hub_interface(model.to(dtype), task, [bpe], TaskInputs()).eval().to(device)

    def program(path: Path) -> int:
        source = open_source(path, sys.stdin.buffer, "lines", [])
        return sum(1 for _ in hub.classify(item.text for item in source.items))

    return program


def hugging_face(
    size: Sizes, n: int, bpe: Path, device: torch.device, dtype: torch.dtype
) -> Callable[[int, Path], int]:
    """A text-classification pipeline with a RoBERTa; called with a batch size and a file."""
    config = roberta_config(size, n, num_labels=_CLASSES)
    from transformers import RobertaForSequenceClassification, pipeline

    tokenizer = _tokenizer(bpe)
    model: Any = RobertaForSequenceClassification(config).eval()
    classify: Any = pipeline("text-classification", model=model.to(dtype), tokenizer=tokenizer, device=device)

    def program(batch: int, path: Path) -> int:
        with path.open(encoding="utf-8") as stream:
            lines = (line.strip() for line in stream)
            return sum(1 for _ in classify(lines, batch_size=batch, truncation=True, max_length=n))

    return program


def _tokenizer(bpe: Path) -> Any:
    """The tokenizer of the benchmark of data preparation, with RoBERTa's special tokens."""
    from tokenizers.processors import RobertaProcessing
    from transformers import PreTrainedTokenizerFast

    from benchmarks.hugging_face_data import load_tokenizer

    engine = load_tokenizer(bpe)
    engine.post_processor = RobertaProcessing((SPECIAL[EOS], EOS), (SPECIAL[BOS], BOS))
    names = {"bos_token": BOS, "cls_token": BOS, "pad_token": PAD, "eos_token": EOS, "sep_token": EOS, "unk_token": UNK}
    special = {name: SPECIAL[number] for name, number in names.items()}
    return PreTrainedTokenizerFast(tokenizer_object=engine, padding_side="right", **special)


def table(result: dict[str, Any]) -> list[str]:
    """A row for each program, a column for each file."""
    kinds = list(dict.fromkeys(cell["input"] for cell in result["cells"]))
    found = {(cell["program"], cell["batch_size"], cell["input"]): cell for cell in result["cells"]}
    rows = []
    for name, batch in dict.fromkeys((cell["program"], cell["batch_size"]) for cell in result["cells"]):
        row = [f"{name}, batches of {batch}" if batch else f"`{name}`"]
        for kind in kinds:
            cell = found[name, batch, kind]
            first, third = cell["ours_times_faster_quartiles"]
            row.append(f"{cell['texts'] / cell['seconds']:,.1f}")
            row.append(f"{cell['ours_times_faster']:.2f} ({first:.2f} to {third:.2f})" if batch else "")
        rows.append(row)
    settings = result["settings"]
    header = ["texts per second"]
    for kind in kinds:
        header += [kind, "ours is so many times as fast"]
    return [
        f"{settings['texts']} texts of each kind, {settings['layers']} layers of width {settings['width']}, "
        f"n = {settings['positions']}, k = {settings['projected_dim']}, {result['provenance']['dtype']}, "
        f"{settings['rounds']} rounds, threads: {settings['threads']}. Ratios are medians over the rounds, and their "
        "quartiles.",
        "",
        *markdown_table([header, *rows]),
        "",
        f"({said(result['provenance'])})",
    ]

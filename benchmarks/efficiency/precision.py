"""`linformer benchmark precision`: a finetuned model in lower precision, compiled, and in ONNX Runtime."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.efficiency.checks import say
from benchmarks.efficiency.machine import device_of, provenance, threads
from benchmarks.efficiency.models.registry import check_names
from benchmarks.efficiency.store import Store
from benchmarks.efficiency.timing import all_in_rounds, figures, seconds_of, times_faster
from benchmarks.measuring import RESULTS, said
from linformer_fairseq.checkpoints.released_folder import ONNX
from linformer_fairseq.files.dictionary import PAD
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.markdown import markdown_table

BASE = "torch, float32"
SPLIT = "valid"

Model = Callable[[Tensor], Tensor]
"""Logits (B, classes) of tokens (B, T)."""


class Batch(NamedTuple):
    """Examples of similar length, padded on the right."""

    tokens: Tensor
    """(B, T)."""
    targets: Tensor
    """(B,)."""


def run(args: argparse.Namespace) -> int:
    """Measure the model in every form; returns the exit status.

    Raises:
        UserError: something that the user can fix.
    """
    check_names(["linformer"])
    from linformer_fairseq.checkpoints.released_folder import existing_weights
    from linformer_fairseq.evaluation import load_classifier, read_finetuned
    from linformer_fairseq.files.task_data import read_task

    device, used = device_of("cpu"), threads(args.threads)
    try:
        data, finetuned = read_task(args.data), read_finetuned(existing_weights(args.checkpoint))
        data.require(SPLIT)
        load = partial(load_classifier, finetuned, data, device)
        plain = load()
    except ValueError as error:  # CheckpointError among them
        raise UserError(str(error)) from None
    batches = list(batches_of(plain, args.batch_size))
    settings = {
        "checkpoint": Path(args.checkpoint).name,
        "task": str(data.manifest.get("task", args.data.name)),
        "examples": sum(len(batch.targets) for batch in batches),
        "tokens": sum(int((batch.tokens != PAD).sum()) for batch in batches),
        "batch_size": args.batch_size,
        "rounds": args.rounds,
        "threads": used,
    }
    out = args.out or RESULTS / f"precision_{device.type}.json"
    store = Store(out, "precision", settings, provenance(device, "float32"))
    with tempfile.TemporaryDirectory(prefix="precision_benchmark_") as folder:
        models: dict[str, Model] = {
            BASE: in_torch(plain),
            "torch, bfloat16": in_torch(load(bf16=True)),
            "torch, int8": in_torch(load(), int8=True),
            "torch, float32, compiled": in_torch(load(compile_encoder=True)),
            **in_onnx(args.checkpoint, args.data, Path(folder), used),
        }
        found = {name: classified(model, batches) for name, model in models.items()}  # compiles and warms up, too
        calls = {
            name: partial(seconds_of, partial(classified, model, batches), device) for name, model in models.items()
        }
        taken = all_in_rounds(calls, args.rounds)
    targets = torch.cat([batch.targets for batch in batches])
    for name, values in taken.items():
        ratio = times_faster(taken[BASE], values)
        cell = {
            "program": name,
            "accuracy": 100 * float((found[name] == targets).double().mean()),
            "other_labels": int((found[name] != found[BASE]).sum()),
            **figures(values),
            "times_as_fast": ratio[1],
            "times_as_fast_quartiles": [ratio[0], ratio[2]],
        }
        store.add(cell)
        say(f"{name}: accuracy {cell['accuracy']:.2f} %, {ratio[1]:.2f} times as fast")
    store.write()
    say(f"written to {store.path}")
    return 0


def batches_of(classifier: Any, size: int) -> Iterator[Batch]:
    """The examples of the development set by length, as `linformer evaluate` computes them."""
    dataset = classifier.task.load_dataset(SPLIT)
    order = np.argsort(-np.asarray(dataset.sizes[0]), kind="stable").tolist()
    for start in range(0, len(order), size):
        batch = dataset.collater([dataset[row] for row in order[start : start + size]])
        if "target" not in batch:
            raise UserError(f"{SPLIT}: has no labels; expected a development set")
        yield Batch(batch["net_input"]["src_tokens"], batch["target"].view(-1))


def classified(model: Model, batches: list[Batch]) -> Tensor:
    """The class of every example (N,)."""
    return torch.cat([model(batch.tokens).argmax(-1) for batch in batches])


def in_torch(classifier: Any, int8: bool = False) -> Model:
    """A classifier as `linformer predict` computes it."""
    from linformer_fairseq.models.int8 import quantize

    if int8:
        quantize(classifier.model)

    def model(tokens: Tensor) -> Tensor:
        with torch.inference_mode():
            logits: Tensor
            logits, _ = classifier.model(tokens, features_only=True, classification_head_name=classifier.head)
            return logits

    return model


def in_onnx(checkpoint: str, data: Path, folder: Path, count: int) -> dict[str, Model]:
    """The model as `linformer export onnx --int8` writes it, in ONNX Runtime with ``count`` threads.

    Raises:
        UserError: a package is missing.
        ValueError: the model cannot be exported.
    """
    try:
        import onnxruntime

        from linformer_fairseq.exporting.onnx import INT8, export_onnx
    except ModuleNotFoundError as error:
        raise UserError(f"{error.name} is not installed; pip install '.[onnx]'") from None
    export_onnx(checkpoint, folder / "onnx", data, int8=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = count
    options.log_severity_level = 3

    def load(name: str) -> Model:
        session = onnxruntime.InferenceSession(folder / "onnx" / name, options, providers=["CPUExecutionProvider"])

        def model(tokens: Tensor) -> Tensor:
            mask = (tokens != PAD).long()
            return torch.from_numpy(session.run(None, {"input_ids": tokens.numpy(), "attention_mask": mask.numpy()})[0])

        return model

    return {"ONNX Runtime, float32": load(ONNX), "ONNX Runtime, int8": load(INT8)}


def table(result: dict[str, Any]) -> list[str]:
    """A row for each form of the model."""
    settings = result["settings"]
    rows = [["", "accuracy", "labels unlike float32's", "examples per second", "times as fast as float32"]]
    for cell in result["cells"]:
        first, third = cell["times_as_fast_quartiles"]
        ratio = "" if cell["program"] == BASE else f"{cell['times_as_fast']:.2f} ({first:.2f} to {third:.2f})"
        speed = f"{settings['examples'] / cell['seconds']:,.0f}"
        rows.append([cell["program"], f"{cell['accuracy']:.2f} %", f"{cell['other_labels']:,}", speed, ratio])
    return [
        f"{settings['checkpoint']} on the development set of {settings['task']}: {settings['examples']:,} examples, "
        f"{settings['tokens'] / settings['examples']:.0f} tokens each on average, in batches of "
        f"{settings['batch_size']} of similar length; {settings['rounds']} rounds, threads: {settings['threads']}. "
        "Ratios are medians over the rounds, and their quartiles.",
        "",
        *markdown_table(rows),
        "",
        f"({said(result['provenance'])})",
    ]

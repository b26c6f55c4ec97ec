"""`linformer analyse`: singular values and theorems in numbers, attention for a text, limits, and inserted tokens."""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import logging
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import torch

from linformer_fairseq.analysis import (
    attention,
    insertion,
    insertion_report,
    limits,
    limits_report,
    report,
    spectrum,
    theory,
)
from linformer_fairseq.analysis.attention_figures import draw_attention
from linformer_fairseq.analysis.attention_page import write_page
from linformer_fairseq.analysis.blocks import Chosen, check_length, choose_blocks
from linformer_fairseq.analysis.encoder import Encoder
from linformer_fairseq.analysis.fairseq_encoder import FairseqEncoder, load_fairseq
from linformer_fairseq.analysis.insertion_figure import draw_insertion
from linformer_fairseq.analysis.limits_figure import draw_limits
from linformer_fairseq.analysis.spectrum_figure import draw_spectrum
from linformer_fairseq.analysis.theory_figure import draw_theory
from linformer_fairseq.checkpoints.released_folder import CHECKPOINT, TRANSFORMERS_CONFIG, existing_weights
from linformer_fairseq.cli.devices import device_of
from linformer_fairseq.cli.loading import find_model
from linformer_fairseq.evaluation import Classifier, load_classifier, read_finetuned
from linformer_fairseq.files import provenance
from linformer_fairseq.files.atomic import replace_page
from linformer_fairseq.files.dictionary import find_dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.names import last_name
from linformer_fairseq.files.shipped import WEIGHTS, shipped_models
from linformer_fairseq.files.task_data import read_task
from linformer_fairseq.files.walking import walk
from linformer_fairseq.prediction.inputs import open_source


def run(arguments: argparse.Namespace) -> int:
    """Run the action; returns the exit status."""
    out = getattr(arguments, "out", None)
    if out is not None and out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: is a file; expected a folder, which need not exist")
    try:
        _ACTIONS[arguments.action](arguments)
    except (KeyboardInterrupt, SystemExit) as stop:  # SystemExit: SIGTERM
        print(f"linformer analyse {arguments.action}: stopped; repeat the command to go on", file=sys.stderr)
        if isinstance(stop, SystemExit):
            raise
        return 130
    return 0


def _spectrum(arguments: argparse.Namespace) -> None:
    model = _load(arguments)
    length = check_length(model.encoder, arguments.length)
    if arguments.index is not None:
        most = spectrum.count_values(model.encoder, length)
        if not 1 <= arguments.index <= most:
            raise UserError(f"--index {arguments.index}: expected 1 to {most:,}, the number of singular values")
    settings = spectrum.Settings(
        model=model.name,
        sha256=model.sha256,
        data=last_name(arguments.input),
        data_sha256=_content(arguments.input),
        length=length,
        sentences=arguments.sentences,
        seed=arguments.seed,
    )

    def choose() -> Chosen:
        return _choose(arguments.input, model.encoder, length, arguments.sentences, arguments.seed)

    words = ["spectrum", model.name, settings.data, "--sentences", settings.sentences, "--length", length]
    command = _command(*words, "--seed", settings.seed)
    record = spectrum.measure(model.encoder, choose, settings, arguments.out, arguments.batch, command)
    index = spectrum.default_index(record) if arguments.index is None else arguments.index
    for line in (*report.spectrum_table(record, index), "", *report.layer_table(record), ""):
        print(line)
    for line in report.needed_lines(record):
        print(line)
    _print_paths(arguments.out / spectrum.NAME, *draw_spectrum(record, index, arguments.out))


def _theory(arguments: argparse.Namespace) -> None:
    if (arguments.checkpoint is None) != (arguments.text is None):
        raise UserError("--checkpoint and --text: give both, or neither")
    if arguments.checkpoint is None and (arguments.device is not None or arguments.data is not None):
        raise UserError("--device and --data are those of a model: give --checkpoint and --text, too")
    lengths = sorted(set(arguments.lengths))
    dims = sorted(set(arguments.projected_dims or theory.default_dims(max(lengths))))
    settings = theory.Settings(lengths, dims, arguments.samples, arguments.seed)
    settings.check()
    words = ["theory", "--lengths", *lengths, "--projected-dims", *dims, "--samples", settings.samples]
    real: theory.Real | None = None
    if arguments.checkpoint is not None:
        model = _load(arguments)
        settings.check(model.encoder.max_positions)
        settings = dataclasses.replace(
            settings,
            model=model.name,
            sha256=model.sha256,
            data=last_name(arguments.text),
            data_sha256=_content(arguments.text),
        )
        words += ["--checkpoint", model.name, "--text", last_name(arguments.text)]
        given = arguments.text, model.encoder, max(lengths), settings.samples, settings.seed
        real = model.encoder, lambda: torch.from_numpy(_choose(*given, option="--samples").rows)
    record = theory.compute(settings, arguments.out, _command(*words, "--seed", settings.seed), real)
    for table in (report.proof_table, report.theorem1_table, report.theorem2_table):
        print(*table(record), "", sep="\n")
    if record["trained"]:
        print(*report.trained_table(record), "", sep="\n")
    if record["approximations"]:
        print(*report.approximations_table(record), "", sep="\n")
    _print_paths(arguments.out / theory.NAME, *draw_theory(record, arguments.out))


def _attention(arguments: argparse.Namespace) -> None:
    model = _load(arguments)
    settings = attention.Settings(model.name, model.sha256, arguments.text)
    command = _command("attention", model.name, "--text", arguments.text)
    record = attention.measure(model.encoder, settings, arguments.out, command)
    _print_paths(
        arguments.out / attention.NAME, *draw_attention(record, arguments.out), write_page(record, arguments.out)
    )


def _limits(arguments: argparse.Namespace) -> None:
    model = _load(arguments)
    if not isinstance(model.encoder, FairseqEncoder):
        raise UserError(
            f"{arguments.checkpoint}: a {model.encoder.kind}; expected a Linformer or fairseq's RoBERTa, since only of "
            "these the head that predicts tokens is loaded (`linformer convert` makes a Linformer of a RoBERTa)"
        )
    if model.encoder.is_finetuned:
        raise UserError(
            f"{arguments.checkpoint}: was finetuned for classes, so that its predictions of tokens mean little; "
            "expected a pretrained model (`linformer analyse insertion` takes a finetuned one)"
        )
    encoder, n = model.encoder, model.encoder.max_positions
    settings = limits.Settings(
        model=model.name,
        sha256=model.sha256,
        data=last_name(arguments.input),
        data_sha256=_content(arguments.input),
        length=n,
        lengths=sorted(set(arguments.lengths or limits.default_lengths(n))),
        shifts=sorted({0, *(limits.default_shifts(n) if arguments.shifts is None else arguments.shifts)}),
        sentences=arguments.sentences,
        seed=arguments.seed,
    )
    settings.check()

    def choose() -> Chosen:
        return _choose(arguments.input, encoder, n, settings.sentences, settings.seed)

    words = ["limits", model.name, settings.data, "--sentences", settings.sentences]
    words += ["--lengths", *settings.lengths, "--shifts", *settings.shifts, "--seed", settings.seed]
    record = limits.measure(encoder, choose, settings, arguments.out, arguments.batch, _command(*words))
    print(*limits_report.length_table(record), "", *limits_report.shift_table(record), sep="\n")
    _print_paths(arguments.out / limits.NAME, *draw_limits(record, arguments.out))


def _insertion(arguments: argparse.Namespace) -> None:
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    weights = existing_weights(arguments.checkpoint)
    classifier, task = _load_classifier(weights, arguments)
    shifts = insertion.default_shifts(classifier.max_positions) if arguments.shifts is None else arguments.shifts
    settings = insertion.Settings(
        model=_name(weights, folders=2),  # a finetuning's own folder does not say of what model it is
        sha256=provenance.sha256(weights),
        data=task,
        data_sha256=_content(arguments.task),
        split=arguments.split,
        shifts=sorted(set(shifts)),
        examples=arguments.examples,
        seed=arguments.seed,
    )
    words = ["insertion", settings.model, last_name(arguments.task), "--split", settings.split, "--shifts"]
    command = _command(*words, *settings.shifts, "--examples", settings.examples, "--seed", settings.seed)
    record = insertion.measure(classifier, settings, arguments.out, arguments.batch, command)
    print(*insertion_report.insertion_table(record), sep="\n")
    _print_paths(arguments.out / insertion.NAME, *draw_insertion(record, arguments.out))


def _load_classifier(weights: Path, arguments: argparse.Namespace) -> tuple[Classifier, str]:
    """The model for ``arguments.task``, and the name of the task.

    Raises:
        UserError: the checkpoint is no classifier, or the task is not its own.
    """
    try:
        finetuned, data = read_finetuned(weights), read_task(arguments.task)
        data.require(arguments.split)
        classifier = load_classifier(finetuned, data, device_of(arguments.device))
    except ValueError as error:  # CheckpointError among them
        raise UserError(str(error)) from None
    return classifier, str(data.manifest.get("task", last_name(data.folder)))


def _report(arguments: argparse.Namespace) -> None:
    path = arguments.folder / "README.md"
    replace_page(path, report.page(arguments.folder), report.MARK)
    _print_paths(path)


class _Model(NamedTuple):
    encoder: Encoder
    name: str
    """For people: of the model or folder, or of the file and its folder."""
    sha256: str
    """Of the weights."""


def _load(arguments: argparse.Namespace) -> _Model:
    """The model of ``arguments.checkpoint``.

    Raises:
        UserError: there is none, or it is of another kind.
    """
    device = device_of(arguments.device)
    folder = Path(arguments.checkpoint)
    if arguments.checkpoint not in shipped_models() and (folder / TRANSFORMERS_CONFIG).is_file():
        if arguments.data is not None:
            raise UserError(f"--data {arguments.data}: {folder} is a folder of Hugging Face's, with its own tokenizer")
        from linformer_fairseq.analysis.huggingface_encoder import load_huggingface  # nothing else needs transformers

        encoder = load_huggingface(folder, device)
        weights = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("*.bin"))
        digests = "".join(map(provenance.sha256, weights))
        return _Model(encoder, folder.resolve().name, hashlib.sha256(digests.encode()).hexdigest())
    path, data = find_model(arguments)
    return _Model(load_fairseq(path, data, device), _name(path), provenance.sha256(path))


def _name(weights: Path, folders: int = 1) -> str:
    """Of a model for people: its folder; or the file with its folders, if there may be several in them."""
    parts = weights.absolute().parts
    return parts[-2] if weights.name in (WEIGHTS, CHECKPOINT) else "/".join(parts[-1 - folders :])


def _choose(path: Path, encoder: Encoder, length: int, count: int, seed: int, option: str = "--sentences") -> Chosen:
    if find_dictionary(path) is not None:
        raise UserError(f"{path}: is a folder of prepared data; expected text, such as what it was prepared from")
    return choose_blocks(open_source(path, None, None, []), encoder, length, count, seed, option)


def _content(path: Path) -> str:
    """SHA-256 of a file, or of the names and contents of all files in a folder that are read as texts.

    Raises:
        UserError: there is nothing.
    """
    if not path.exists():
        raise UserError(f"{path}: no such file or folder")
    if path.is_file():
        return provenance.sha256(path)
    files = (file for file in walk(path).files if file.is_file())  # a pipe is none, nor a link to nothing
    lines = "".join(f"{file.relative_to(path)}\0{provenance.sha256(file)}\n" for file in files)
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _command(*words: object) -> str:
    """The command for the record: names in place of paths, and all that the result depends on."""
    return f"linformer analyse {shlex.join(map(str, words))}"


def _print_paths(*paths: Path) -> None:
    for path in paths:
        print(path)


_ACTIONS = {
    "spectrum": _spectrum,
    "theory": _theory,
    "attention": _attention,
    "limits": _limits,
    "insertion": _insertion,
    "report": _report,
}

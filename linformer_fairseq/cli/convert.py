"""`linformer convert`: makes a Linformer of a pretrained RoBERTa."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from linformer_fairseq.cli.arguments.models import TEXT_TOKENS
from linformer_fairseq.cli.devices import device_of
from linformer_fairseq.conversion.convert import RECORD, Choices, Sample, convert
from linformer_fairseq.conversion.huggingface_source import FILES
from linformer_fairseq.core import parse_projected_dim
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.names import last_name
from linformer_fairseq.files.shipped import shipped_models
from linformer_fairseq.launch.explaining import with_path

_BATCH, _UPDATE = 16384, 131072
"""Tokens of a batch and of an update of experiment=converted/linformer."""
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")


def run(arguments: argparse.Namespace) -> int:
    """Write the folder and print how near it is to the source; returns the exit status."""
    try:
        choices = Choices(
            parse_projected_dim(arguments.projected_dim),
            arguments.sharing,
            arguments.projection or ("linear" if arguments.start == "dct" else "convolution"),
            arguments.start,
            arguments.max_positions,
            arguments.seed,
        )
        if arguments.text_tokens and not arguments.text:
            raise UserError(f"--text-tokens {arguments.text_tokens}: no text is read; give --text FILE, too")
        sample = Sample(arguments.text, arguments.text_tokens or TEXT_TOKENS) if arguments.text else None
        device = device_of(arguments.device)
        path = _local(arguments.source)
        name = last_name(Path(arguments.source)) if Path(arguments.source).exists() else arguments.source
        record = convert(path, name, arguments.out, choices, arguments.data, sample, device)
    except ValueError as error:  # CheckpointError among them
        raise UserError(str(error)) from None
    for line in _report(record, arguments.out):
        print(line)
    return 0


def _local(name: str) -> Path:
    """The file or folder of a source; what is not there, and can be a name, is downloaded from the Hugging Face hub."""
    path = Path(name)
    here = path.exists() or name in shipped_models()
    if here or not _HUB_NAME.fullmatch(name) or path.suffix in (".pt", ".safetensors"):
        return path
    import huggingface_hub

    from data_prep.sources.hub_access import explained

    def by_hand() -> str:
        patterns = " ".join(f"'{pattern}'" for pattern in FILES)
        return (
            f"There is no file or folder {name} either. On a machine with a network: hf download {name} --include "
            f"{patterns} --local-dir FOLDER; then give FOLDER instead of the name"
        )

    with explained(f"source {name!r}", name, "main", by_hand):
        return Path(huggingface_hub.snapshot_download(name, allow_patterns=list(FILES)))


def _report(record: dict[str, Any], out: Path) -> Iterator[str]:
    source, choices, compared = record["source"], record["choices"], record["comparison"]
    yield f"source: {source['kind']} {source['name']}, n = {source['max_positions']:,}, {source['symbols']:,} symbols"
    options = ("max_positions", "projected_dim", "sharing", "projection", "start")
    yield f"result: {out}, {', '.join(f'{name}={choices[name]}' for name in options)}"
    yield f"position embeddings: {record['position_embeddings']}"
    yield from (f"note: {note}" for note in record["notes"])
    if compared is None:
        yield "not compared with the source (--text FILE does)"
    else:
        for row in compared["perplexity"]:
            longer = " with its position embeddings repeated" if row["length"] > source["max_positions"] else ""
            yield (
                f"perplexity of masked tokens, {row['blocks']:,} blocks of {row['length']:,} tokens: source{longer} "
                f"{row['source']:.2f}, result {row['result']:.2f}"
            )
        errors = ", ".join(f"{error:.3g}" for error in compared["attention_errors"])
        yield f"relative error of the attention's output, by layer: {errors}"
    yield f"all of this is recorded in {out / RECORD}"
    folder = shlex.quote(str(out))
    yield f"to continue training, on data prepared with this tokenizer (linformer data binarize --tokenizer {folder}):"
    words = continued(out, choices["max_positions"])
    yield f"  linformer pretrain {shlex.join(words)} run_config=gpu"


def continued(out: Path, n: int) -> list[str]:
    """Arguments of `linformer pretrain` that train the result further, with data in ``work/bin``."""
    words = [
        "experiment=converted/linformer",
        with_path("pretrained", out),
        "task.data=work/bin",
        f"task.tokens_per_sample={n}",
    ]
    batch = max(1, _BATCH // n) * n
    if batch != _BATCH:  # n does not divide it
        words += [f"run.tokens_per_batch={batch}", f"run.tokens_per_update={max(1, round(_UPDATE / batch)) * batch}"]
    return words

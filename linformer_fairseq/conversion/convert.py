"""Makes the folder of a Linformer from a RoBERTa."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary

from linformer_fairseq.checkpoints.released_file import released
from linformer_fairseq.checkpoints.released_folder import CHECKPOINT, TRANSFORMERS_CONFIG, find_weights
from linformer_fairseq.conversion.building import build, build_dense
from linformer_fairseq.conversion.comparison import TOKENS_PER_BATCH, attention_errors, perplexity
from linformer_fairseq.conversion.fairseq_source import read_fairseq
from linformer_fairseq.conversion.fitting import STEPS, fit
from linformer_fairseq.conversion.huggingface_source import read_huggingface
from linformer_fairseq.conversion.source import Source
from linformer_fairseq.conversion.starts import start_with_dct
from linformer_fairseq.conversion.task import masked_lm, options_of
from linformer_fairseq.conversion.text import blocks, read_tokens
from linformer_fairseq.core import ProjectedDim, largest_dim
from linformer_fairseq.files import dictionary as dict_txt
from linformer_fairseq.files import provenance
from linformer_fairseq.files.atomic import new_folder
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import write_json
from linformer_fairseq.files.memory import enough_memory
from linformer_fairseq.files.shipped import WEIGHTS
from linformer_fairseq.files.text import read_text
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.architectures import MODEL
from linformer_fairseq.models.config import DEFAULTS

RECORD = "conversion.json"
"""In the result's folder: what `convert` returns."""


@dataclass(frozen=True)
class Choices:
    """What the Linformer is to be."""

    projected_dim: ProjectedDim
    sharing: str
    projection: str
    start: str
    """One of `starts.STARTS`."""
    max_positions: int | None
    """n; None: the source's."""
    seed: int

    def options(self) -> dict[str, Any]:
        """Options of the model; a linear E is stretched over inputs of every length (docs/conversion.md)."""
        options: dict[str, Any] = {
            "projected_dim": self.projected_dim,
            "sharing": self.sharing,
            "projection": self.projection,
            "projection_init": "xavier" if self.start == "random" else "window_means",
        }
        if self.projection == "linear":
            options |= {"short_inputs": "stretch", "row_weights": "affine"}
        return options


@dataclass(frozen=True)
class Sample:
    """Text to compare on; for ``least_squares``, what follows is for fitting."""

    path: Path
    tokens: int
    """How many are compared on, at most."""


def convert(
    path: Path,
    name: str,
    out: Path,
    choices: Choices,
    data: Path | None,
    sample: Sample | None,
    device: torch.device,
) -> dict[str, Any]:
    """Convert a RoBERTa, and compare it with the result.

    Args:
        path: a fairseq checkpoint, a folder with one (``model.pt``), or a folder of Hugging Face's RoBERTa.
        name: of the source, for the record.
        out: new folder for the weights (float32), the dictionary, the tokenizer and the record.
        choices: what the Linformer is to be.
        data: folder with the dictionary and tokenizer of a fairseq checkpoint; None: that of the checkpoint.
        sample: None: no comparison, and no ``least_squares``.
        device: where it is computed.

    Returns:
        The record, as it is in `RECORD`.

    Raises:
        UserError: a file cannot be used, or choices contradict each other.
        ValueError: ``out`` exists, a checkpoint cannot be read, or an option is out of range.
    """
    _check(choices, sample)
    with new_folder(out) as folder, enough_memory("a smaller --max-positions or --projected-dim needs less"):
        source = _read(path, data, folder)
        n = choices.max_positions or source.max_positions
        if (k := largest_dim(choices.projected_dim)) > n:
            raise UserError(f"--projected-dim {k}: more than the {n} positions (--max-positions)")
        dictionary = Dictionary.load(str(folder / dict_txt.NAME))
        task = masked_lm(dictionary, n)
        torch.manual_seed(choices.seed)
        model = build(source, task, {**choices.options(), "max_positions": n}).to(device)
        if choices.start == "dct":
            start_with_dct(model)
        compared = None
        if sample is not None:
            dense = build_dense(source, task, n).to(device)
            compared = _compare(dense, model, sample, folder, choices, source.max_positions)
        record = _record(name, source, n, choices, compared)
        try:
            content = released(_state(model, task), torch.float32)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        (folder / WEIGHTS).write_bytes(content)
        write_json(folder / RECORD, record)
    return record


def _check(choices: Choices, sample: Sample | None) -> None:
    if choices.start == "dct" and choices.projection != "linear":
        raise UserError(f"--start dct: needs --projection linear, but --projection {choices.projection} was given")
    if choices.projection == "mean_pool" and choices.start != "window_means":
        raise UserError(f"--start {choices.start}: --projection mean_pool has no parameters; leave --start out")
    if choices.start == "least_squares" and sample is None:
        raise UserError("--start least_squares: E and F are fitted to text; name a file with --text FILE")
    dims = choices.projected_dim
    by_layer = isinstance(dims, list) and any(dim != dims[0] for dim in dims)
    if by_layer and choices.projection == "linear" and choices.sharing == "layerwise" and choices.start != "random":
        raise UserError(
            f"--projected-dim {dims}: with --projection linear and --sharing layerwise, a layer with a smaller k has "
            f"the first rows of E, which --start {choices.start} makes for the beginning of the text; use --sharing "
            "key_value, headwise or none"
        )
    if sample is not None:
        read_text(sample.path)  # before the work that comes first
    if choices.max_positions is not None and choices.max_positions < 2:
        raise UserError(f"--max-positions {choices.max_positions}: expected at least 2")


def _read(path: Path, data: Path | None, folder: Path) -> Source:
    if (path / TRANSFORMERS_CONFIG).is_file():
        if data is not None:
            raise UserError(
                f"--data {data}: {path} is a folder of Hugging Face's transformers, with a tokenizer; leave it out"
            )
        return read_huggingface(path, folder)
    checkpoint = Path(find_weights(str(path)))
    if not checkpoint.is_file():
        raise UserError(
            f"{path / CHECKPOINT if path.is_dir() else path}: no such file; expected a checkpoint of fairseq's "
            f"RoBERTa, a folder with {CHECKPOINT}, or a folder of Hugging Face's RoBERTa with {TRANSFORMERS_CONFIG}"
        )
    return read_fairseq(checkpoint, data or checkpoint.parent, folder)


def _compare(
    dense: LinformerRobertaModel,
    model: LinformerRobertaModel,
    sample: Sample,
    folder: Path,
    choices: Choices,
    source_positions: int,
) -> dict[str, Any]:
    """Fit if that is the start, and compare."""
    n, dictionary = model.max_positions(), dense.encoder.dictionary
    first = dictionary.bos()
    wanted = max(1, sample.tokens // n) * (n - 1)
    fits = choices.start == "least_squares"
    tokens = read_tokens(sample.path, folder, dictionary, wanted + (STEPS * TOKENS_PER_BATCH if fits else 0))
    if fits:  # on other text than that of the comparison; of a short one, half is for each
        if len(tokens) < (least := 2 * (n - 1)):
            raise UserError(f"--text: {len(tokens):,} tokens; --start least_squares takes at least {least:,}")
        tokens, rest = tokens.tensor_split([min(wanted, len(tokens) // 2)])
        fit(dense, model, blocks(rest, n, first))
    found = []
    for length in sorted({min(n, source_positions), n}):
        rows = blocks(tokens, length, first)
        scores = (perplexity(which, rows, choices.seed) for which in (dense, model))
        found.append({"length": length, "blocks": len(rows), **dict(zip(("source", "result"), scores, strict=True))})
    return {
        "text": sample.path.name,
        "sha256": provenance.sha256(sample.path),
        "perplexity": found,
        "attention_errors": attention_errors(dense, model, blocks(tokens, n, first)),
    }


def _record(name: str, source: Source, n: int, choices: Choices, compared: dict[str, Any] | None) -> dict[str, Any]:
    own = source.max_positions
    positions = f"the source's {own}" if n == own else f"the first {n} of the source's {own}"
    if n > own:
        positions = f"the source's {own}, repeated: position i has the embedding of position i modulo {own}"
    return {
        "source": {"name": name, "kind": source.kind, "max_positions": own, "symbols": source.symbols},
        "choices": {**asdict(choices), "max_positions": n},
        "position_embeddings": positions,
        "notes": list(source.notes),
        "comparison": compared,
        "date": provenance.date(),
        "versions": provenance.versions(),
    }


def _state(model: LinformerRobertaModel, task: Any) -> Mapping[str, Any]:
    """The model as a checkpoint without updates."""
    options = {name: getattr(model.args, name) for name in DEFAULTS}
    return {
        "cfg": {
            "model": json.loads(json.dumps({**options, "_name": MODEL})),
            "task": options_of(task),
            "criterion": {"_name": "masked_lm", "tpu": False},
        },
        "model": {name: tensor.cpu() for name, tensor in model.state_dict().items()},
        "optimizer_history": [{"num_updates": 0}],
    }

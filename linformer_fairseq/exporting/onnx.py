"""A trained model in ONNX, for any batch size and length, in fp32 and in int8."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from linformer_fairseq.checkpoints.released_folder import ONNX
from linformer_fairseq.files.atomic import new_folder

from .hugging_face import convert
from .program import BATCH, INPUTS, LENGTH, program_of

INT8 = "model_int8.onnx"
# What libraries say at each export, and users can do nothing about: how messages begin, their loggers, and a warning.
_MESSAGES = ("torchvision is not installed", "Please consider to run pre-processing before quantization")
_LOGGERS = ("torch.onnx._internal.exporter._registration", "root")
_WARNING = r"`isinstance\(treespec, LeafSpec\)` is deprecated"


def export_onnx(model: str, out: Path, data: Path | None = None, int8: bool = False) -> list[Path]:
    """Write a folder with an ONNX model, the tokenizer and config.json; its inputs are those of `program_of`.

    Args:
        model, out, data: as in `hugging_face.export_folder`.
        int8: write a second model whose matrix products are in int8: weights are quantized here, activations when the
            model runs.

    Returns, Raises: as in `hugging_face.export_folder`.
    """
    with new_folder(out) as folder, _without_remarks():
        converted = convert(model, data)
        converted.write_tokenizer(folder)
        program = torch.onnx.export(
            program_of(converted.model()),
            input_names=INPUTS,
            output_names=("logits",),
            dynamic_shapes=({0: BATCH, 1: LENGTH}, None),  # the axes of the mask are the same ones
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        program.save(folder / ONNX)
        if int8:
            quantize_dynamic(folder / ONNX, folder / INT8, weight_type=QuantType.QInt8)
    return sorted(out.iterdir())


@contextmanager
def _without_remarks() -> Iterator[None]:
    """Inside the ``with`` block, `_MESSAGES` and `_WARNING` are not printed; all others are."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(_is_printed)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", _WARNING, FutureWarning)
            yield
    finally:
        for logger in loggers:
            logger.removeFilter(_is_printed)


def _is_printed(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(_MESSAGES)

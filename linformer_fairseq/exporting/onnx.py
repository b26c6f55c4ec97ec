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
from .program import INPUTS, program_of

INT8 = "model_int8.onnx"


def export_onnx(model: str, out: Path, data: Path | None = None, int8: bool = False) -> list[Path]:
    """Write a folder with an ONNX model, the tokenizer and config.json; its inputs are those of `program_of`.

    Args:
        model, out, data: as in `hugging_face.export_folder`.
        int8: write a second model whose matrix products are in int8: weights are quantized here, activations when the
            model runs.

    Returns, Raises: as in `hugging_face.export_folder`.
    """
    with new_folder(out) as folder, _quiet():
        converted = convert(model, data)
        converted.write_tokenizer(folder)
        program = torch.onnx.export(
            program_of(converted.model()),
            input_names=INPUTS,
            output_names=("logits",),
            dynamic_shapes=({0: "batch", 1: "length"}, None),  # their names, which the program has lost
            dynamo=True,
            verbose=False,
        )
        assert program is not None
        program.save(folder / ONNX)
        if int8:
            quantize_dynamic(folder / ONNX, folder / INT8, weight_type=QuantType.QInt8)
    return sorted(out.iterdir())


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch and onnxruntime warn of, whatever the model is: operators of torchvision, and an optimization
    of graphs before they are quantized, which these need not."""
    loggers = logging.getLogger("torch.onnx._internal.exporter._registration"), logging.getLogger()
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

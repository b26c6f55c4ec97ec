"""A trained model in ONNX, for any batch size and length, in fp32 and in int8."""

from __future__ import annotations

from pathlib import Path

import torch
from onnxruntime.quantization import QuantType, quantize_dynamic

from linformer_fairseq.files.atomic import new_folder

from .hugging_face import convert
from .program import INPUTS, program_of

MODEL, INT8 = "model.onnx", "model_int8.onnx"


def export_onnx(model: str, out: Path, data: Path | None = None, int8: bool = False) -> list[Path]:
    """Write a folder with an ONNX model, the tokenizer and config.json; its inputs are those of `program_of`.

    Args:
        model, out, data: as in `hugging_face.export_folder`.
        int8: write a second model whose matrix products are in int8: weights are quantized here, activations when the
            model runs.

    Returns, Raises: as in `hugging_face.export_folder`.
    """
    with new_folder(out) as folder:
        converted = convert(model, data)
        converted.write_tokenizer(folder)
        program = torch.onnx.export(
            program_of(converted.model()), input_names=INPUTS, output_names=("logits",), dynamo=True, verbose=False
        )
        assert program is not None
        program.save(folder / MODEL)
        if int8:
            quantize_dynamic(folder / MODEL, folder / INT8, weight_type=QuantType.QInt8)
    return sorted(out.iterdir())

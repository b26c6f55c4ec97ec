"""A trained model as a program of torch.export, for any batch size and length."""

from __future__ import annotations

import copy
import io
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx import GraphModule

from linformer_fairseq.checkpoints.released_folder import PROGRAM
from linformer_fairseq.core import prepare_export
from linformer_fairseq.files.atomic import new_folder
from linformer_fairseq.files.dictionary import EOS
from linformer_fairseq.files.errors import UserError

from .hugging_face import convert
from .hugging_face.modeling_linformer import LinformerPreTrainedModel

INPUTS = ("input_ids", "attention_mask")
BATCH, LENGTH = "batch", "length"
"""The names of the axes of both."""


class _Logits(nn.Module):
    """A model whose only output is a tensor."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).logits
        return logits


def export_program(model: str, out: Path, data: Path | None = None) -> list[Path]:
    """Write a folder with a program of torch.export (``torch.export.load``), the tokenizer and config.json.

    Args, Returns, Raises: as in `hugging_face.export_folder`; see `program_of` for what the program takes.
    """
    with new_folder(out) as folder:
        converted = convert(model, data)
        converted.write_tokenizer(folder)
        content = io.BytesIO()  # torch aborts the process if it cannot write a file
        torch.export.save(program_of(converted.model()), content)
        (folder / PROGRAM).write_bytes(content.getbuffer())
    return sorted(out.iterdir())


def program_of(model: LinformerPreTrainedModel) -> ExportedProgram:
    """Make the graph of a model with a head.

    It takes ``input_ids`` and ``attention_mask``, int64 (B, T) padded on the right, for any B and 2 <= T <= n, and
    returns the logits, (B, T, V) or (B, classes).

    Raises:
        UserError: n is 2, so that there is a single length.
    """
    model = copy.deepcopy(model)
    prepare_export(model)
    n = model.config.max_position_embeddings
    if n < 3:
        raise UserError(f"a model with n = {n} has no graph for inputs of any length: expected n of at least 3")
    tokens = torch.full((2, max(2, n // 2)), EOS)
    mask = torch.ones_like(tokens)
    mask[1, -1] = 0
    sizes = {0: Dim(BATCH), 1: Dim(LENGTH, min=2, max=n)}
    with torch.no_grad():
        program = torch.export.export(
            _Logits(model), (tokens, mask), dynamic_shapes=dict.fromkeys(INPUTS, sizes), strict=False
        )
    _clear_stack_traces(program)
    return program


def _clear_stack_traces(program: ExportedProgram) -> None:
    """They have this machine's paths, and would be saved with the program, or the ONNX model that is made of it."""
    for part in program.graph_module.modules():
        assert isinstance(part, GraphModule)
        for node in part.graph.nodes:
            node.meta.pop("stack_trace", None)

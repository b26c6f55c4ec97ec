"""Linformer's self-attention in plain torch, without fairseq.

Symbols in shapes: B batch size, T length of the input, n ``max_positions``, K projected dimension (the paper's k), R
number of projected rows of an input, H heads, D head size, C = H * D. Sequences have the layout (B, T, C).
"""

from .attention import LinformerSelfAttention, build_attention_layers
from .compiling import compile_layers, prepare_compiler
from .exporting import prepare_export
from .layer import LinformerEncoderLayer, attention_input, encoder_layer
from .projection import Projection
from .settings import (
    INITIALISATIONS,
    PROJECTIONS,
    ROW_WEIGHTS,
    SHARINGS,
    SHORT_INPUTS,
    LinformerSettings,
    ProjectedDim,
    largest_dim,
    parse_projected_dim,
    projection_defaults,
)
from .sharing import (
    build_shared_projection,
    count_projection_matrices,
    count_projection_parameters,
)
from .signature import projection_options, signature_of

__all__ = [
    "INITIALISATIONS",
    "PROJECTIONS",
    "ROW_WEIGHTS",
    "SHARINGS",
    "SHORT_INPUTS",
    "LinformerEncoderLayer",
    "LinformerSelfAttention",
    "LinformerSettings",
    "ProjectedDim",
    "Projection",
    "attention_input",
    "build_attention_layers",
    "build_shared_projection",
    "compile_layers",
    "count_projection_matrices",
    "count_projection_parameters",
    "encoder_layer",
    "largest_dim",
    "parse_projected_dim",
    "prepare_compiler",
    "prepare_export",
    "projection_defaults",
    "projection_options",
    "signature_of",
]

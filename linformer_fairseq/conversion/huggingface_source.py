"""Reads a folder of Hugging Face's RoBERTa: config.json, safetensors, tokenizer.

Its position embeddings begin after the padding symbol's, as fairseq's do. Every token has the same token type, whose
embedding is added to the position embeddings. The pooler belongs to no masked language model and is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from linformer_fairseq.checkpoints.released_folder import TRANSFORMERS_CONFIG
from linformer_fairseq.checkpoints.transformers_weights import INDEX, read_weights
from linformer_fairseq.conversion.byte_level_bpe import write_tokenizer
from linformer_fairseq.conversion.source import Source
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object, shortened
from linformer_fairseq.files.weight_names import (
    ENCODER,
    LM_HEAD,
    OUTPUT,
    OUTPUT_BIAS,
    POSITIONS,
    TOKENS,
    UNUSED_POSITIONS,
)
from linformer_fairseq.models.stored import check_sizes

FILES = (TRANSFORMERS_CONFIG, "*.safetensors", INDEX, "tokenizer.json", "vocab.json", "merges.txt")
"""What is read of a folder."""
_MODEL = "roberta"

# What fairseq's RoBERTa has no option for, and the value that Hugging Face's has where config.json names none.
_FIXED = {
    "hidden_act": ("gelu", "gelu"),
    "layer_norm_eps": (1e-5, 1e-12),
    "position_embedding_type": ("absolute", "absolute"),
    "is_decoder": (False, False),
    "add_cross_attention": (False, False),
}
_OPTIONS = {
    "num_hidden_layers": ("encoder_layers", 12),
    "hidden_size": ("encoder_embed_dim", 768),
    "intermediate_size": ("encoder_ffn_embed_dim", 3072),
    "num_attention_heads": ("encoder_attention_heads", 12),
    "hidden_dropout_prob": ("dropout", 0.1),
    "attention_probs_dropout_prob": ("attention_dropout", 0.1),
}
_NAMES = (
    (r"roberta\.embeddings\.word_embeddings\.", f"{ENCODER}embed_tokens."),
    (r"roberta\.embeddings\.position_embeddings\.", f"{ENCODER}embed_positions."),
    (r"roberta\.embeddings\.LayerNorm\.", f"{ENCODER}layernorm_embedding."),
    (r"roberta\.encoder\.layer\.(\d+)\.attention\.self\.query\.", rf"{ENCODER}layers.\1.self_attn.q_proj."),
    (r"roberta\.encoder\.layer\.(\d+)\.attention\.self\.key\.", rf"{ENCODER}layers.\1.self_attn.k_proj."),
    (r"roberta\.encoder\.layer\.(\d+)\.attention\.self\.value\.", rf"{ENCODER}layers.\1.self_attn.v_proj."),
    (r"roberta\.encoder\.layer\.(\d+)\.attention\.output\.dense\.", rf"{ENCODER}layers.\1.self_attn.out_proj."),
    (r"roberta\.encoder\.layer\.(\d+)\.attention\.output\.LayerNorm\.", rf"{ENCODER}layers.\1.self_attn_layer_norm."),
    (r"roberta\.encoder\.layer\.(\d+)\.intermediate\.dense\.", rf"{ENCODER}layers.\1.fc1."),
    (r"roberta\.encoder\.layer\.(\d+)\.output\.dense\.", rf"{ENCODER}layers.\1.fc2."),
    (r"roberta\.encoder\.layer\.(\d+)\.output\.LayerNorm\.", rf"{ENCODER}layers.\1.final_layer_norm."),
    (r"roberta\.embeddings\.token_type_embeddings\.", "roberta.embeddings.token_type_embeddings."),
    (r"lm_head\.decoder\.", LM_HEAD),
    (r"lm_head\.", LM_HEAD),
)
_TYPES = "roberta.embeddings.token_type_embeddings.weight"
_POOLER = "roberta.pooler."
# Constants that earlier versions of transformers stored.
_CONSTANTS = ("roberta.embeddings.position_ids", "roberta.embeddings.token_type_ids")


def read_huggingface(folder: Path, out: Path) -> Source:
    """Read a folder, and write its dictionary and tokenizer as fairseq reads them.

    Args:
        folder: with config.json, model.safetensors (or its shards) and tokenizer.json, or vocab.json and merges.txt.
        out: existing folder for ``dict.txt``, ``encoder.json`` and ``vocab.bpe``.

    Raises:
        UserError: a file is missing or damaged, or the model has something that fairseq's RoBERTa has not.
    """
    options, padding = _options(folder)
    found = {name: tensor.float() for name, tensor in read_weights(folder).items() if name not in _CONSTANTS}
    if "lm_head.dense.weight" not in found:
        raise UserError(
            f"{folder}: its weights have no masked-language-model head (lm_head.*); expected a RobertaForMaskedLM"
        )
    weights = _renamed(folder, found)
    _check_shapes(folder, options, padding, weights)
    notes = []
    types = weights.pop(_TYPES)
    if len(types) > 1:
        notes.append(f"token types other than 0 ({len(types) - 1}) are left out: without them all tokens have type 0")
    if pooler := sorted(key for key in found if key.startswith(_POOLER)):
        notes.append(f"the pooler is left out ({', '.join(pooler)})")
    options["untie_weights_roberta"] = not torch.equal(weights.setdefault(OUTPUT, weights[TOKENS]), weights[TOKENS])
    positions = weights[POSITIONS]
    unused = torch.zeros(UNUSED_POSITIONS, positions.size(1))
    weights[POSITIONS] = torch.cat([unused, positions[padding + 1 :] + types[0]])
    order, remarks = write_tokenizer(folder, out, len(weights[TOKENS]))
    for key in (TOKENS, OUTPUT, OUTPUT_BIAS):
        weights[key] = weights[key][order]
    return Source("Hugging Face RoBERTa", folder, options, weights, (*notes, *remarks))


def _options(folder: Path) -> tuple[dict[str, Any], int]:
    """fairseq's options, and the index of the padding symbol.

    Raises:
        UserError: the model is none that fairseq's RoBERTa can be.
    """
    path = folder / TRANSFORMERS_CONFIG
    config = read_object(path)
    kind = config.get("model_type")
    if kind != _MODEL:
        raise UserError(
            f"{path}: model_type {shortened(kind)}: only Hugging Face's RoBERTa (model_type 'roberta') is converted; "
            "others have parts that fairseq's RoBERTa has not, as BERT has token types, a pooler and WordPiece (for a "
            "Linformer: `linformer import hf`)"
        )
    for name, (expected, default) in _FIXED.items():
        value = config.get(name, default)
        if value != expected:
            raise UserError(
                f"{path}: {name} is {shortened(value)}, but fairseq's RoBERTa has {expected!r}; not converted"
            )
    options = {ours: config.get(theirs, default) for theirs, (ours, default) in _OPTIONS.items()}
    for theirs, (ours, default) in _OPTIONS.items():
        value = options[ours]
        if isinstance(default, int):
            right = type(value) is int and value > 0
        else:
            right = type(value) in (int, float) and 0 <= value < 1
        if not right:
            expected = "an integer of at least 1" if isinstance(default, int) else "a number from 0 to below 1"
            raise UserError(f"{path}: {theirs} is {shortened(value)}; expected {expected}")
    fixed = {"activation_fn": "gelu", "layernorm_embedding": True, "encoder_normalize_before": False}
    padding = config.get("pad_token_id", 1)
    if type(padding) is not int or padding < 0:
        raise UserError(f"{path}: pad_token_id is {shortened(padding)}; expected an integer of at least 0")
    return {**options, **fixed}, padding


def _check_shapes(folder: Path, options: dict[str, Any], padding: int, weights: dict[str, Tensor]) -> None:
    """Raise where the embeddings and the output layer do not fit each other, or the options the weights.

    The other shapes are compared when the model is built.
    """
    heads, width = options["encoder_attention_heads"], options["encoder_embed_dim"]
    if width % heads:
        raise UserError(
            f"{folder / TRANSFORMERS_CONFIG}: num_attention_heads is {heads}, which does not divide hidden_size, "
            f"{width}"
        )
    try:
        check_sizes(options, weights)
    except ValueError as error:
        raise UserError(f"{folder / TRANSFORMERS_CONFIG}: {error}") from None
    shapes = {
        key: tuple(weights[key].shape) for key in (TOKENS, OUTPUT, OUTPUT_BIAS, POSITIONS, _TYPES) if key in weights
    }
    symbols = shapes[TOKENS][0] if shapes[TOKENS] else 0
    expected = {TOKENS: (symbols, width), OUTPUT: (symbols, width), OUTPUT_BIAS: (symbols,)}
    for key, least in ((POSITIONS, padding + 2), (_TYPES, 1)):
        expected[key] = (max(least, shapes[key][0] if shapes[key] else 0), width)
    for key, shape in shapes.items():
        if shape != expected[key]:
            raise UserError(f"{folder}: its weight {key} (as fairseq calls it) is {shape}, expected {expected[key]}")


def _renamed(folder: Path, found: dict[str, Tensor]) -> dict[str, Tensor]:
    weights = {}
    for key, tensor in found.items():
        if key.startswith(_POOLER):
            continue
        ours = next((re.sub(old, new, key) for old, new in _NAMES if re.match(old, key)), None)
        if ours is None:
            raise UserError(f"{folder}: a weight {key}, which RobertaForMaskedLM has not; not converted")
        weights[ours] = tensor
    for key in (TOKENS, POSITIONS, OUTPUT_BIAS, _TYPES):
        if key not in weights:
            raise UserError(f"{folder}: its weights lack {key} (as fairseq calls it)")
    return weights

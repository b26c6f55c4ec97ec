"""The options of a model in fairseq's checkpoints and in transformers' config.json."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from linformer_fairseq.core import parse_projected_dim
from linformer_fairseq.files.dictionary import BOS, EOS, PAD

MODEL_TYPE = "linformer"

# transformers' name of each option.
_NAMES = {
    "encoder_layers": "num_hidden_layers",
    "encoder_embed_dim": "hidden_size",
    "encoder_ffn_embed_dim": "intermediate_size",
    "encoder_attention_heads": "num_attention_heads",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "activation_dropout": "activation_dropout",
    "pooler_dropout": "classifier_dropout",
    "encoder_normalize_before": "normalize_before",
    "layernorm_embedding": "layernorm_embedding",
    "max_positions": "max_position_embeddings",
    "projected_dim": "projected_dim",
    "sharing": "sharing",
    "projection": "projection",
    "projection_init": "projection_init",
    "projection_step": "projection_step",
    "row_weights": "row_weights",
    "short_inputs": "short_inputs",
    "kernel_strides": "kernel_strides",
    "freeze_projection": "freeze_projection",
}
_FIXED = {"layer_norm_eps": 1e-5, "bos_token_id": BOS, "pad_token_id": PAD, "eos_token_id": EOS}
"""What fairseq's RoBERTa has no option for."""
_ACTIVATIONS = {"activation_fn": "hidden_act", "pooler_activation_fn": "classifier_act"}
_SAME_FUNCTION = {"gelu_fast": "gelu_accurate"}
"""fairseq's names of activation functions that have another one in transformers."""

AUTO_MAP = {
    "AutoConfig": "configuration_linformer.LinformerConfig",
    "AutoModel": "modeling_linformer.LinformerModel",
    "AutoModelForMaskedLM": "modeling_linformer.LinformerForMaskedLM",
    "AutoModelForSequenceClassification": "modeling_linformer.LinformerForSequenceClassification",
}


def to_transformers(options: Namespace, vocabulary: int, labels: Sequence[str] | None) -> dict[str, Any]:
    """The content of config.json.

    Args:
        options: of the model, all of them.
        vocabulary: number of rows of the embedding.
        labels: names of the classes, or of the numbers that the model predicts; None without a classification head.
    """
    architecture = "AutoModelForMaskedLM" if labels is None else "AutoModelForSequenceClassification"
    config: dict[str, Any] = {
        "architectures": [AUTO_MAP[architecture].partition(".")[2]],
        "model_type": MODEL_TYPE,
        "dtype": "float32",
        "vocab_size": vocabulary,
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "tie_word_embeddings": not options.untie_weights_roberta,
        **{name: getattr(options, option) for option, name in _NAMES.items()},
    }
    config["projected_dim"] = parse_projected_dim(config["projected_dim"])  # fairseq's parser leaves it as text
    for option, name in _ACTIVATIONS.items():
        function = getattr(options, option)
        config[name] = _SAME_FUNCTION.get(function, function)
    if labels is not None:
        config["id2label"] = {str(number): label for number, label in enumerate(labels)}
        config["label2id"] = {label: number for number, label in enumerate(labels)}
    return config


def to_fairseq(config: Mapping[str, Any]) -> dict[str, Any]:
    """The options of fairseq's model for the content of config.json; what is not in it has its default.

    Raises:
        ValueError: an activation function that fairseq does not have, or another value of what it has no option for.
    """
    for name, expected in _FIXED.items():
        if (value := config.get(name, expected)) != expected:
            raise ValueError(f"{name} is {value!r}, but fairseq's RoBERTa has {expected}; not imported")
    found = {option: config[name] for option, name in _NAMES.items() if name in config}
    for option, name in _ACTIVATIONS.items():
        if name in config:
            found[option] = _function(config[name])
    return found | {"untie_weights_roberta": not config.get("tie_word_embeddings", True)}


def _function(name: str) -> str:
    known = ("relu", "gelu", "gelu_accurate", "tanh", "linear")
    if name not in known:
        raise ValueError(f"the activation function is {name!r}; fairseq has {', '.join(known)}")
    return name

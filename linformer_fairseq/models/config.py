"""The options of the model, for ``--arch`` command lines and Hydra configs.

No ``from __future__ import annotations`` here: fairseq reads the field types as objects.
"""

from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Optional

from fairseq import utils
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models.transformer import DEFAULT_MIN_PARAMS_TO_WRAP

from linformer_fairseq.core import INITIALISATIONS, PROJECTIONS, ROW_WEIGHTS, SHARINGS, SHORT_INPUTS
from linformer_fairseq.modules import ATTENTION_STARTS

_ACTIVATIONS = ChoiceEnum(utils.get_available_activation_fns())


class Role(Enum):
    """What an option affects."""

    MODEL = "the model: a checkpoint can only be used with the value it was trained with"
    TRAINING = "training or initialization: a finetuning can use another value than the pretraining"
    EXECUTION = "only how the model is computed (same results up to rounding): may be changed when a run is resumed"


def _option(default: Any, text: str, role: Role = Role.MODEL) -> Any:
    return field(default=default, metadata={"help": text, "role": role})


@dataclass
class LinformerRobertaConfig(FairseqDataclass):
    """Options of ``linformer_roberta``: first those of RoBERTa, then those that only Linformer has.

    Sizes that are None come from the architecture (``_name`` or ``--arch``), otherwise from the base architecture.
    """

    encoder_layers: Optional[int] = _option(None, "number of layers L (base: 12)")
    encoder_embed_dim: Optional[int] = _option(None, "width C of the encoder (base: 768)")
    encoder_ffn_embed_dim: Optional[int] = _option(None, "width of the feed-forward layers (base: 3072)")
    encoder_attention_heads: Optional[int] = _option(None, "attention heads H of a layer (base: 12)")
    activation_fn: _ACTIVATIONS = _option("gelu", "activation function of the feed-forward layers")
    pooler_activation_fn: _ACTIVATIONS = _option(
        "tanh", "activation function of the classification heads", Role.TRAINING
    )
    dropout: float = _option(0.1, "dropout on embeddings and on the output of each sublayer", Role.TRAINING)
    attention_dropout: float = _option(0.1, "dropout on the attention probabilities", Role.TRAINING)
    activation_dropout: float = _option(0.0, "dropout after the activation in the feed-forward layers", Role.TRAINING)
    pooler_dropout: float = _option(0.0, "dropout in the classification heads", Role.TRAINING)
    encoder_normalize_before: Optional[bool] = _option(
        None, "layer norm before each sublayer instead of after it (pre-norm; base: off)"
    )
    layernorm_embedding: Optional[bool] = _option(None, "layer norm on the embeddings (base: on; prenorm: off)")
    max_positions: Optional[int] = _option(
        None,
        "n, the maximum input length in tokens; E and F have n columns (default: the task's tokens_per_sample or "
        "max_positions)",
    )
    load_checkpoint_heads: bool = _option(
        False, "register and load the classification heads of a checkpoint", Role.TRAINING
    )
    untie_weights_roberta: bool = _option(False, "do not tie the output layer to the token embeddings")
    encoder_layerdrop: float = _option(0.0, "probability of dropping a layer in training (LayerDrop)", Role.TRAINING)
    encoder_layers_to_keep: Optional[str] = _option(
        None, "which layers to keep when pruning, as a comma-separated list; a list of k has one entry per kept layer"
    )
    quant_noise_pq: float = _option(
        0.0,
        "quantization noise in the linear layers in training (not in E and F; not with a k for each head, nor with "
        "sharing=none except for pooling); above 0, the model has one more linear layer, after the embeddings",
    )
    quant_noise_pq_block_size: int = _option(8, "block size of the quantization noise", Role.TRAINING)
    quant_noise_scalar: float = _option(
        0.0, "scalar quantization noise; only 0: fairseq cannot apply it to a RoBERTa", Role.TRAINING
    )
    spectral_norm_classification_head: bool = _option(
        False, "spectral normalization of the classification heads; only off: fairseq cannot load them", Role.TRAINING
    )
    checkpoint_activations: bool = _option(
        False,
        "recompute the activations of each layer in the backward pass, in blocks of positions, instead of storing "
        "them; projected keys and values are stored",
        Role.EXECUTION,
    )
    offload_activations: bool = _option(
        False,
        "move what checkpoint_activations stores to host memory, until the backward pass; implies it",
        Role.EXECUTION,
    )
    min_params_to_wrap: int = _option(
        DEFAULT_MIN_PARAMS_TO_WRAP,
        "minimum number of parameters of a layer that is wrapped by fully sharded data parallel",
        Role.EXECUTION,
    )

    projected_dim: Any = _option(
        128,
        "k, the number of rows that keys and values are projected to: an integer (128), a list with one k per layer "
        "([128,64]), or a list of lists with one k per layer and head ([[128,64],[64,32]])",
    )
    sharing: ChoiceEnum(SHARINGS) = _option(
        "layerwise",
        "sharing of projections: none (each head has its own E and F), headwise (the heads of a layer share E and F), "
        "key_value (in addition, E = F), layerwise (one E = F for all layers)",
    )
    projection: ChoiceEnum(PROJECTIONS) = _option(
        "convolution",
        "type of projection from n positions to k rows: linear (matrices, as in the paper's experiments and in "
        "fairseq's example), mean_pool or max_pool (windows of ceil(n/k) positions, no parameters), convolution "
        "(depthwise, stride ceil(n/k), see kernel_strides). If k does not divide n, there can be fewer than k windows. "
        "max_pool and convolution are applied before W_k and W_v; convolution with sharing=none after them",
    )
    projection_init: Optional[ChoiceEnum(INITIALISATIONS)] = _option(
        None,
        "initialization of E and F: xavier (gain 1/sqrt(2)), normal (std 0.02), jl (normal, variance 1/k), "
        "window_means (row i is the mean over the i-th of k windows; the weights of a kernel are 1/size) "
        "(default: window_means; with projection=linear xavier, or jl if freeze_projection)",
        Role.TRAINING,
    )
    projection_step: float = _option(
        1.0, "learning rate of E and F as a fraction of the model's, from 1e-4 to 1 (with Adam and similar optimizers)"
    )
    row_weights: Optional[ChoiceEnum(ROW_WEIGHTS)] = _option(
        None,
        "constraint on the sum of a projected row's weights over the tokens: free (none, as in the paper), affine (the "
        "sum is 1 at any length; for a convolution, in each window) (default: affine with projection=convolution, "
        "else free)",
    )
    short_inputs: Optional[ChoiceEnum(SHORT_INPUTS)] = _option(
        None,
        "how an input of T < n tokens is projected: first_columns (by the first T columns of E), stretch (by all n "
        "columns, adjacent ones summed to T); windows of pooling and convolution have ceil(n/k) positions with "
        "first_columns, ceil(T/k) with stretch (default: first_columns with projection=linear, else stretch)",
    )
    kernel_strides: int = _option(
        1,
        "kernel size of the convolution as a multiple of its stride: 1 (as in the paper), or more for windows that "
        "overlap; a window of one token stays one",
    )
    attention_start: Optional[ChoiceEnum(ATTENTION_STARTS)] = _option(
        None,
        "initialization of the attention: random (RoBERTa's, nearly uniform attention), neighbours (half of the heads "
        "attend to nearby positions: sinusoidal initial position embeddings, W_k = W_q) "
        "(default: random with projection=linear, else neighbours)",
        Role.TRAINING,
    )
    freeze_projection: bool = _option(False, "keep E and F at their initial values instead of training them")
    compile_encoder: bool = _option(
        False,
        "run the encoder layers through torch.compile; compilation takes about a minute in the first updates",
        Role.EXECUTION,
    )
    pad_vocabulary: bool = _option(
        False,
        "pad the output layer to a multiple of 8 symbols, for the tensor cores of GPUs; logits, loss and checkpoints "
        "do not change",
        Role.EXECUTION,
    )


DEFAULTS: dict[str, Any] = {
    option.name: option.default for option in fields(LinformerRobertaConfig) if option.name != "_name"
}
"""Default of each option; None if the default comes from the architecture, the task or the projection."""

OPTIONS_OF_LINFORMER = tuple(DEFAULTS)[tuple(DEFAULTS).index("projected_dim") :]
"""Names of the options that fairseq's RoBERTa does not have."""


def with_role(*roles: Role) -> frozenset[str]:
    """The names of the options with one of the roles."""
    return frozenset(option.name for option in fields(LinformerRobertaConfig) if option.metadata.get("role") in roles)

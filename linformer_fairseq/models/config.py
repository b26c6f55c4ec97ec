"""Every option of the model, once, for ``--arch`` command lines and Hydra configs alike.

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
    """What an option decides."""

    MODEL = "which model it is: a checkpoint can only be used with the value it was trained with"
    TRAINING = "how the model is trained or initialized: a finetuning chooses for itself"
    EXECUTION = "how the model is computed: the function is the same to rounding, so it may change during a run"


def _option(default: Any, text: str, role: Role = Role.MODEL) -> Any:
    return field(default=default, metadata={"help": text, "role": role})


@dataclass
class LinformerRobertaConfig(FairseqDataclass):
    """Options of ``linformer_roberta``; RoBERTa's own first, those that only Linformer has after them.

    A size left at None is the architecture's (``_name`` or ``--arch``), that of the base model if that has none.
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
        "n, the longest input in tokens; E and F have n columns (default: the task's tokens_per_sample or "
        "max_positions)",
    )
    load_checkpoint_heads: bool = _option(
        False, "register and load the classification heads of a checkpoint", Role.TRAINING
    )
    untie_weights_roberta: bool = _option(False, "do not tie the output layer to the token embeddings")
    encoder_layerdrop: float = _option(0.0, "probability of leaving out a layer in training (LayerDrop)", Role.TRAINING)
    encoder_layers_to_keep: Optional[str] = _option(
        None, "which layers to keep when pruning, as a comma-separated list; a list of k has one entry per kept layer"
    )
    quant_noise_pq: float = _option(
        0.0,
        "quantisation noise of the linear layers in training (not with sharing=none); E and F get none",
        Role.TRAINING,
    )
    quant_noise_pq_block_size: int = _option(8, "block size of the quantisation noise", Role.TRAINING)
    quant_noise_scalar: float = _option(
        0.0, "scalar quantisation noise in training (not with sharing=none)", Role.TRAINING
    )
    spectral_norm_classification_head: bool = _option(
        False, "spectral normalisation of the classification heads", Role.TRAINING
    )
    checkpoint_activations: bool = _option(
        False,
        "compute the activations of each layer again in the backward pass, in blocks of positions, instead of keeping "
        "them; keys and values of the projected rows are kept",
        Role.EXECUTION,
    )
    offload_activations: bool = _option(
        False,
        "keep each layer's input in host memory, and compute the layer again as a whole; implies "
        "checkpoint_activations",
        Role.EXECUTION,
    )
    min_params_to_wrap: int = _option(
        DEFAULT_MIN_PARAMS_TO_WRAP,
        "fewest parameters of a layer that fully sharded data parallel wraps on its own",
        Role.EXECUTION,
    )

    projected_dim: Any = _option(
        128,
        "k, the rows that keys and values are projected to: one integer (128); a list, one k per layer ([128,64]); "
        "or a list of lists, one k per layer and head ([[128,64],[64,32]])",
    )
    sharing: ChoiceEnum(SHARINGS) = _option(
        "layerwise",
        "which projections are the same: none (each head has its own E and F), headwise (the heads of a layer share "
        "E and share F), key_value (one E = F per layer), layerwise (one E = F for all layers)",
    )
    projection: ChoiceEnum(PROJECTIONS) = _option(
        "convolution",
        "how n positions become k rows: linear (learned matrices, as in the paper's experiments and in fairseq's "
        "example), mean_pool or max_pool (windows of ceil(n/k) positions, no parameters), convolution (depthwise, "
        "kernel = stride = ceil(n/k)); windows can be fewer than k where k does not divide n; max_pool and convolution "
        "act before W_k and W_v, convolution with sharing=none after them",
    )
    projection_init: Optional[ChoiceEnum(INITIALISATIONS)] = _option(
        None,
        "what E and F start from: xavier (gain 1/sqrt(2)), normal (std 0.02), jl (variance 1/k), window_means (row "
        "i is the mean of the i-th of k windows; kernels 1/window) "
        "(default: window_means; with projection=linear xavier, or jl if freeze_projection)",
        Role.TRAINING,
    )
    projection_step: float = _option(
        1.0, "how far an update moves E and F, relative to the learning rate (with Adam and optimizers like it)"
    )
    row_weights: Optional[ChoiceEnum(ROW_WEIGHTS)] = _option(
        None,
        "what the weights of a projected row sum to over the tokens: free (anything, as in the paper), affine (one, at "
        "any length; for a convolution in each window) (default: affine with projection=convolution, else free)",
    )
    short_inputs: Optional[ChoiceEnum(SHORT_INPUTS)] = _option(
        None,
        "which of E's n columns inputs of T < n tokens use: first_columns (T of them), stretch (all, laid over the "
        "tokens); windows of pooling and convolution are ceil(n/k) positions, with stretch ceil(T/k) "
        "(default: first_columns with projection=linear, else stretch)",
    )
    attention_start: Optional[ChoiceEnum(ATTENTION_STARTS)] = _option(
        None,
        "what attention looks at before it has learned anything: random (everything alike, RoBERTa's start), "
        "neighbours (half of the heads at near positions: sinusoids as position embeddings, W_k = W_q) "
        "(default: random with projection=linear, else neighbours)",
        Role.TRAINING,
    )
    freeze_projection: bool = _option(False, "keep E and F as they were drawn instead of training them")
    compile_encoder: bool = _option(
        False,
        "run the encoder's layers through torch.compile; the first steps take a minute or so longer",
        Role.EXECUTION,
    )
    pad_vocabulary: bool = _option(
        False,
        "compute the output layer with the vocabulary padded to a multiple of 8, which suits the tensor cores of GPUs; "
        "logits and checkpoints are the same as without it",
        Role.EXECUTION,
    )


DEFAULTS: dict[str, Any] = {
    option.name: option.default for option in fields(LinformerRobertaConfig) if option.name != "_name"
}
"""What each option is where nobody says otherwise; None where the architecture, the task or the projection says it."""

OPTIONS_OF_LINFORMER = tuple(DEFAULTS)[tuple(DEFAULTS).index("projected_dim") :]
"""Names of the options that fairseq's RoBERTa does not have."""


def with_role(*roles: Role) -> frozenset[str]:
    """The names of the options that decide one of these things."""
    return frozenset(option.name for option in fields(LinformerRobertaConfig) if option.metadata.get("role") in roles)

"""Completes the options that a user gave with defaults, and rejects contradictions."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import fields
from typing import Any

from omegaconf import OmegaConf

from linformer_fairseq.core import LinformerSettings, projection_defaults

from .architectures import BASE, fill
from .config import DEFAULTS
from .ranges import RANGES_OF_MODEL


def resolve_options(cfg: Any, task: Any) -> Namespace:
    """Fills in unset options from the base architecture, the defaults, or the task.

    Args:
        cfg: a Namespace (from ``--arch``, or made by a program), a dataclass or a DictConfig (from Hydra).
        task: fairseq's task; its ``tokens_per_sample`` or ``max_positions`` is the default of n.

    Returns:
        A Namespace with all options.

    Raises:
        ValueError: n is not known, the task's sequences are longer than n, or options contradict each other.
    """
    plain: Any
    if isinstance(cfg, Namespace):
        plain = vars(cfg)
    else:
        plain = OmegaConf.to_container(OmegaConf.create(cfg), resolve=True, enum_to_str=True)
    args = Namespace(**plain)
    fill_defaults(args)
    if args.offload_activations:
        args.checkpoint_activations = True
    # Tasks of the time before dataclasses have a Namespace as args, and no cfg.
    tokens_per_sample = getattr(getattr(task, "cfg", None) or getattr(task, "args", None), "tokens_per_sample", None)
    # In the same order as in fairseq's RoBERTa.
    fill(args, {"max_positions": getattr(args, "tokens_per_sample", None) or tokens_per_sample or task.max_positions()})
    if args.max_positions is None:
        raise ValueError("max_positions (n) is not set and the task has no length to take: set model.max_positions")
    if tokens_per_sample is not None and tokens_per_sample > args.max_positions:
        raise ValueError(
            f"task.tokens_per_sample is {tokens_per_sample}, but model.max_positions (n) is {args.max_positions}: "
            "blocks would not fit; raise max_positions or lower tokens_per_sample"
        )
    return args


def fill_defaults(args: Namespace) -> None:
    """Sets every option that is missing or None, except ``max_positions``, whose default comes from the task.

    Raises:
        ValueError: ``projection`` is not a known projection.
    """
    fill(args, BASE)
    fill(args, DEFAULTS)
    fill(args, projection_defaults(args.projection, args.freeze_projection))
    # The paper's model differs from RoBERTa only in its attention, so it is initialized like RoBERTa.
    fill(args, {"attention_start": "random" if args.projection == "linear" else "neighbours"})


def attention_settings(args: Namespace) -> LinformerSettings:
    """The settings of the attention.

    Raises:
        ValueError: as in `LinformerSettings`; a value is out of range; quantization noise in a mode that uses slices of
            W_k and W_v, which its hooks on whole layers do not affect, with recomputed activations, or of scalars,
            which fairseq cannot apply; or spectral normalization of a head, which fairseq saves and cannot load.
    """
    kept = args.encoder_layers_to_keep
    if kept and not all(part.strip().isdigit() for part in kept.split(",")):
        raise ValueError(f"encoder_layers_to_keep={kept}: expected numbers of layers, from 0, such as 0,2,4")
    _check_ranges(args)
    _check_noise(args)
    if args.spectral_norm_classification_head:
        raise ValueError(
            "spectral_norm_classification_head=True: fairseq cannot load the heads that it saves with this option; "
            "leave it out, or set it to False for a checkpoint without heads"
        )
    sizes = {
        "embed_dim": args.encoder_embed_dim,
        "num_heads": args.encoder_attention_heads,
        "num_layers": len(kept.split(",")) if kept else args.encoder_layers,
    }
    same_name = {setting.name for setting in fields(LinformerSettings) if setting.init} - sizes.keys()
    settings = LinformerSettings(**sizes, **{name: getattr(args, name) for name in same_name})
    sliced = not settings.one_dim_per_layer or (settings.sharing == "none" and not settings.is_pooling)
    if sliced and args.quant_noise_pq:
        raise ValueError(
            f"quant_noise_pq={args.quant_noise_pq} does not work with sharing={settings.sharing} and "
            f"projected_dim={settings.projected_dim}: heads use slices of W_k and W_v, which quantization noise "
            "does not reach; use another sharing with one k per layer, or quant_noise_pq=0"
        )
    return settings


def _check_ranges(args: Namespace) -> None:
    """Refuse what fairseq accepts, and fails at in training or applies as it is."""
    for name, allowed in RANGES_OF_MODEL.items():
        value = getattr(args, name, None)
        if value is not None and not allowed.has(value):
            raise ValueError(f"{name}={value}: expected {allowed}")


def _check_noise(args: Namespace) -> None:
    noise, block = args.quant_noise_pq, args.quant_noise_pq_block_size
    if args.quant_noise_scalar:
        raise ValueError(
            f"quant_noise_scalar={args.quant_noise_scalar}: fairseq cannot apply it to the embeddings of a RoBERTa; "
            "leave it out, or use quant_noise_pq"
        )
    if not noise:
        return
    if args.checkpoint_activations or args.offload_activations:
        raise ValueError(
            f"quant_noise_pq={noise} with checkpoint_activations or offload_activations: fairseq adds the noise to the "
            "weights in each call of a linear layer, and these call it again in the backward pass; use one of the two"
        )
    for name in ("encoder_embed_dim", "encoder_ffn_embed_dim"):
        if getattr(args, name) % block:
            raise ValueError(f"quant_noise_pq_block_size={block} does not divide {name}={getattr(args, name)}")

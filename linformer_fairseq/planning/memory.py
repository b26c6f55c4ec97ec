"""Estimate of the memory for training on one device.

State is counted as in fairseq. With fp16 and bf16, its FP16Optimizer has fp32 copies of parameters and gradients in
addition to those of the model; Adam's two moments are always fp32. Activations are the tensors of a layer that the
backward pass needs, as if dropout were on. On a CPU (4 and 6 layers, width 256 and 512, n = 512), the estimate was
within a fifth of the measured peak.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.planning.sizes import Sizes

GIB = 2**30
ADAM_MOMENTS = 2
# Memory of a process in addition to its tensors: the program itself; on a GPU, the CUDA context, cuBLAS and cuDNN.
_PROGRAM = GIB


@dataclass(frozen=True)
class Memory:
    """Bytes on one device; ``device`` is its total memory."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    program: float
    device: float
    device_name: str

    @property
    def total(self) -> float:
        """Sum of the estimates."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.program

    @property
    def fits(self) -> bool:
        """Whether a tenth of the device stays free, for fragmentation."""
        return self.total <= 0.9 * self.device


def memory_of(config: DictConfig, sizes: Sizes, batch: float, length: float, masked: float) -> Memory:
    """Memory of one device.

    Args:
        config: of the run.
        sizes: of its model.
        batch: sequences in a batch on the device.
        length: positions of each.
        masked: positions of each for the masked-language-model head.
    """
    count, half = sizes.parameters, is_half(config)
    width = 2 if half else 4
    # With several processes, the buckets of the gradient reducer are as large as the gradients.
    copies = 2 if config.distributed_training.distributed_world_size > 1 else 1
    master = 8 * count if half and not is_memory_efficient(config) else 0
    on_cpu = bool(config.common.cpu)
    sequence = _activations(sizes, length, masked, width, on_cpu)
    device, name = _device(config)
    averages = (width + 4 * config.ema.ema_fp32) * count if config.ema.store_ema else 0
    return Memory(
        parameters=float(width * (count + sizes.frozen) + averages),
        gradients=float(width * count * copies),
        optimizer=float(master + 4 * ADAM_MOMENTS * count),
        # The optimizer step comes after the backward pass and needs temporary tensors as large as the fp32 parameters.
        activations=max(batch * sequence, 4.0 * count),
        program=float(_PROGRAM),
        device=device,
        device_name=name,
    )


def size_text(count: float) -> str:
    """A number of bytes as text, in MiB below 1 GiB."""
    return f"{count / GIB:,.1f} GiB" if count >= GIB else f"{count / 2**20:,.0f} MiB"


def is_half(config: DictConfig) -> bool:
    """Whether the model computes in fp16 or bf16."""
    common = config.common
    return bool(common.fp16 or common.bf16 or common.memory_efficient_fp16 or common.memory_efficient_bf16)


def is_memory_efficient(config: DictConfig) -> bool:
    """Whether it does so without float32 copies of the weights."""
    return bool(config.common.memory_efficient_fp16 or config.common.memory_efficient_bf16)


def _activations(sizes: Sizes, length: float, masked: float, width: int, on_cpu: bool) -> float:
    """Bytes that are stored for the backward pass of one sequence; ``width``: bytes of an element."""
    c, options = sizes.width, sizes.options
    mask = width if on_cpu else 1  # on a CPU, torch stores dropout masks as floating-point numbers
    dropouts = 2 * mask * (options.dropout > 0)
    # Inputs of q_proj, q itself, the heads' outputs before and after they are joined, and the inputs of the two layer
    # norms and of fc1; between fc1 and fc2, the input of gelu (of which fairseq's own keeps an fp32 copy) and of fc2.
    gelu = 4 if sizes.settings is None else width
    layer = length * (c * (7 * width + dropouts) + sizes.ffn * (gelu + width))
    if sizes.settings is None:
        rows, keys_values = length, 2 * length
    else:
        rows = max(max(dims) for dims in sizes.settings.dims)
        # X with zeros at padding, E X (or W X of all positions, if W is applied first), and the keys and values.
        pools = sizes.settings.is_pooling and sizes.settings.one_dim_per_layer  # whatever the sharing is
        projected = rows if pools else {"none": 2 * length, "headwise": 2 * rows}.get(sizes.settings.sharing, rows)
        keys_values = length + projected + 2 * rows
    layer += width * keys_values * c
    if on_cpu and options.attention_dropout > 0:
        # Without a fused kernel, P is stored in fp32: after the softmax, its dropout mask, and after dropout.
        layer += 3 * 4 * sizes.heads * length * rows
    # One more, for temporary tensors of a layer's backward pass.
    layers = (sizes.layers + 1) * layer
    if getattr(options, "checkpoint_activations", False):
        # The input of each layer, and in a Linformer's the tensors up to the projected keys and values, the input of
        # one of the layer norms, and the last dropout's mask.
        kept = width * length
        if sizes.settings is not None:
            kept = width * (keys_values + length) + mask * length * (options.dropout > 0)
        offloads = getattr(options, "offload_activations", False) and not on_cpu
        layers = (0 if offloads else sizes.layers * kept * c) + 2 * layer
    # Logits, their fp32 log-probabilities, and the gradients of both.
    head = 0.0 if sizes.classes else masked * sizes.vocabulary * (2 * width + 8)
    return layers + head


def _device(config: DictConfig) -> tuple[float, str]:
    """Memory of one device in bytes, and its description."""
    if config.common.cpu:
        machines = OmegaConf.select(config, "run.slurm.nodes") or 1
        processes = math.ceil(config.distributed_training.distributed_world_size / machines)
        each = f" for each of {processes} processes" if processes > 1 else ""
        return _machine_memory() / processes, f"of this machine's memory{each}"
    if torch.cuda.is_available():
        found = torch.cuda.get_device_properties(0)
        return float(found.total_memory), f"of {found.name}"
    if not 0 < config.run.plan.device_gib < math.inf:
        raise ValueError(f"run.plan.device_gib={config.run.plan.device_gib}: expected a positive number, not inf")
    return config.run.plan.device_gib * GIB, "of a device (run.plan.device_gib)"


def _machine_memory() -> float:
    """Physical memory, or the limit of a container."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    text = limit.read_text().strip() if limit.is_file() else "max"
    return float(min(physical, int(text)) if text.isdecimal() else physical)

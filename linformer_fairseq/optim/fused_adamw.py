"""``--optimizer fused_adamw``: fairseq's Adam, computed by torch's fused AdamW.

The updates and the saved state are those of ``--optimizer adam``, so that each can resume from the other's checkpoints;
a step accesses each tensor in memory once, fairseq's Adam once for every operation.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from fairseq.optim.adam import Adam, FairseqAdam
from omegaconf import II
from torch import Tensor
from torch.optim.adamw import adamw

_Member = tuple[Tensor, Tensor, dict[str, Any]]  # a parameter, its gradient and its state


class FusedAdamW(Adam):
    """fairseq's ``Adam`` (without ``amsgrad``) with a fused step; state and parameter groups are the same."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not (isinstance(betas, list | tuple) and len(betas) == 2 and all(0 <= beta < 1 for beta in betas)):
            raise ValueError(f"adam_betas={betas}: expected two numbers from 0 to below 1, such as (0.9, 0.98)")
        if not eps >= 0:
            raise ValueError(f"adam_eps={eps}: expected at least 0, such as 1e-6")
        super().__init__(params, lr=lr, betas=tuple(map(float, betas)), eps=eps, weight_decay=weight_decay)
        half = {p.dtype for group in self.param_groups for p in group["params"]} & {torch.float16, torch.bfloat16}
        if half:
            raise ValueError(
                f"fused_adamw got {half.pop()} parameters and would keep its averages in that type; it needs float32: "
                "leave --memory-efficient-fp16 and --memory-efficient-bf16 out (--fp16 and --bf16 alone keep float32 "
                "copies of the parameters), or use --optimizer adam"
            )

    @property
    def supports_memory_efficient_fp16(self) -> bool:
        """False: the fused step has one dtype for all tensors."""
        return False

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have gradients; returns what ``closure`` (which computes the loss) returns."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            # Parameters without a gradient in some update have made fewer steps, and a fused step has one eps.
            together: dict[tuple[torch.device, int], list[_Member]] = defaultdict(list)
            for p in (p for p in group["params"] if p.grad is not None):
                if p.grad.is_sparse:
                    raise ValueError("fused_adamw got a sparse gradient: turn sparse embeddings off")
                state = self.state[p]
                state["step"] = int(state.get("step", 0)) + 1  # not a tensor, as in checkpoints of fairseq's Adam
                for name in ("exp_avg", "exp_avg_sq"):
                    # After loading, its device, dtype or layout may differ, which the kernel does not check.
                    state[name] = state[name].to(p).contiguous() if name in state else p.new_zeros(p.shape)
                together[p.device, state["step"]].append((p, p.grad, state))
            for (device, step), members in together.items():
                self._update(group, device, step, members)
        return loss

    @staticmethod
    def _update(group: dict[str, Any], device: torch.device, step: int, members: list[_Member]) -> None:
        beta1, beta2 = group["betas"]
        params, gradients, states = zip(*members, strict=True)
        updated = [p.contiguous() for p in params]  # the parameter itself if it is contiguous
        adamw(
            updated,
            [gradient.contiguous() for gradient in gradients],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            list(torch.full((len(members),), step - 1.0, device=device).unbind()),
            fused=True,
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            # torch adds eps to the root of the bias-corrected second moment, fairseq to that of the raw one
            eps=group["eps"] / math.sqrt(1 - beta2**step),
            maximize=False,
        )
        for p, new in zip(params, updated, strict=True):
            if new is not p:
                p.copy_(new)


@dataclass
class FusedAdamWConfig(FairseqDataclass):
    """Options of ``fused_adamw``, named as those of fairseq's ``adam``."""

    adam_betas: Any = field(default=(0.9, 0.999), metadata={"help": "betas for Adam optimizer"})
    adam_eps: float = field(default=1e-8, metadata={"help": "epsilon for Adam optimizer"})
    weight_decay: float = field(default=0.0, metadata={"help": "weight decay"})
    lr: list[float] = field(default=II("optimization.lr"))


@register_optimizer("fused_adamw", dataclass=FusedAdamWConfig)
class FairseqFusedAdamW(FairseqAdam):
    """fairseq's ``adam`` with ``FusedAdamW``."""

    def __init__(self, cfg: FusedAdamWConfig, params: Iterable[Tensor]) -> None:
        FairseqOptimizer.__init__(self, cfg)  # FairseqAdam's own would choose between its implementations
        self._optimizer = FusedAdamW(params, **self.optimizer_config)


# fairseq writes this name to checkpoints and refuses to resume if it differs.
FairseqFusedAdamW.__name__ = FairseqAdam.__name__

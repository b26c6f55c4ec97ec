"""`linformer benchmark optimizer`: time of a step of fairseq's Adam and of `fused_adamw`."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

import torch

from benchmarks.efficiency import sizes
from benchmarks.efficiency.checks import say
from benchmarks.efficiency.machine import device_of, provenance, threads
from benchmarks.efficiency.models.registry import check_names
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.store import Store
from benchmarks.efficiency.timing import all_in_rounds, figures, seconds_of, times_faster
from benchmarks.measuring import RESULTS, said
from linformer_fairseq.files.markdown import markdown_table


def run(args: argparse.Namespace) -> int:
    """Measure steps in rounds; returns the exit status.

    Raises:
        UserError: something that the user can fix.
    """
    check_names(["roberta_fairseq"])
    device, size = device_of(args.device), sizes.sizes_of(args)
    used = threads(args.threads)
    parameters = _parameters(size, device)
    settings = {"rounds": args.rounds, "device": str(device), "threads": used, **vars(size)}
    settings["parameters"] = sum(one.numel() for one in parameters)
    out = args.out or RESULTS / f"optimizer_{device.type}_float32.json"
    store = Store(out, "optimizer", settings, provenance(device, "float32"))
    steps = {name: partial(_timed, one, device) for name, one in _optimizers(parameters).items()}
    taken = all_in_rounds(steps, args.rounds)
    for name, values in taken.items():
        found, ratio = figures(values), times_faster(taken["adam"], values)[1]
        store.add({"optimizer": name, **found, "times_faster": ratio})
        say(f"{name}: {1e3 * found['seconds']:,.0f} ms a step, {ratio:.2f} times as fast as adam")
    store.write()
    say(f"written to {store.path}")
    return 0


def _parameters(size: Sizes, device: torch.device) -> list[torch.nn.Parameter]:
    from benchmarks.efficiency.models import fairseq_own

    parameters = list(fairseq_own.full_model(size, 512).to(device).parameters())
    for one in parameters:
        one.grad = torch.randn_like(one)
    return parameters


def _optimizers(parameters: list[torch.nn.Parameter]) -> dict[str, Any]:
    """The optimizers by fairseq's names, built as by its trainer."""
    from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig

    from linformer_fairseq.optim import FairseqFusedAdamW, FusedAdamWConfig

    options: dict[str, Any] = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-6, "weight_decay": 0.01, "lr": [1e-4]}
    return {
        "adam": FairseqAdam(FairseqAdamConfig(**options), parameters),
        "fused_adamw": FairseqFusedAdamW(FusedAdamWConfig(**options), parameters),
    }


def _timed(optimizer: Any, device: torch.device) -> float:
    """Seconds of a step that follows an untimed one."""
    optimizer.step()
    return seconds_of(optimizer.step, device)


def table(result: dict[str, Any]) -> list[str]:
    """A row for each optimizer."""
    rows = [
        [
            f"`{cell['optimizer']}`",
            f"{1e3 * cell['seconds']:,.0f}",
            f"{1e3 * cell['seconds_q1']:,.0f} to {1e3 * cell['seconds_q3']:,.0f}",
            f"{cell['times_faster']:.2f}",
        ]
        for cell in result["cells"]
    ]
    settings = result["settings"]
    return [
        f"A step on {settings['parameters']:,} float32 parameters, {settings['rounds']} rounds, threads: "
        f"{settings['threads']}.",
        "",
        *markdown_table([["optimizer", "ms", "quartiles", "times as fast as `adam`"], *rows]),
        "",
        f"({said(result['provenance'])})",
    ]

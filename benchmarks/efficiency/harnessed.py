"""A model as the benchmarks build and measure it, with the protocol of `documented`; started by `selfcheck`."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from benchmarks.efficiency import memory
from benchmarks.efficiency.group import Input
from benchmarks.efficiency.machine import DTYPES
from benchmarks.efficiency.models.build import build
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.timing import seconds_of

FUSED = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v)}
"""Operations that torch's counter does not know, and how they are counted."""


def main() -> None:
    """Run the program; answers go to standard output, the output of libraries to standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    case: dict[str, Any] = json.loads(sys.argv[1])
    torch.set_num_threads(case["threads"])
    device = torch.device(case["device"])
    sizes = Sizes(case["layers"], case["width"], case["ffn"], case["heads"], case["vocabulary"])
    given = Input(case["n"], case["length"], len(case["lengths"]), case["padded"])
    tokens = given.tokens(len(case["lengths"]), sizes.vocabulary).to(device)
    model = build(case["model"], sizes, given.n, case["k"], DTYPES[case["dtype"]], device)
    call = partial(model, tokens)
    print("READY", file=answers)
    with torch.no_grad():
        for line in map(str.strip, sys.stdin):
            if line == "pass":
                call()
                print(seconds_of(call, device), file=answers)
            elif line == "operations":
                with FlopCounterMode(display=False, custom_mapping=FUSED) as counter:
                    call()
                print(counter.get_total_flops(), file=answers)
            else:
                print(memory.peak_of(call, device) or 0, file=answers)


if __name__ == "__main__":
    main()

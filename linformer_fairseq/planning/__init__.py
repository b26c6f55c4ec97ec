"""The cost of a run, from its config: parameters, FLOPs, tokens, hours, memory, disk."""

from linformer_fairseq.planning.flops import Flops, flops_of
from linformer_fairseq.planning.plan import Plan, plan
from linformer_fairseq.planning.report import report
from linformer_fairseq.planning.sizes import Sizes, sizes_of

__all__ = ["Flops", "Plan", "Sizes", "flops_of", "plan", "report", "sizes_of"]

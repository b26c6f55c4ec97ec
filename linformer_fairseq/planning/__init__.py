"""The cost of a run, from its config: parameters, FLOPs, tokens, hours, memory, disk."""

from linformer_fairseq.planning.plan import plan
from linformer_fairseq.planning.report import report

__all__ = ["plan", "report"]

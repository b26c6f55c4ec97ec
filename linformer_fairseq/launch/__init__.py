"""A run from its config: composed, checked, started on the right processes, and on record in its folder."""

from linformer_fairseq.launch.complete import complete
from linformer_fairseq.launch.compose import STAGES, compose, config_dir, jobs, resolved

__all__ = ["STAGES", "complete", "compose", "config_dir", "jobs", "resolved"]

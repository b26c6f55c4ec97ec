"""A run from its config: composed, checked, started on the right processes, and on record in its folder."""

from linformer_fairseq.launch.complete import complete
from linformer_fairseq.launch.compose import STAGES, compose, config_dir, jobs, resolved
from linformer_fairseq.launch.errors import LaunchError

__all__ = ["STAGES", "LaunchError", "complete", "compose", "config_dir", "jobs", "resolved"]

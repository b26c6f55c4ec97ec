"""Composes and checks the config of a run, starts its processes, and records the run in its folder."""

from linformer_fairseq.launch.complete import complete
from linformer_fairseq.launch.compose import compose, config_dir, jobs, resolved

__all__ = ["complete", "compose", "config_dir", "jobs", "resolved"]

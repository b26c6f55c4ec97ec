"""Optimizers for fairseq; importing this package registers ``fused_adamw``."""

from .fused_adamw import FairseqFusedAdamW, FusedAdamW, FusedAdamWConfig

__all__ = ["FairseqFusedAdamW", "FusedAdamW", "FusedAdamWConfig"]

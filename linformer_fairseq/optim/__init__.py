"""Optimizers for fairseq; importing this package registers ``fused_adamw``."""

from .fused_adamw import FairseqFusedAdamW, FusedAdamWConfig

__all__ = ["FairseqFusedAdamW", "FusedAdamWConfig"]

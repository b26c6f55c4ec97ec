"""fairseq's encoder with Linformer's attention in it: wiring only, the mathematics is in ``core``."""

from .encoder import LinformerEncoder

__all__ = ["LinformerEncoder"]

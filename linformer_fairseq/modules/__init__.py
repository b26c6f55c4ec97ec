"""fairseq's encoder with Linformer's attention in it: wiring only, the mathematics is in ``core``."""

from .encoder import LinformerEncoder
from .vocabulary import LMHead, TokenEmbedding

__all__ = ["LMHead", "LinformerEncoder", "TokenEmbedding"]

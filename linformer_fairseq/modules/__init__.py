"""fairseq's encoder with Linformer's attention; the computations are in ``core``."""

from .attention_start import ATTENTION_STARTS, look_at_neighbours
from .encoder import LinformerEncoder
from .vocabulary import LMHead, TokenEmbedding

__all__ = ["ATTENTION_STARTS", "LMHead", "LinformerEncoder", "TokenEmbedding", "look_at_neighbours"]

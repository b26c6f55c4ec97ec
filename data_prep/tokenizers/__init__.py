"""Tokenizers as fairseq sees them: text to fairseq's ids and back.

Two kinds, each a folder of files that lies beside the data afterwards: a sentencepiece model, and RoBERTa's GPT-2 BPE.
"""

from data_prep.tokenizers.loading import copy_tokenizer, load_tokenizer
from data_prep.tokenizers.tokenizer import Ids, Tokenizer

__all__ = ["Ids", "Tokenizer", "copy_tokenizer", "load_tokenizer"]

"""Tokenizers: text to fairseq's ids and back.

There are two kinds: a sentencepiece model, and RoBERTa's GPT-2 BPE. The files of a tokenizer are copied to the data
folder.
"""

from data_prep.tokenizers.loading import copy_tokenizer, load_tokenizer, tokenizer_folder
from data_prep.tokenizers.tokenizer import Ids, Tokenizer

__all__ = ["Ids", "Tokenizer", "copy_tokenizer", "load_tokenizer", "tokenizer_folder"]

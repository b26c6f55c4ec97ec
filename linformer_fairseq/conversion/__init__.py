"""Converts a pretrained dense RoBERTa, fairseq's or Hugging Face's, to a Linformer.

* `fairseq_source` and `huggingface_source` read a RoBERTa: its weights under fairseq's names, options and tokenizer;
* `byte_level_bpe` makes Hugging Face's tokenizer one of fairseq, `source` is what both readers return;
* `starts` are the choices of E and F to begin with, `fitting` is the one that looks at text, `text` cuts it into
  blocks;
* `building` puts the weights into a Linformer, `task` is the task it is built for, `comparison` says how near it is to
  the RoBERTa;
* `convert` runs all of this, and makes the folder of the result.
"""

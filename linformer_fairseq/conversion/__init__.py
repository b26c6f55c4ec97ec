"""Converts a pretrained dense RoBERTa, fairseq's or Hugging Face's, to a Linformer.

* `fairseq_source` and `huggingface_source` read a RoBERTa: its weights under fairseq's names, options and tokenizer;
* `starts` are the choices of E and F to begin with, `fitting` is the one that looks at text;
* `building` puts the weights into a Linformer, `comparison` says how near it is to the RoBERTa;
* `writing` makes the folder of the result.
"""

"""Predictions for streams of texts: reading, fitting to n, batching by length, writing; without torch and fairseq.

The hub interface (`linformer_fairseq.models`) computes; `linformer predict`, `embed` and `fill-mask` read and write.
"""

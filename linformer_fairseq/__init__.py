"""Linformer for fairseq."""

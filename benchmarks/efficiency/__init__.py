"""Time and memory of encoders, measured as in the paper; run with `linformer benchmark`."""

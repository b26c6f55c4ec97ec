"""Time and memory of encoders, as the paper measures them; `linformer benchmark` is the way in."""

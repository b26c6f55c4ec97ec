"""Time and memory of encoders, as the paper measures them; `python -m benchmarks` is the way in."""

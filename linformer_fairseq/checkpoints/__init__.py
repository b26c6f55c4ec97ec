"""Checkpoint files: written, checked, loaded, repaired and chosen by plain functions, without fairseq.

* `checksum` appends a SHA-256 to a file, and compares it;
* `writing` writes and copies files so that each is at every moment the old one or the whole new one;
* `allowed_globals` is the list of what the pickle in a checkpoint may name;
* `reading` loads a checkpoint, executing nothing of it;
* `released_file` is the format of a model to hand on, and `released_folder` the folder that it comes in;
* `folder` examines the checkpoints of a run and chooses the one to go on from.

`linformer_fairseq.patches` makes fairseq use them.
"""

"""Functions that write, check, load, repair and choose checkpoint files, without fairseq.

* `checksum` appends a SHA-256 to a file, and verifies it;
* `writing` writes and copies files atomically;
* `allowed_globals` is the allow-list for the pickle in a checkpoint;
* `reading` loads a checkpoint without executing code from it;
* `released_file` is the file format of a released model, `released_folder` its folder, and `releasing` makes it;
* `dictionaries` checks that data have the dictionaries that a checkpoint was trained with;
* `folder` examines the checkpoints of a run and chooses the one to resume from.

`linformer_fairseq.patches` makes fairseq use them.
"""

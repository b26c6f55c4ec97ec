"""What all programs of data_prep stand on: errors, files, steps that can be interrupted, workers, progress."""

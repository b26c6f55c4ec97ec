"""What all programs of data_prep stand on: the frame of a program, steps that can be interrupted, splits, workers."""

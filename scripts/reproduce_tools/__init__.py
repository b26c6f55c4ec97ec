"""What ``scripts/reproduce_small.sh`` writes at its end: the page about its results."""

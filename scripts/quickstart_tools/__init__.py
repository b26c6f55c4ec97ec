"""What ``scripts/quickstart.sh`` shows: progress while it runs, and the report at the end."""

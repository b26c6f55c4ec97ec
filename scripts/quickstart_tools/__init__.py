"""Output of ``scripts/quickstart.sh``: progress while it runs, and the report at the end."""

"""The text that every Python brings along: what the quickstart learns from without a download."""

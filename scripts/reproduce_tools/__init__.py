"""Programs for reproducing results: a control, a task, perplexity by length, and the page about the small results."""

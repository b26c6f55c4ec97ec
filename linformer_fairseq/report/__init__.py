"""One HTML page on all results: the paper's tables and figures beside ours."""

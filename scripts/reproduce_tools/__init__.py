"""Programs for reproducing results: controls, a task, text to pretrain on, a model to convert, many runs beside each
other, and the page about the small results.
"""

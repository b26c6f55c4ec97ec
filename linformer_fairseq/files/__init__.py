"""File formats and file handling, each thing once: for this package, for ``data_prep`` and for ``benchmarks``.

Needs numpy (`sentencepiece_model` sentencepiece, `parquet` pyarrow, too), and nothing else of the project.
"""

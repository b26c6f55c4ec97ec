"""Makes rows from run folders, and the paper's Table 2 and Figure 3 from rows, without torch and fairseq."""

from linformer_fairseq.results.collect import collect
from linformer_fairseq.results.rows import Row
from linformer_fairseq.results.store import merge_rows, read_rows
from linformer_fairseq.results.training_log import TrainingLog, read_log

__all__ = [
    "Row",
    "TrainingLog",
    "collect",
    "merge_rows",
    "read_log",
    "read_rows",
]

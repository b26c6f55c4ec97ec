"""A checkpoint that was trained with another dictionary of the same size is loaded with a warning.

What fairseq does: it loads the checkpoint, and every token means another word; the run only looks as if it learned
badly. Dictionaries of other sizes are an error.

The patch: the dictionary of the data is compared with that of the checkpoint's training (`checkpoints.dictionaries`).
It is a warning, because the folder of that training may have other data by now; for runs of ``linformer``, whose
run.json says what it had, it is an error before the run starts.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairseq.trainer import Trainer

from linformer_fairseq.checkpoints.dictionaries import check_data
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.training.run_report import LOG


def _comparing(load_checkpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load_checkpoint)
    def load(self: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
        extra_state = load_checkpoint(self, filename, *args, **kwargs)
        data = getattr(self.task.cfg, "data", None)
        if self.is_data_parallel_master and data and Path(filename).is_file():
            try:
                check_data(Path(filename), Path(data.split(":")[0]))
            except UserError as error:
                LOG.warning(str(error))
        return extra_state

    return load


REPLACED = ((Trainer, "load_checkpoint", _comparing),)

"""Lines of the log file."""

import logging
from pathlib import Path

from fairseq.logging import progress_bar

import linformer_fairseq.models  # noqa: F401 (installs the patches)


def test_a_file_has_one_handler_however_many_epochs_there_are(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    before = list(progress_bar.logger.handlers)
    for _ in range(3):
        progress_bar.progress_bar([], log_format="json", log_file=str(path))
    added = [handler for handler in progress_bar.logger.handlers if handler not in before]
    for handler in added:
        progress_bar.logger.removeHandler(handler)
        handler.close()
    assert [getattr(handler, "baseFilename", None) for handler in added] == [str(path)]
    assert all(isinstance(handler, logging.FileHandler) for handler in added)

"""Each line is written to the log file once.

What fairseq does: every epoch and every validation adds another handler for ``--log-file`` to the same logger, so that
a line is written once for each epoch and validation before it, and the size of the file grows quadratically with the
length of the run.

The patch: only the first handler of a file is kept.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any

from fairseq.logging import progress_bar


def _one_handler_a_file(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def make_bar(*args: Any, **kwargs: Any) -> Any:
        bar = make(*args, **kwargs)
        files = set()
        for handler in list(progress_bar.logger.handlers):
            if isinstance(handler, logging.FileHandler):
                if handler.baseFilename in files:
                    progress_bar.logger.removeHandler(handler)
                    handler.close()
                files.add(handler.baseFilename)
        return bar

    return make_bar


REPLACED = ((progress_bar, "progress_bar", _one_handler_a_file),)

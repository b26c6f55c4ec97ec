"""Each line of a training stands once in its log file.

What fairseq does: every epoch and every validation adds one more handler for ``--log-file`` to the same logger, so that
a line is written as often as there were epochs and validations before it: after 100 of each, 91 copies of the last
one, and a file that grows with the square of the run's length.

The patch: of the handlers for one file the first stays.
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

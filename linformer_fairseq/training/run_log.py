"""Where a training process says what happened to it.

fairseq's ``--log-file`` gets what its own training program logs and nothing else. A logger below that program's
is heard there, on the console and by Hydra alike.
"""

import logging

LOG = logging.getLogger("fairseq_cli.train.linformer")

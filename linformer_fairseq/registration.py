"""What has to be in place before a model or a task is used: the patches of fairseq, and the optimizer's name.

``models`` and ``tasks`` import this first, whichever of them fairseq meets first.
"""

import logging

# A task of fairseq's makes the root logger say everything, where nothing has configured it; these say each step.
for _name in ("filelock", "hydra"):
    logging.getLogger(_name).setLevel(logging.INFO)

from linformer_fairseq import optim, patches  # noqa: E402, F401  after the loggers

patches.install()

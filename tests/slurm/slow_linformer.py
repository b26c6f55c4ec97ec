"""``linformer`` with a pause before each update (SECONDS_PER_UPDATE): a run that lasts long enough to be interrupted."""

import os
import sys
import time
from typing import Any

from fairseq.trainer import Trainer

from linformer_fairseq.cli import main

train_step = Trainer.train_step


def slow_train_step(*arguments: Any, **more: Any) -> Any:
    time.sleep(float(os.environ["SECONDS_PER_UPDATE"]))
    return train_step(*arguments, **more)


Trainer.train_step = slow_train_step
sys.exit(main())

"""A run that is killed 20 times and started again each time is the run that was never killed, bit for bit."""

import json
import random
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq.checkpoints.folder import State, checkpoints, examine
from linformer_fairseq.checkpoints.reading import read_checkpoint
from tests.checkpoint_files import same
from tests.forked import Forked

KILLS, UPDATES, EVERY = 20, 100, 3

# Updates take a while, so that a quick machine is not done before it is killed. Told to, the process is killed at one
# of its fsyncs: in the midst of saving a checkpoint, before or after the bytes are on the disk, or of copying it.
_PLUGIN = """
import os, signal, time
import linformer_fairseq.models
from fairseq.tasks.masked_lm import MaskedLMTask

_train_step, _fsync = MaskedLMTask.train_step, os.fsync
_left = int(os.environ.get("FSYNCS", 10**9))

def train_step(self, *args, **kwargs):
    time.sleep(0.02)
    return _train_step(self, *args, **kwargs)

def fsync(descriptor):
    global _left
    _left -= 1
    if _left == 0 and os.environ["SYNCED"] == "no":
        os.kill(os.getpid(), signal.SIGKILL)
    _fsync(descriptor)
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

MaskedLMTask.train_step, os.fsync = train_step, fsync
"""


def _updates(folder: Path) -> int:
    """Of the last checkpoint; 0 where there is none."""
    path = folder / "checkpoint_last.pt"
    return examine(path).updates or 0 if path.exists() else 0


def _logged(output: str) -> dict[int, dict[str, str]]:
    """What is logged of each update; where it was made twice, the second time."""
    found = {}
    for text in re.findall(r"\| train_inner \| (\{.*\})$", output, flags=re.MULTILINE):
        line = json.loads(text)
        found[int(line["num_updates"])] = {name: line[name] for name in ("epoch", "loss", "ppl", "lr", "gnorm", "bsz")}
    return found


class _Run:
    """One run's folder and its log, over all the times that it is started."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder, ""
        folder.mkdir()

    def wait_for_checkpoint(self, process: Forked) -> None:
        path = self.folder / "checkpoint_last.pt"
        before = path.stat().st_mtime_ns if path.exists() else 0
        while process.poll() is None and not (path.exists() and path.stat().st_mtime_ns != before):
            time.sleep(0.002)

    def check_equal(self, expected: dict[str, Any], logged: dict[int, dict[str, str]]) -> None:
        found = read_checkpoint(self.folder / "checkpoint_last.pt")
        for part in ("model", "last_optimizer_state"):
            assert same(found[part], expected[part]), part
        assert found["extra_state"]["train_iterator"] == expected["extra_state"]["train_iterator"]
        assert _logged(self.output) == logged
        assert "damaged" not in self.output


@pytest.mark.slow
def test_killed_twenty_times(
    train: Callable[..., str],
    start_fairseq: Callable[..., Forked],
    train_words: Callable[..., list[str]],
    tiny_settings: dict[str, Any],
    tmp_path: Path,
) -> None:
    plugin = tmp_path / "slow_plugin"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(_PLUGIN)
    settings = {
        **tiny_settings,
        "common.user_dir": str(plugin),
        "common.log_format": "json",
        "common.log_interval": 1,
        "dataset.num_workers": 1,
        "dataset.disable_validation": True,
        "checkpoint.save_interval_updates": EVERY,
        "checkpoint.keep_interval_updates": 2,
        "checkpoint.keep_last_epochs": 2,
        "optimization.max_update": UPDATES,
    }
    logged = _logged(train("fairseq-train", settings, tmp_path / "whole"))
    expected = read_checkpoint(tmp_path / "whole" / "checkpoint_last.pt")
    assert _updates(tmp_path / "whole") == UPDATES == len(logged)

    words = train_words("fairseq-train", settings, tmp_path / "killed")
    run = _Run(tmp_path / "killed")

    def start(**environment: str) -> Forked:
        return start_fairseq("fairseq-train", *words, cwd=run.folder, environment=environment)

    generator, kills, resumed, in_saving, number = random.Random(3), 0, 0, 0, 0
    while kills < KILLS:
        assert number < 5 * KILLS, "it ends before it can be killed"
        environment = {}
        if number % 4 == 3:  # it is killed in the midst of saving
            environment = {"FSYNCS": str(generator.randint(1, 12)), "SYNCED": generator.choice(["no", "yes"])}
        with start(**environment) as process:
            if number % 4 != 3:
                if number % 4:  # sometime between two checkpoints; otherwise anywhere from the start on
                    run.wait_for_checkpoint(process)
                time.sleep(generator.uniform(0, 0.3 if number % 4 else 4.0))
                process.kill()
            run.output += process.communicate()[0]
        killed = process.returncode == -9
        assert killed or process.returncode == 0, run.output[-4000:]
        kills += killed
        in_saving += killed and number % 4 == 3
        resumed += killed and _updates(run.folder) > 0
        number += 1
        states = {examine(path).state for path in checkpoints(run.folder)}
        assert states <= {State.SOUND}  # whenever it is killed, every checkpoint is whole
        if _updates(run.folder) == UPDATES:  # it was quicker: once more from the beginning
            run.check_equal(expected, logged)
            shutil.rmtree(run.folder)
            run = _Run(run.folder)
    assert kills == KILLS and in_saving >= 3 and resumed > KILLS // 2

    run.output += train("fairseq-train", settings, run.folder)
    run.check_equal(expected, logged)

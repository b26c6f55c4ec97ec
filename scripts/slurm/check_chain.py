"""Check the configs, data and tasks of the whole chain before submit_chain.sh queues anything.

    python scripts/slurm/check_chain.py PROCESSES GPUS [KEY=VALUE...] -- TASK=DIR... [-- KEY=VALUE...]

PROCESSES is the number of processes of the pretraining, GPUS that of GPUs on each node. The keys of the pretraining
come first, those of every finetuning last. Prints the key of the checkpoint that the finetunings will start from, then
the folders that will contain all runs, each on a line. LINFORMER_LRS and LINFORMER_SEEDS have their learning rates and
seeds.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

if missing := [name for name in ("fairseq", "hydra", "linformer_fairseq") if find_spec(name) is None]:
    sys.exit(
        f"error: {sys.executable} has no {', '.join(missing)}; run scripts/setup.sh, or name another Python in "
        "LINFORMER_PYTHON"
    )

from omegaconf import OmegaConf

from linformer_fairseq.files.dictionary import read_vocabulary, without_padding
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import compose
from linformer_fairseq.launch.application import require_own_folders
from linformer_fairseq.launch.complete import complete
from linformer_fairseq.launch.explaining import with_path
from linformer_fairseq.launch.pretrained import Pretrained, all_options
from linformer_fairseq.launch.train import check_run_folder


def check(
    processes: str, gpus: str, pretraining: Sequence[str], tasks: Sequence[str], finetuning: Sequence[str]
) -> tuple[Path, list[Path]]:
    """Compose the config of every run of the chain and check its data and folder.

    Returns:
        The checkpoint that the pretraining will write, and the folders that contain all runs: that of the pretraining,
        and those of finetunings elsewhere.

    Raises:
        UserError: one of the runs would fail.
    """
    for word in (*pretraining, *finetuning):
        if word.lstrip("+~").startswith("run_config"):
            raise UserError(f"{word}: the jobs run with run_config=srun; leave it out")
    os.environ["SLURM_NTASKS"] = processes
    words = ["run_config=srun", *pretraining]
    config = complete(compose("pretraining", words))
    pretraining_is_done = check_run_folder(config, words)
    n = config.model.get("max_positions") or config.task.tokens_per_sample
    for key in ("checkpoint.no_save", "dataset.disable_validation", "checkpoint.checkpoint_suffix"):
        if value := OmegaConf.select(config, key):
            raise UserError(
                f"{key}={value}: the pretraining would write no checkpoint_best.pt to finetune; leave it out"
            )
    checkpoint = Path(config.checkpoint.save_dir) / "checkpoint_best.pt"
    symbols = without_padding(read_vocabulary(Path(config.task.data.split(":")[0]) / "dict.txt"))
    os.environ["SLURM_NTASKS"] = "1"
    rates, seeds = (os.environ[name].split() for name in ("LINFORMER_LRS", "LINFORMER_SEEDS"))
    grid = [[f"lr={rate}", f"common.seed={seed}"] for rate in rates for seed in seeds]
    folders = [checkpoint.parent]
    model = OmegaConf.to_container(config.model, enum_to_str=True)
    options = all_options(str(config.model._name), {**model, "max_positions": n})  # type: ignore[dict-item]
    pretrained = Pretrained(checkpoint, str(config.model._name), options, n, len(symbols))
    runs = [config]
    for task, data in (word.split("=", 1) for word in tasks):
        own = ["run_config=srun", f"task={task}", f"task.data={data}", with_path("pretrained", checkpoint), *finetuning]
        configs = [complete(compose("finetuning", [*own, *keys]), pretrained) for keys in grid]
        for one in configs:
            if check_run_folder(one, own) and not pretraining_is_done:
                raise UserError(
                    f"{one.checkpoint.save_dir} holds a finished run, but the pretraining will have other weights; "
                    "give the finetunings another run.name, behind the tasks"
                )
        runs += configs
        parents = dict.fromkeys(Path(one.checkpoint.save_dir).parent for one in configs)
        folders += [one for one in parents if not any(one.is_relative_to(folder) for folder in folders)]
        if without_padding(read_vocabulary(Path(data) / "input0" / "dict.txt")) != symbols:
            raise UserError(
                f"{task}={data}: its dictionary is not that of {config.task.data}; prepare the task with the tokenizer "
                "of the pretraining data"
            )
    require_own_folders(runs)
    for name, one in (("pretraining", runs[0]), ("finetunings", runs[-1])):
        if gpus == "0" and not one.common.cpu:
            raise UserError(f"--gpus-per-node 0: common.cpu=true is missing among the keys of the {name}")
    return checkpoint, folders


def main(words: Sequence[str]) -> int:
    """Run the program; returns 0, or 1 after printing an error."""
    groups: list[list[str]] = [[]]
    for word in words[2:]:
        if word == "--":
            groups.append([])
        else:
            groups[-1].append(word)
    pretraining, tasks, finetuning = groups
    try:
        checkpoint, folders = check(words[0], words[1], pretraining, tasks, finetuning)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(with_path("pretrained", checkpoint), *folders, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Validation perplexity of a masked-LM checkpoint, and of the same model before its first update."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.dataclass.configs import DatasetConfig


@dataclass(frozen=True)
class Evaluation:
    """Perplexities on the same validation tokens with the same masks."""

    parameters: int
    before: float
    """Perplexity of the untrained model."""
    after: float
    """Perplexity of the checkpoint."""


def evaluate(checkpoint: Path) -> Evaluation:
    """Measure a checkpoint of ``--task masked_lm`` on its own validation set, on the CPU.

    The untrained model is the one that training began with: built from the checkpoint's configuration
    after the same seeding as in ``fairseq_cli.train``.
    """
    state = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    cfg = state["cfg"]
    np.random.seed(cfg.common.seed)
    utils.set_torch_seed(cfg.common.seed)
    task = tasks.setup_task(cfg.task)
    model = task.build_model(cfg.model)
    criterion = task.build_criterion(cfg.criterion)
    task.load_dataset(cfg.dataset.valid_subset, epoch=1)
    before = perplexity(task, model, criterion, cfg.dataset)
    model.load_state_dict(state["model"], strict=True, model_cfg=cfg.model)
    after = perplexity(task, model, criterion, cfg.dataset)
    return Evaluation(sum(p.numel() for p in model.parameters()), before, after)


@torch.no_grad()
def perplexity(
    task: tasks.FairseqTask,
    model: torch.nn.Module,
    criterion: torch.nn.Module,
    options: DatasetConfig,
) -> float:
    """exp of the mean loss over the masked tokens of the validation set.

    Args:
        task: with its validation set loaded.
        model: is set to evaluation mode.
        criterion: that of masked_lm.
        options: as ``dataset`` of fairseq's config.
    """
    model.eval()
    iterator = task.get_batch_iterator(
        dataset=task.dataset(options.valid_subset),
        max_sentences=options.batch_size,
        max_positions=task.max_positions(),
        # fairseq drops the last sentences if their number is not a multiple of this
        required_batch_size_multiple=options.required_batch_size_multiple,
    ).next_epoch_itr(shuffle=False, set_dataset_epoch=False)  # the masks of fairseq's own validation
    loss = targets = 0.0
    for batch in iterator:
        _, size, logged = criterion(model, batch)
        loss += float(logged["loss"])
        targets += float(size)
    return math.exp(loss / targets)

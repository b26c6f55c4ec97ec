"""Small models that have learned nothing: the one builder of their checkpoints, and of what is released of these."""

from __future__ import annotations

from pathlib import Path

import torch
from fairseq import tasks

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints.releasing import release
from tests.checkpoint_files import save
from tests.data_prep.small_tokenizers import lines, make_sentencepiece
from tests.fairseq_config import parse
from tests.prepared_task import qqp

N, K = 64, 8
"""Of all models, unless a test says otherwise."""
TEXTS = lines(30)
LONG = " ".join(TEXTS[:8])
"""More than N tokens."""
_SIZES = ["--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16"]
_SIZES += ["--encoder-attention-heads", "2"]


def write_checkpoint(
    data: Path,
    path: Path,
    *flags: str,
    task: str = "sentence_prediction",
    classes: int = 2,
    arch: str = "linformer_roberta",
) -> Path:
    """What fairseq-train would write of a Linformer of 2 layers x 16; its guesses are spread over the classes.

    Args:
        data: the folder of a prepared task, or of a dictionary for ``task="masked_lm"``.
        path: of the checkpoint.
        flags: more words of fairseq-train's command line.
        task: fairseq's name of it.
        classes: of a classifier.
        arch: ``roberta`` for fairseq's own.
    """
    criterion = task.removeprefix("bucketed_")
    words = ["--task", task, "--criterion", criterion, "--arch", arch, *_SIZES]
    words += [*([] if arch == "roberta" else ["--projected-dim", str(K)]), *flags]
    if task != "masked_lm":
        words += ["--num-classes", str(classes), "--init-token", "0", "--separator-token", "2"]
    cfg = parse(data, *words)
    torch.manual_seed(1)
    model = tasks.setup_task(cfg.task).build_model(cfg.model)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return save(path, 0, model.state_dict(), cfg, checksum=False)


def make_pretrained(work: Path, *flags: str, n: int = N, out: Path | None = None) -> Path:
    """Release a masked language model, in the way of those that come with the package.

    Args:
        work: folder for what it is made of.
        flags: as for `write_checkpoint`.
        n: the longest input.
        out: the model's folder, which must not exist; by default one in ``work``.
    """
    tokenizer = make_sentencepiece(work / "tokenizer")
    sizes = ("--max-positions", str(n), "--tokens-per-sample", str(n))
    checkpoint = write_checkpoint(tokenizer, work / "pretrained.pt", *sizes, *flags, task="masked_lm")
    out = out or work / "model"
    out.parent.mkdir(parents=True, exist_ok=True)
    release(checkpoint, tokenizer, out)
    return out


def make_classifier(work: Path, n: int = N) -> Path:
    """Release a classifier of two classes of pairs: ``model`` in the folder ``work``, beside its ``task`` and its
    ``checkpoint.pt``."""
    data = qqp(work, make_sentencepiece(work / "tokenizer"))
    release(write_checkpoint(data, work / "checkpoint.pt", "--max-positions", str(n)), data, work / "model")
    return work / "model"

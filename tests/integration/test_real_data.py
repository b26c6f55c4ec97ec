"""A small Linformer learns from real text and a real task: books and Wikipedia, then SST-2."""

import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fairseq")

from data_prep.binarize import binarize
from data_prep.binarize_task import binarize_task
from data_prep.train_sentencepiece import train as train_sentencepiece

_DATA = Path(os.environ.get("LINFORMER_DATA", ""))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("LINFORMER_DATA"), reason="LINFORMER_DATA does not name a folder of real data"
    ),
]

_SIZES = {
    "model._name": "linformer_roberta",
    "model.encoder_layers": 2,
    "model.encoder_embed_dim": 128,
    "model.encoder_ffn_embed_dim": 512,
    "model.encoder_attention_heads": 2,
    "model.max_positions": 128,
    "model.projected_dim": 32,
}
_COMMON = {
    "common.cpu": True,
    "common.log_format": "json",
    "common.log_interval": 100,
    "common.no_progress_bar": True,
    "optimizer._name": "adam",
    "optimizer.adam_betas": "(0.9,0.98)",
    "optimization.clip_norm": 1.0,
    "lr_scheduler._name": "polynomial_decay",
    "checkpoint.no_epoch_checkpoints": True,
}


def _first_lines(archive: Path, characters: int) -> str:
    with lzma.open(archive, "rt", encoding="utf-8", newline="\n") as file:
        text = file.read(characters)
    return text[: text.rindex("\n") + 1]


def _sst2(split: str) -> list[tuple[str, str]]:
    lines = (_DATA / "glue" / "SST-2" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.rsplit("\t", 1) for line in lines]
    return [(label.strip(), sentence.strip()) for sentence, label in rows]


def _write_rows(path: Path, rows: list[tuple[str, str]]) -> None:
    path.write_text("".join(f"{label}\t{sentence}\n" for label, sentence in rows), encoding="utf-8")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The binarised corpus and the binarised task."""
    work = tmp_path_factory.mktemp("real")
    books, wiki = (_first_lines(_DATA / "corpus" / f"{name}.txt.xz", 2_500_000) for name in ("books", "wiki"))
    held_out = 100_000  # characters of each
    texts = {
        "train": books[:-held_out] + "\n" + wiki[:-held_out],
        "valid": books[-held_out:] + "\n" + wiki[-held_out:],
    }
    dev = _sst2("dev")
    sentences = {sentence for _, sentence in dev}
    train = [row for row in _sst2("train") if row[1] not in sentences]
    for split, text in texts.items():
        (work / f"{split}.txt").write_text(text, encoding="utf-8")
    (work / "task").mkdir()
    _write_rows(work / "task" / "train.tsv", train)
    _write_rows(work / "task" / "valid.tsv", dev)

    train_sentencepiece([work / "train.txt"], work / "tokenizer", vocab_size=6000)
    model = work / "tokenizer" / "sentencepiece.bpe.model"
    binarize([work / "train.txt", work / "valid.txt"], model, work / "corpus_bin")
    binarize_task([work / "task" / "train.tsv", work / "task" / "valid.tsv"], model, work / "task_bin")
    return work / "corpus_bin", work / "task_bin"


def _validations(output: str, key: str) -> list[float]:
    """The values that fairseq logged for ``key``, in order."""
    found = (json.loads(line[line.index("{") :]) for line in output.splitlines() if f'"{key}"' in line)
    return [float(entry[key]) for entry in found]


def test_pretrains_and_finetunes(
    folders: tuple[Path, Path], train: Callable[..., str], user_dir: Path, tmp_path: Path
) -> None:
    """About four minutes on one core; ends at 77 % accuracy.

    One thread on purpose: on busy cores two of them wait for each other, and were seen to be ten times slower.
    """
    corpus, task = folders
    output = train(
        "fairseq-train",
        {
            **_COMMON,
            **_SIZES,
            "common.user_dir": str(user_dir),
            "task._name": "masked_lm",
            "task.data": str(corpus),
            "task.tokens_per_sample": 128,
            "task.sample_break_mode": "none",
            "criterion._name": "masked_lm",
            "dataset.batch_size": 16,
            "optimization.lr": [0.002],
            "optimization.max_update": 400,
            "lr_scheduler.warmup_updates": 60,
            "lr_scheduler.total_num_update": "400",
            "dataset.validate_interval_updates": 100,
        },
        tmp_path / "pretrained",
    )
    perplexities = _validations(output, "valid_ppl")
    print(f"perplexity {perplexities}")
    assert perplexities[-1] < perplexities[0] * 0.8

    output = train(
        "fairseq-hydra-train",
        {
            **_COMMON,
            **_SIZES,
            "common.user_dir": str(user_dir),
            "checkpoint.finetune_from_model": str(tmp_path / "pretrained" / "checkpoint_last.pt"),
            "checkpoint.best_checkpoint_metric": "accuracy",
            "checkpoint.maximize_best_checkpoint_metric": True,
            "task._name": "sentence_prediction",
            "task.data": str(task),
            "task.num_classes": 2,
            "task.init_token": 0,
            "task.separator_token": 2,
            "task.max_positions": 128,
            "criterion._name": "sentence_prediction",
            "dataset.batch_size": 64,
            "dataset.required_batch_size_multiple": 1,
            "optimization.lr": [0.001],
            "optimization.max_update": 1000,
            "lr_scheduler.warmup_updates": 60,
            "lr_scheduler.total_num_update": "1000",
            "dataset.validate_interval_updates": 250,
        },
        tmp_path / "finetuned",
    )
    accuracies = _validations(output, "valid_accuracy")
    print(f"accuracy {accuracies}")
    assert accuracies[-1] > 70  # 51 % is the majority class

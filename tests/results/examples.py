"""Rows and run folders as short as a test wants them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from linformer_fairseq.results.rows import Hardware, Model, Pretrained, Row, Scale, Score

HARDWARE = Hardware("AMD EPYC, 2 cores", "none", 1, 1)


def model(
    family: str = "linformer", n: int = 512, k: Any = 128, sharing: str | None = "layerwise", size: tuple = (12, 768)
) -> Model:
    """A model; of the paper's size unless told otherwise."""
    linformer = family == "linformer"
    return Model(
        architecture="linformer_roberta_base" if linformer else "roberta_base",
        family=family,
        layers=size[0],
        width=size[1],
        heads=size[0],
        n=n,
        k=k if linformer else None,
        sharing=sharing if linformer else None,
        projection="linear" if linformer else None,
        parameters=1000,
    )


def scale(layers: int = 12, width: int = 768, updates: int = 250_000, done: int | None = None) -> Scale:
    """A scale; the paper's unless told otherwise."""
    done = updates if done is None else done
    paper = (layers, width) == (12, 768) and done >= 250_000
    label = f"{layers} layers x {width}, {f'{done:,} of ' if done < updates else ''}{updates:,} updates of 8,192 tokens"
    return Scale(layers, width, updates, done, 8192, paper, label)


def row(name: str = "linformer_s1", **changes: Any) -> Row:
    """A finished pretraining."""
    plain = Row(
        schema=1,
        identity="0" * 16,
        name=name,
        stage="pretraining",
        experiment=None,
        seed=1,
        task=None,
        lr=5e-4,
        pretrained=None,
        figure3=[],
        table2=None,
        model=model(),
        scale=scale(),
        finished=True,
        status="finished",
        updates=250_000,
        max_update=250_000,
        tokens_per_update=8192,
        tokens=2_048_000_000,
        curve=[[100, 900.0], [1000, 90.0], [250_000, 5.0]],
        perplexity=Score(5.0, 5.0, 250_000),
        accuracy=None,
        started="2026-11-20T10:00:00+00:00",
        ended="2026-11-21T11:00:00+00:00",
        wall_seconds=90_000,
        attempts=1,
        attempts_without_end=0,
        commit="abcdef123456",
        hardware=[HARDWARE],
        versions={"torch": "2.13.0"},
    )
    return dataclasses.replace(plain, **changes)


def finetuned(task: str, accuracy: float, seed: int = 1, lr: float = 1e-5, run: str = "linformer_s1", **changes) -> Row:
    """A finished finetuning of ``run``."""
    return row(
        f"{run}/{task}_lr{lr:g}_s{seed}",
        **{
            "stage": "finetuning",
            "task": task,
            "seed": seed,
            "lr": lr,
            "pretrained": Pretrained(run, "checkpoint_best.pt"),
            "max_update": 1000,
            "updates": 1000,
            "curve": [],
            "perplexity": None,
            "accuracy": Score(accuracy - 1, accuracy, 500),
            **changes,
        },
    )


def attempt(**changes: Any) -> dict[str, Any]:
    """One of run.json's attempts."""
    return {
        "start": "2026-11-21T20:00:00+00:00",
        "end": "2026-11-21T20:01:40+00:00",
        "status": "finished",
        "updates_at_start": 0,
        "updates_at_end": 20,
        "world_size": 1,
        "hardware": {"processor": "AMD EPYC, 2 cores", "accelerator": "none", "hosts": ["secret-host"]},
        "slurm_job": None,
        "error": None,
        **changes,
    }


def record(**changes: Any) -> dict[str, Any]:
    """A run.json."""
    return {
        "schema": 1,
        "stage": "pretraining",
        "name": "tiny_s1",
        "experiment": "tiny",
        "seed": 1,
        "task": None,
        "lr": 0.0005,
        "pretrained": None,
        "paper": {"figure3": ["a", "c"], "table2": "Linformer, 128"},
        "overrides": ["task.data=/secret/bin"],
        "commit": "abcdef123456",
        "versions": {"torch": "2.13.0", "sentencepiece": "0.2.3"},
        "model": {
            "_name": "linformer_roberta_base",
            "encoder_layers": 2,
            "encoder_embed_dim": 32,
            "encoder_attention_heads": 2,
            "max_positions": 64,
            "projected_dim": 8,
            "sharing": "key_value",
            "projection": "linear",
            "dropout": 0.1,
        },
        "parameters": 21761,
        "max_update": 20,
        "warmup_updates": 2,
        "tokens_per_update": 256,
        "attempts": [attempt()],
        **changes,
    }


def training(update: int, tokens: float = 256) -> str:
    """A log line of an interval of training."""
    return json.dumps({"epoch": 1, "loss": "9", "num_updates": str(update), "wps": "1000.5", "wpb": str(tokens)})


def validation(update: int, **values: float | str) -> str:
    """A log line of a validation, such as validation(20, ppl=60.5)."""
    stats = {f"valid_{key}": str(value) for key, value in values.items()}
    return json.dumps({"epoch": 1, "valid_loss": "5", **stats, "valid_num_updates": str(update)})


def run_folder(folder: Path, log: list[str] | None = None, **changes: Any) -> Path:
    """A folder with run.json, and train.log if there is to be one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(record(**changes)))
    if log is not None:
        (folder / "train.log").write_text("".join(line + "\n" for line in log))
    return folder

"""Which options of a resumed run differ from those of the start before."""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.launch.changes import changed_options

CONFIG = {
    "optimizer": {"weight_decay": 0.1, "adam_betas": [0.9, 0.98]},
    "distributed_training": {"distributed_init_method": "tcp://one:1"},
    "optimization": {"lr": [0.1], "max_update": "${twice}"},
    "twice": 6,
    "old": "a",
}


def written(config: DictConfig) -> str:
    return OmegaConf.to_yaml(config, resolve=True)


def test_options_that_differ(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    config = OmegaConf.create(CONFIG)
    assert changed_options(file, written(config)) == [], "a first start"
    file.write_text(written(config), encoding="utf-8")
    assert changed_options(file, written(config)) == []
    config.distributed_training.distributed_init_method = "tcp://two:2"
    config.optimizer.weight_decay, config.optimizer.adam_betas = 0.5, [0.9, 0.999]
    config.twice = 8
    config.new = True
    del config.old
    assert changed_options(file, written(config)) == [
        "new: None, now True",
        "old: a, now None",
        "optimization.max_update: 6, now 8",
        "optimizer.adam_betas: [0.9, 0.98], now [0.9, 0.999]",
        "optimizer.weight_decay: 0.1, now 0.5",
        "twice: 6, now 8",
    ]


def test_a_damaged_config_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for content in (b"a: [1", b"\xff"):
        file.write_bytes(content)
        (found,) = changed_options(file, written(OmegaConf.create(CONFIG)))
        assert str(file) in found

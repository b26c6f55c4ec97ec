"""Numbers with which a run would be useless or fail are refused, and those to which fairseq gives a meaning are not."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import yaml
from omegaconf import DictConfig, OmegaConf

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import complete, compose
from linformer_fairseq.launch.options import option_names
from linformer_fairseq.launch.ranges import RANGES, Range


@pytest.mark.parametrize(
    ("allowed", "inside", "outside", "text"),
    [
        (Range(1), (1, 10**30), (0, -1, 1.5, "1", True, None), "a whole number of at least 1"),
        (Range(0, 4_000), (0, 4_000), (4_001,), "a whole number of at least 0 and at most 4,000"),
        (Range(0.0), (0, 0.5), (-1e-9, math.inf, math.nan), "a number of at least 0"),
        (Range(0.0, math.inf), (math.inf,), (-1, math.nan), "a number of at least 0"),
        (Range(0.0, 1, "[)"), (0, 0.999), (1, 1.0), "a number of at least 0 and below 1"),
        (Range(0.0, 1, "()"), (0.15,), (0, 1), "a number above 0 and below 1"),
        (Range(1, unlimited=-1), (-1, 1), (0, -2), "a whole number of at least 1, or -1"),
    ],
)
def test_a_range(allowed: Range, inside: tuple[object, ...], outside: tuple[object, ...], text: str) -> None:
    assert all(map(allowed.has, inside)) and not any(map(allowed.has, outside))
    assert str(allowed) == text


@pytest.fixture(scope="module")
def composed(tiny_corpus: Path) -> DictConfig:
    return compose("pretraining", [f"task.data={tiny_corpus}", "run_config=cpu"])


def test_all_options_with_a_range_exist() -> None:
    soft = ["task=tsv", "criterion._name=soft_sentence_prediction"]
    configs = [compose("pretraining", ["run_config=slurm"]), *(compose("finetuning", one) for one in (soft[:1], soft))]
    assert set(RANGES) <= set().union(*map(option_names, configs))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("checkpoint.keep_interval_updates=-7", "a whole number of at least 0, or -1"),
        ("checkpoint.save_interval_updates=-3", "a whole number of at least 0"),
        ("common.seed=5000000000", "a whole number of at least 0 and at most 4,000,000,000"),
        ("dataset.num_workers=-2", "a whole number of at least 0"),
        ("dataset.validate_interval=0", "a whole number of at least 1"),
        ("lr_scheduler.power=-3.0", "a number of at least 0"),
        ("model.dropout=2.0", "a number of at least 0 and below 1"),
        ("model.encoder_ffn_embed_dim=0", "a whole number of at least 1"),
        ("model.encoder_layerdrop=2.0", "a number of at least 0 and below 1"),
        ("optimization.clip_norm=-1.0", "a number of at least 0"),
        ("optimization.lr=[-1.0]", "a number above 0"),
        ("optimization.lr=[]", "a number above 0"),
        ("optimization.max_update=-5", "a whole number of at least 0"),
        ("optimization.stop_time_hours=-1.0", "a number of at least 0"),
        ("optimization.update_freq=[0]", "a whole number of at least 1"),
        ("optimizer.adam_betas=[0.9, 1]", "two numbers of at least 0 and below 1, such as [0.9,0.98]"),
        ("optimizer.adam_betas=foo", "two numbers of at least 0 and below 1, such as [0.9,0.98]"),
        ("optimizer.adam_eps=-1.0", "a number of at least 0"),
        ("optimizer.weight_decay=-1.0", "a number of at least 0"),
        ("task.mask_prob=2.0", "a number above 0 and below 1"),
        ("task.tokens_per_sample=1", "a whole number of at least 2"),
    ],
)
def test_a_number_out_of_range_is_refused(composed: DictConfig, word: str, expected: str) -> None:
    key, _, value = word.partition("=")
    config = composed.copy()
    OmegaConf.update(config, key, yaml.safe_load(value), force_add=True)
    with pytest.raises(UserError, match=f"^{re.escape(word)}: expected {re.escape(expected)}$"):
        complete(config)


def test_updates_of_several_sizes_are_refused(own_data: Path) -> None:
    words = [f"task.data={own_data}", "run_config=cpu"]
    complete(compose("pretraining", [*words, "optimization.update_freq=[2,2]"]))
    with pytest.raises(UserError, match=re.escape("optimization.update_freq=[1, 2]: updates would have several sizes")):
        complete(compose("pretraining", [*words, "optimization.update_freq=[1,2]"]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["model=roberta_base", "model.dropout=abc"], "model.dropout=abc: expected a number"),  # fairseq has no type
        (["model=roberta_base", "model.encoder_attention_heads=5"], "model.encoder_attention_heads=5: .* 768"),
        (["model=roberta_base", "model.quant_noise_scalar=0.2"], "model.quant_noise_scalar=0.2: "),
        (["model=roberta_base", 'model.encoder_layers_to_keep="0,2"'], "model.encoder_layers_to_keep=0,2: "),
        (
            ["model=roberta_base", "model.untie_weights_roberta=maybe"],
            "model.untie_weights_roberta=maybe: expected true",
        ),
        (["common.memory_efficient_bf16=true"], "common.memory_efficient_bf16=true: .* run.precision=bf16"),
        (
            ["common.memory_efficient_bf16=true", "run.precision=bf16"],
            "common.memory_efficient_bf16=true: .* optimizer._name=adam",
        ),
        (["run.precision=fp16", "common.bf16=true"], "common.bf16=true: fp16 .* run.precision=bf16"),
        (["run.precision=bf16", "common.amp=true"], "common.amp=true: bf16 .* run.precision=fp32"),
        (["model.projected_dim=513"], r"model.projected_dim=513: .* n = 512"),
        (["model.projected_dim=1000000000000"], r"model.projected_dim=1000000000000: .* n = 512"),
        (
            ["task.leave_unmasked_prob=0.6", "task.random_token_prob=0.5"],
            "task.leave_unmasked_prob=0.6 and task.random_token_prob=0.5: .* 1 together",
        ),
        (
            ["run.sentences_per_update=32"],
            "run.sentences_per_update=32: .*; in pretraining, set run.tokens_per_update$",
        ),
        (["task.tokens_per_sample=abc"], "task.tokens_per_sample: Value 'abc'"),
        (["task.mask_prob=null"], "task.mask_prob: .*'None'"),
    ],
)
def test_what_does_not_fit_together_is_refused(own_data: Path, words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=f"^{message}"):
        complete(compose("pretraining", [f"task.data={own_data}", "run_config=cpu", *words]))


@pytest.mark.slow
def test_layerdrop_with_several_gpus_needs_a_search_for_gradients(own_data: Path) -> None:
    words = [f"task.data={own_data}", "run_config=node", "model.encoder_layerdrop=0.1"]
    with pytest.raises(UserError, match="model.encoder_layerdrop=0.1: .*find_unused_parameters=true"):
        complete(compose("pretraining", words))
    complete(compose("pretraining", [*words, "distributed_training.find_unused_parameters=true"]))
    complete(compose("pretraining", [f"task.data={own_data}", "run_config=gpu", "model.encoder_layerdrop=0.1"]))


def test_what_fairseq_gives_a_meaning_is_kept(own_data: Path) -> None:
    words = [
        *("checkpoint.keep_interval_updates=-1", "checkpoint.keep_interval_updates_pattern=-1"),
        *("checkpoint.keep_last_epochs=-1", "checkpoint.keep_best_checkpoints=-1", "checkpoint.patience=-1"),
        *("checkpoint.save_interval_updates=0", "common.seed=4000000000", "dataset.data_buffer_size=0"),
        *("dataset.max_valid_steps=0", "lr_scheduler.power=0", "lr_scheduler.warmup_updates=0"),
        *("model.dropout=0", "model.projected_dim=512", "optimization.clip_norm=inf", "optimization.stop_min_lr=-1"),
        *("optimization.stop_time_hours=0", "optimizer.adam_eps=0", "optimizer.weight_decay=0", "task.mask_prob=0.99"),
        *('optimizer.adam_betas="(0.9,0.98)"', "optimizer._name=adam"),
        *("common.memory_efficient_bf16=true", "run.precision=bf16"),
    ]
    complete(compose("pretraining", [f"task.data={own_data}", "run_config=cpu", *words]))

"""Configs are composed with fairseq's options and ours, and what is wrong is said."""

from __future__ import annotations

import ast
import copy
import dataclasses
import re
import shutil
import sys
from argparse import ArgumentParser
from pathlib import Path
from unittest.mock import Mock

import hydra
import pytest
import torch
from fairseq.models.roberta import RobertaModel
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from submitit.core.utils import FailedJobError

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import application, complete, compose, config_dir, jobs, resolved, submission, train
from linformer_fairseq.launch.application import check, launch
from linformer_fairseq.launch.compose import overrides_for_hydra
from linformer_fairseq.models.config import LinformerRobertaConfig
from tests.binarised import write_items


def test_the_papers_run_by_one_experiment() -> None:
    config = resolved(compose("pretraining", ["task.data=x", "distributed_training.distributed_world_size=64"]))
    assert (config.optimization.max_update, config.lr_scheduler.warmup_updates) == (250_000, 10_000)
    assert list(config.optimization.lr) == [5e-4] and config.common.fp16 and not config.common.bf16
    assert config.dataset.batch_size * config.task.tokens_per_sample * 64 == 2**20
    assert list(config.optimization.update_freq) == [1]
    assert config.run.name == "linformer_base_n512_k128_layerwise_s1"
    assert config.checkpoint.save_dir == "runs/linformer_base_n512_k128_layerwise_s1"


@pytest.mark.parametrize(
    ("k", "name"), [("64", "64"), ("[64,128,128]", "64to128"), ("[[128,64],[32,64]]", "32to128"), ("[64,64]", "64")]
)
def test_a_folder_has_the_smallest_and_the_largest_k_in_its_name(k: str, name: str) -> None:
    config = resolved(compose("pretraining", ["task.data=x", "run_config=cpu", f"model.projected_dim={k}"]))
    assert config.run.name == f"linformer_base_n512_k{name}_layerwise_s1"


@pytest.mark.parametrize(("length", "world_size"), [(512, 64), (1024, 8), (2048, 1), (4096, 64)])
def test_tokens_per_update_are_equal_across_n_and_devices(length: int, world_size: int) -> None:
    words = [
        "task.data=x",
        f"task.tokens_per_sample={length}",
        f"distributed_training.distributed_world_size={world_size}",
    ]
    config = resolved(compose("pretraining", words))
    assert config.dataset.batch_size * length * world_size * config.optimization.update_freq[0] == 2**20
    assert train._tokens_per_update(config) == 2**20


@pytest.mark.parametrize(
    ("stage", "words", "tokens"),
    [
        ("pretraining", ["dataset.batch_size=null", "dataset.max_tokens=4096", "optimization.update_freq=[2]"], 8192),
        ("pretraining", ["dataset.batch_size=3", "optimization.update_freq=[1]"], 3 * 512),
        ("pretraining", ["dataset.batch_size=null", "optimization.update_freq=[1]"], None),
        ("pretraining", ["dataset.batch_size=3", "dataset.max_tokens=1024", "optimization.update_freq=[1]"], 1024),
        ("pretraining", ["task.sample_break_mode=eos", "dataset.batch_size=3", "optimization.update_freq=[1]"], None),
        ("finetuning", ["task=sst2", "pretrained=x"], None),
    ],
)
def test_tokens_per_update_of_a_batch_that_is_set_otherwise(stage: str, words: list[str], tokens: int | None) -> None:
    config = resolved(compose(stage, ["task.data=x", "run_config=cpu", *words]))
    assert train._tokens_per_update(config) == tokens


def test_bf16_by_one_override() -> None:
    config = resolved(compose("pretraining", ["task.data=x", "run.precision=bf16"]))
    assert config.common.bf16 and not config.common.fp16


def test_cpu_takes_what_fairseq_needs_there() -> None:
    config = resolved(compose("pretraining", ["task.data=x", "run_config=cpu"]))
    assert config.common.cpu and not config.common.fp16
    assert (config.distributed_training.ddp_backend, config.distributed_training.distributed_backend) == (
        "legacy_ddp",
        "gloo",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "task.data: not given; use task.data=VALUE"),
        (["task.data=x", "run.tokens_per_batch=1000"], "1,000 is not a whole multiple of 512"),
        (
            ["task.data=x", "distributed_training.distributed_world_size=3"],
            "run.tokens_per_update is 1,048,576, but one batch on",
        ),
        (["common.sede=1"], "common.sede: no such option; did you mean common.seed\\?"),
        (["experiment=nonsense"], "Could not find 'experiment/nonsense'"),
        (["optimization.max_update=abc"], "Value 'abc' of type 'str' could not be converted to Integer"),
        (["task.data=x", "run.precision=fp8"], "run.precision is 'fp8'; expected one of fp16, bf16, fp32"),
        (
            ["task.data=x", "run_config=srun"],
            "this is not a SLURM job: SLURM_NTASKS is not set; run_config=srun is for",
        ),
        (["task.data=x", "run.tokens_per_batch=0"], "0 and 512, but both must be at least 1"),
        (["task.data=x", "model.projected_dim=abc"], "model.projected_dim=abc: expected k"),
        (["task.data=x", "dataset.batch_size=null"], "dataset.batch_size=null: .*optimization.update_freq"),
        (["task.data=x", "run.tokens_per_update=null"], "run.tokens_per_update=null: expected a number of tokens"),
        (["a b"], "a b"),
        (["~run"], "^~run: every run has these options"),
        (["~ema"], "^~ema: every run has these options"),
        (["lr_scheduler._name=pass_through"], "warmup_updates: no such option of pass_through (~lr_scheduler.warmup"),
        (["model=roberta_base,linformer_base"], "several configs for one run; choose one, or"),
    ],
)
def test_what_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch, words: list[str], message: str) -> None:
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    with pytest.raises(UserError, match=message.replace("(", "\\(")):
        resolved(compose("pretraining", words))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("optimization.max_update=0", "optimization.max_update=0, and no max_epoch: the run would never end"),
        ("dataset.max_tokens=512", "dataset.max_tokens=512, but a batch has 32 blocks of 512 tokens"),
        ("model.sharing=foo", "model.sharing: Invalid value 'foo', expected one of"),
        ("model.freeze_projection=true", "freeze_projection has nothing to freeze: projection=mean_pool"),
        ("model.max_positions=100", "task.tokens_per_sample is 512, but model.max_positions (n) is 100"),
        ("model.encoder_attention_heads=5", "5 attention heads do not divide the width 768"),
        ("task.data=", "task.data=: expected a folder"),
        ("optimization.lr=abc", "optimization.lr=abc: expected a list"),
        ("lr=0.1", "lr=0.1, but optimization.lr=[0.0005]: set the learning rate with optimization.lr=[VALUE] alone"),
        ("lr_scheduler.total_num_update=0", "lr_scheduler.total_num_update=0.0: expected the update"),
        ("checkpoint.save_dir=", "checkpoint.save_dir=: expected a path"),
        ("checkpoint.restore_file=/no/model.pt", "checkpoint.restore_file=/no/model.pt: no such file"),
        ("common.tensorboard_logdir=/dev/null/a", "common.tensorboard_logdir=/dev/null/a: /dev/null is not a folder"),
        ("common.log_file=/no/folder/log", "common.log_file=/no/folder/log: there is no folder /no/folder"),
        ("run.stage=finetuning", "run.stage=finetuning: the command sets it"),
        ("run.experiment=foo", "run.experiment=foo: is set by experiment=NAME"),
        ("run.tokens_per_batch=null", "run.tokens_per_batch by task.tokens_per_sample (n): one of them is null"),
        ("model=null", "pretrained: not given"),
        ("~model", "pretrained: not given"),
        ("run_config=null", "run_config=null: expected the name of a config"),
        ("run.name=''", "run.name=: expected the name of a folder in runs"),
        ("checkpoint.finetune_from_model=/no/model.pt", "checkpoint.finetune_from_model=/no/model.pt: no such file"),
        ("run.name=../../evil", "run.name=../../evil: expected the name of a folder in runs"),
        ("run.name=.x", "run.name=.x: expected no dot at the beginning"),
        ("run.name=a/.x", "run.name=a/.x: expected no dot at the beginning"),
        ("run.name=a\nb", "run.name='a\\nb': expected a name without line breaks"),
        ("run.name='a\tb'", "run.name='a\\tb': expected a name without line breaks"),
        ("checkpoint.best_checkpoint_metric=nope", "checkpoint.best_checkpoint_metric=nope: no metric of masked_lm; "),
        ("task.mask_whole_words=true", "task.mask_whole_words=true: "),
        ("common.amp=true", "common.amp=true is for GPUs"),
        ("common.tpu=true", "common.tpu=true: needs torch_xla"),
        ("optimizer._name=cpu_adam", "optimizer._name=cpu_adam: needs deepspeed"),
        (
            "distributed_training.ddp_backend=fully_sharded",
            "distributed_training.ddp_backend=fully_sharded: needs",
        ),
        ("distributed_training.zero_sharding=os", "distributed_training.zero_sharding=os: needs fairscale"),
        ("task._name=sentence_ranking", "task._name=sentence_ranking: only the command line"),
        ("criterion._name=sentence_ranking", "criterion._name=sentence_ranking: only the command line"),
        *((f"{part}._name=null", f"{part}._name=null: expected ") for part in ("model", "task", "criterion")),
        ("optimizer._name=null", "optimizer._name=null: expected a name"),
        ("lr_scheduler._name=null", "lr_scheduler._name=null: expected a name"),
        ("lr_scheduler=cosine", "lr_scheduler=cosine: give its name with lr_scheduler._name=cosine"),
    ],
)
def test_values_that_would_train_nothing_useful_are_refused(own_data: Path, word: str, message: str) -> None:
    words = [f"task.data={own_data}", "run_config=cpu", "model.projection=mean_pool", word]
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        complete(compose("pretraining", words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["dataset.max_tokens=511"], "dataset.max_tokens=511, but a block has 512 tokens (task.tokens_per_sample)"),
        (["dataset.max_tokens=512", "dataset.max_tokens_valid=9"], "dataset.max_tokens_valid=9, but a block has 512"),
        ([], "dataset.batch_size=null and dataset.max_tokens=null: expected a number for one of them"),
    ],
)
def test_a_batch_without_room_for_a_block_is_refused(own_data: Path, words: list[str], message: str) -> None:
    words = [
        f"task.data={own_data}",
        "run_config=cpu",
        "dataset.batch_size=null",
        "optimization.update_freq=[1]",
        *words,
    ]
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        complete(compose("pretraining", words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["distributed_training.distributed_backend=nccl"],
            "distributed_training.distributed_backend=nccl is for GPUs",
        ),
        (["distributed_training.ddp_backend=pytorch_ddp"], "distributed_training.ddp_backend=pytorch_ddp is for GPUs"),
    ],
)
def test_what_several_processes_on_cpus_cannot_do_is_refused(own_data: Path, words: list[str], message: str) -> None:
    words = [f"task.data={own_data}", "run_config=cpu", "distributed_training.distributed_world_size=2", *words]
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        complete(compose("pretraining", words))


@pytest.mark.parametrize("value", ["", "=1"])
def test_what_is_left_out_and_set_is_set(own_data: Path, value: str) -> None:
    words = [f"task.data={own_data}", "run_config=cpu"]
    words += [f"~lr_scheduler.total_num_update{value}", "lr_scheduler.total_num_update=300000"]
    if value:  # only where it has this value
        with pytest.raises(UserError, match="total_num_update"):
            compose("pretraining", words)
    else:
        assert complete(compose("pretraining", words)).lr_scheduler.total_num_update == 300_000


@pytest.mark.slow
def test_a_slurm_job_starts_the_processes_of_the_config(own_data: Path) -> None:
    words = [f"task.data={own_data}", "run_config=slurm", "run.slurm.nodes=1"]
    assert complete(compose("pretraining", words)).distributed_training.distributed_world_size == 8
    unknown = ["run.slurm.tasks_per_node=null", "distributed_training.distributed_world_size=8"]
    complete(compose("pretraining", [*words, *unknown]))
    message = "^distributed_training.distributed_world_size=1, but the SLURM job has 8 processes"
    with pytest.raises(UserError, match=message):
        complete(compose("pretraining", [*words, "distributed_training.distributed_world_size=1"]))


@pytest.mark.slow
def test_validation_data_that_would_be_ignored_are_named(own_data: Path) -> None:
    for suffix in ("bin", "idx"):
        (own_data / f"valid1.{suffix}").write_bytes((own_data / f"valid.{suffix}").read_bytes())
    words = [f"task.data={own_data}", "run_config=cpu"]
    with pytest.raises(UserError, match="task.data: .*valid1.*dataset.combine_valid_subsets=true"):
        complete(compose("pretraining", words))
    for word in ("dataset.combine_valid_subsets=true", "dataset.ignore_unused_valid_subsets=true"):
        complete(compose("pretraining", [*words, word]))
    complete(compose("pretraining", [*words, "dataset.valid_subset='valid,valid1'"]))


@pytest.mark.parametrize("name", ["linformer_paragraphs", "roberta_small_batches"])
def test_batches_of_paragraphs_do_not_depend_on_the_number_of_devices(name: str) -> None:
    words = [f"experiment=released/{name}", "task.data=x", "run_config=node"]
    config = resolved(compose("pretraining", [*words, "run.tokens_per_batch=512"]))
    assert config.dataset.max_tokens * 8 * config.optimization.update_freq[0] == config.run.tokens_per_update
    with pytest.raises(UserError, match="tokens_per_batch x distributed_training.distributed_world_size: .*multiple"):
        resolved(compose("pretraining", words))


def test_a_finetuning_wants_a_checkpoint() -> None:
    with pytest.raises(UserError, match="^pretrained: not given; use pretrained=runs/NAME/checkpoint_best.pt"):
        resolved(compose("finetuning", ["task=sst2", "task.data=x"]))


@pytest.mark.slow
def test_without_a_slurm_nothing_is_submitted(own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = [f"task.data={own_data}", "run_config=slurm"]
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="run_config=slurm: sinfo: no such program"):
        launch("pretraining", words, sweep=False)
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\necho 'sinfo: error: nobody is there' >&2\nexit 1\n")
    sinfo.chmod(0o755)
    with pytest.raises(UserError, match="run_config=slurm: srun: no such program"):
        launch("pretraining", words, sweep=False)
    shutil.copy(sinfo, tmp_path / "srun")
    with pytest.raises(UserError, match="run_config=slurm: SLURM does not answer: sinfo: error: nobody is there"):
        launch("pretraining", words, sweep=False)


def test_a_relative_folder_of_configs_is_submitted_as_a_path(
    own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hydra takes a relative one as a module beside its caller."""
    sinfo = tmp_path / "sinfo"
    sinfo.write_text("#!/bin/sh\n")
    sinfo.chmod(0o755)
    shutil.copy(sinfo, tmp_path / "srun")
    shutil.copytree(config_dir(), tmp_path / "own")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(sys, "argv", [])
    main = Mock()
    monkeypatch.setattr(hydra, "main", main)
    assert launch("pretraining", [f"task.data={own_data}", "run_config=slurm"], sweep=False, folder=Path("own")) == 0
    assert main.call_args.kwargs["config_path"] == str(tmp_path / "own")
    assert sys.argv[-1] == "hydra.sweeper.params=null"  # the config's grid is among the words of a sweep


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FailedJobError(""), "FailedJobError, without a message"),
        (FailedJobError(f"failed\n{'-' * 22}\n\n{'-' * 22}\nsee x"), "FailedJobError, without a message"),
        (FailedJobError(f"failed\n{'-' * 22}\nTraceback\n  line\nValueError: 3\n{'-' * 22}\n"), "ValueError: 3"),
        (FailedJobError("sbatch: error: a\nsbatch: error: b\n"), "sbatch: error: a; sbatch: error: b"),
    ],
)
def test_the_reason_of_a_failed_job_is_one_line(error: FailedJobError, said: str) -> None:
    assert submission._reason(error) == said


def test_a_task_has_to_be_chosen() -> None:
    with pytest.raises(UserError, match="^task: not given; use task=NAME; there are: .*, sst2, "):
        compose("finetuning", ["task.data=x", "pretrained=y"])


@pytest.mark.parametrize(
    ("stage", "group", "instead"),
    [
        ("finetuning", "model", "; .*model.KEY=VALUE"),
        ("finetuning", "data", "; .*task.data=DIR"),
        ("finetuning", "experiment", ""),
        ("pretraining", "task", "; .*linformer finetune"),
    ],
)
def test_a_group_of_the_other_command_is_named(stage: str, group: str, instead: str) -> None:
    words = ["task=sst2"] if stage == "finetuning" else []
    with pytest.raises(UserError, match=f"^{group}: this command chooses no config of that group{instead}$"):
        compose(stage, [*words, f"{group}=x"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("run: {tokens_per_batc: 1}", r"run.tokens_per_batc: no such option; did you mean tokens_per_batch\?"),
        ("optimisation: {max_update: 1}", r"optimisation: no such option; did you mean optimization\?"),
        ("run: {tokens_per_batch: abc}", "run.tokens_per_batch: Value 'abc' of type 'str'"),
        ("optimization: {lr: 0.1}", r"optimization.lr: expected a list, such as \[VALUE\]"),
        ("run: 5", "Merge error: int is not a subclass of RunOptions"),
    ],
)
def test_what_is_wrong_in_a_config_of_ones_own_is_named(tmp_path: Path, text: str, said: str) -> None:
    shutil.copytree(config_dir(), tmp_path / "own")
    (tmp_path / "own/experiment/mine.yaml").write_text(f"# @package _global_\n{text}\n")
    with pytest.raises(UserError, match=f"^experiment/mine.yaml: {said}"):
        compose("pretraining", ["experiment=mine", "task.data=x"], tmp_path / "own")


def test_n_has_to_be_given_for_a_converted_model(own_data: Path) -> None:
    words = ["experiment=converted/linformer", f"task.data={own_data}", "run_config=cpu", "pretrained=x"]
    with pytest.raises(UserError, match="^task.tokens_per_sample: not given; expected n"):
        complete(compose("pretraining", words))


def test_a_number_of_nodes_that_is_none() -> None:
    with pytest.raises(
        UserError, match="run.slurm.nodes x run.slurm.tasks_per_node: x x 8; expected two whole numbers"
    ):
        resolved(compose("pretraining", ["task.data=x", "run_config=slurm", "run.slurm.nodes=x"]))


@pytest.mark.parametrize("key", ["run.slurm.gpus_per_node", "run.slurm.nodes"])
def test_no_processes_at_all_are_refused(own_data: Path, key: str) -> None:
    words = [f"task.data={own_data}", "run_config=slurm", f"{key}=0"]
    with pytest.raises(UserError, match="distributed_world_size is 0.*run.slurm.nodes x run.slurm.tasks_per_node"):
        complete(compose("pretraining", words))


@pytest.mark.parametrize(
    ("task", "updates", "warmup"),
    [("sst2", 20_935, 0.06), ("qnli", 33_112, 0.06), ("qqp", 113_272, 0.25), ("imdb", 7_812, 0.06)],
)
def test_robertas_finetuning(task: str, updates: int, warmup: float) -> None:
    config = resolved(
        compose("finetuning", [f"task={task}", "task.data=x", "pretrained=runs/some_run/checkpoint_best.pt"])
    )
    assert config.optimization.max_update == updates == config.lr_scheduler.total_num_update
    assert config.lr_scheduler.warmup_updates == pytest.approx(warmup * updates, rel=2e-3)
    assert config.dataset.batch_size * config.optimization.update_freq[0] == 32 and config.optimizer.weight_decay == 0.1
    assert config.run.name == f"some_run/{task}_lr1e-05_s1"


@pytest.mark.parametrize(
    ("stage", "words", "decay"), [("pretraining", [], 0.01), ("finetuning", ["task=sst2", "pretrained=x"], 0.1)]
)
def test_the_optimizer_is_robertas_without_clipping(stage: str, words: list[str], decay: float) -> None:
    config = resolved(compose(stage, ["task.data=x", *words]))
    adam = config.optimizer
    assert ast.literal_eval(str(adam.adam_betas)) == (0.9, 0.98)
    assert (adam._name, adam.adam_eps, adam.weight_decay) == ("fused_adamw", 1e-6, decay)
    assert config.optimization.clip_norm == 0


@pytest.mark.slow
def test_the_grid_of_a_sweep() -> None:
    words = ["task=sst2", "task.data=x", "pretrained=runs/a/b.pt"]
    grid = jobs("finetuning", words)
    assert len(grid) == 15 and {word for job in grid for word in job if word.startswith("lr=")} == {
        "lr=1e-05",
        "lr=2e-05",
        "lr=3e-05",
    }
    first, last = (resolved(compose("finetuning", job)) for job in (grid[0], grid[-1]))
    assert first.checkpoint.save_dir.endswith("/sst2_lr1e-05_s1")
    assert last.checkpoint.save_dir.endswith("/sst2_lr3e-05_s5")
    chosen = jobs("finetuning", [*words, "lr=1e-4", "common.seed=7,8"])
    assert [[word for word in job if word.startswith(("lr=", "common.seed="))] for job in chosen] == [
        ["lr=0.0001", "common.seed=7"],
        ["lr=0.0001", "common.seed=8"],
    ]


@pytest.mark.slow
def test_runs_of_a_sweep_that_would_share_a_folder_are_refused(own_data: Path) -> None:
    with pytest.raises(UserError, match="several runs .*_s1: .*run.name"):
        check("pretraining", [f"task.data={own_data}", "optimization.lr=[1e-4],[5e-4]"], sweep=True)
    apart = "run.name=x_${optimization.lr.0}"
    assert len(check("pretraining", [f"task.data={own_data}", "optimization.lr=[1e-4],[5e-4]", apart], sweep=True)) == 2


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["model.projecton=linear"], "model.projection"),
        (["+model.projecton=linear"], "model.projection"),
        (["model=roberta_base", "model.droput=0.2"], "model.dropout"),
        (["task.dat=x"], "task.data"),
        (["optimization.max_updat=5"], "optimization.max_update"),
        (["optimizaton.max_update=5"], "optimization.max_update"),
        (["max_update=5"], "optimization.max_update"),
        (["+run.precison=bf16"], "run.precision"),
        (["run_config=slurm", "run.slurm.node=2"], "run.slurm.nodes"),
        (["run_confg=cpu"], "run_config"),
        (["experimnt=small/linformer"], "experiment"),
        (["experiment=linformer_base_n512_k128_layerwis"], "linformer_base_n512_k128_layerwise"),
        (["experiment=small/linforme"], "small/linformer"),
        (["model=linformer_smal"], "linformer_small"),
        (["model._name=linformer_robert_base"], "linformer_roberta_base"),
        (["optimizer._name=fused_adm"], "fused_adamw"),
    ],
)
def test_a_misspelled_name_is_refused_with_the_nearest(words: list[str], near: str) -> None:
    with pytest.raises(UserError) as refused:
        compose("pretraining", words)
    assert str(refused.value).endswith(f"did you mean {near}?") and "\n" not in str(refused.value)


def test_another_models_option_is_refused_and_the_model_named() -> None:
    with pytest.raises(UserError, match="^model.projection: .* roberta_base$"):
        compose("pretraining", ["model=roberta_base", "model.projection=linear"])


def test_a_misspelled_option_in_a_config_of_ones_own_is_refused(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(config_dir(), tmp_path / "configs"))
    with (folder / "model" / "roberta_mini.yaml").open("a") as stream:
        stream.write("  droput: 0.5\n")
    with pytest.raises(UserError, match="model.droput.*model.dropout"):
        compose("pretraining", ["model=roberta_mini"], folder)


@pytest.mark.parametrize("plus", ["", "+", "++"])
@pytest.mark.parametrize("chosen", [("pretraining",), ("finetuning", "task=sst2")])
def test_every_option_of_the_model_is_set_by_its_plain_name(chosen: tuple[str, ...], plus: str) -> None:
    names = [option.name for option in dataclasses.fields(LinformerRobertaConfig) if option.name != "_name"]
    values = {name: number for number, name in enumerate(names)}
    model = compose(chosen[0], [*chosen[1:], *(f"{plus}model.{name}={value}" for name, value in values.items())]).model
    assert {name: model[name] for name in names} == values


def test_a_roberta_has_fairseqs_options() -> None:
    parser = ArgumentParser()
    RobertaModel.add_args(parser)
    names = {name for name in vars(parser.parse_args([])) if name != "help"}
    assert "untie_weights_roberta" in names
    words = ["model=roberta_base", *(f"model.{name}=7" for name in names)]
    model = compose("pretraining", words).model
    assert all(model[name] == 7 for name in names)


def test_options_of_the_chosen_components_are_set_by_their_plain_names(own_data: Path) -> None:
    words = ["optimizer._name=adam", "optimizer.use_old_adam=true", "task.mask_prob=0.2", "model.projection=mean_pool"]
    words += ["lr_scheduler._name=inverse_sqrt", "~lr_scheduler.total_num_update", "lr_scheduler.warmup_init_lr=0.01"]
    config = check("pretraining", [f"task.data={own_data}", *words], sweep=False)[0].config
    assert config.optimizer.use_old_adam and config.task.mask_prob == 0.2 and config.model.projection == "mean_pool"
    assert config.lr_scheduler.warmup_init_lr == 0.01


def test_a_sweep_over_an_option_that_the_config_leaves_out() -> None:
    words = ["model.projection=linear,mean_pool", "model=linformer_base,linformer_small", "~model.dropout"]
    assert len(jobs("pretraining", words)) == 4
    assert overrides_for_hydra("pretraining", words) == [f"++{words[0]}", *words[1:]]


@pytest.mark.parametrize("word", ["+lr=1e-4", "++lr=1e-4", "~lr"])
def test_the_grid_of_a_sweep_leaves_out_what_is_given_in_any_form(word: str) -> None:
    found = jobs("finetuning", ["task=sst2", "task.data=x", "pretrained=runs/a/b.pt", word])
    assert len(found) == 5 and all(not any(other.startswith("lr=") for other in job) for job in found)


def test_a_sweep_that_is_submitted_has_the_runs_of_one_on_this_machine() -> None:
    """Hydra's sweeper would add `++lr=...` to the values of lr in the config's grid."""
    words = ["task=sst2", "task.data=x", "pretrained=runs/a/b.pt", "lr=1e-4", "run_config=slurm"]
    taken = overrides_for_hydra("finetuning", words, sweep=True)
    (submitted,) = BasicSweeper.split_arguments(OverridesParser.create().parse_overrides(taken), None)
    assert len(submitted) == 5
    assert [sorted(word.lstrip("+") for word in job) for job in submitted] == [
        sorted(job) for job in jobs("finetuning", words)
    ]
    assert not any("common.seed" in word for word in overrides_for_hydra("finetuning", words))


def test_a_config_that_is_changed_leaves_the_next_one_alone() -> None:
    """Hydra's store of configs, which it would copy each time, is not."""
    store = ConfigStore.instance()
    first = compose("pretraining", ["task.data=x"])
    assert copy.deepcopy([store])[0] is store
    first.optimization.clip_norm, first.dataset.ignore_unused_valid_subsets = 123.0, True
    second = compose("pretraining", ["task.data=x"])
    assert second.optimization.clip_norm != 123.0 and not second.dataset.ignore_unused_valid_subsets


def test_fairseqs_own_use_of_hydra_goes_on(tiny_corpus: Path) -> None:
    from fairseq import options
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    compose("pretraining", ["task.data=x"])
    words = [str(tiny_corpus), "--task", "masked_lm", "--arch", "roberta", "--batch-size", "1"]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    assert convert_namespace_to_omegaconf(args).task.data == str(tiny_corpus)


def test_the_experiment_of_a_run() -> None:
    name = "roberta_base_n512"
    assert compose("pretraining", [f"experiment={name}"]).run.experiment == name
    assert compose("pretraining").run.experiment is None
    assert compose("finetuning", ["task=sst2"]).run.experiment is None


def test_paths_are_relative_to_where_the_user_stands(
    own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = complete(compose("pretraining", ["task.data=data:./data"]))
    assert config.task.data == f"{own_data}:{own_data}"
    assert config.checkpoint.save_dir == str(tmp_path / "runs" / "linformer_base_n512_k128_layerwise_s1")
    assert config.common.log_file == f"{config.checkpoint.save_dir}/train.log"
    assert Path(config.common.user_dir).is_absolute() and (Path(config.common.user_dir) / "core").is_dir()


@pytest.mark.slow
def test_a_plugin_of_the_users_adds_its_models(own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = tmp_path / "plugin_of_a_user"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(
        "from fairseq.criterions import FairseqCriterion, register_criterion\n"
        "from fairseq.models import register_model_architecture\n"
        "register_model_architecture('roberta', 'roberta_of_a_user')(lambda args: None)\n"
        "register_criterion('loss_of_a_user')(type('Loss', (FairseqCriterion,), {'__module__': __name__}))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # fairseq adds to it
    words = [f"task.data={own_data}", "run_config=cpu", "model=roberta_base", "model._name=roberta_of_a_user"]
    with pytest.raises(UserError, match="model._name=roberta_of_a_user: no such model"):
        compose("pretraining", words)
    its_folder = ["common.user_dir=plugin_of_a_user"]
    config = complete(compose("pretraining", [*words, *its_folder]))
    assert (config.common.user_dir, config.model._name) == (str(plugin), "roberta_of_a_user")
    loss = ["criterion._name=loss_of_a_user", "checkpoint.best_checkpoint_metric=anything"]
    assert complete(compose("pretraining", [*words, *its_folder, *loss])).criterion == {"_name": "loss_of_a_user"}
    with pytest.raises(UserError, match="common.user_dir=elsewhere: no such folder"):
        compose("pretraining", [*words, "common.user_dir=elsewhere"])
    twin = Path(shutil.copytree(plugin, tmp_path / "twin" / plugin.name))
    with pytest.raises(UserError, match=f"common.user_dir={twin}: .*unique"):
        compose("pretraining", [*words, f"common.user_dir={twin}"])


def test_missing_data_are_said(own_data: Path) -> None:
    config = compose("pretraining", [f"task.data={own_data}"])
    for missing in ("dict.txt", "train.idx", "train.bin", "valid.idx", "valid.bin"):
        (own_data / missing).rename(own_data / "away")
        with pytest.raises(UserError, match=f"task.data: .*{missing}: no such file; `linformer data pretraining`"):
            complete(config)
        (own_data / "away").rename(own_data / missing)
    complete(config)


def test_a_tasks_data_are_no_pretraining_data(task_data: Path) -> None:
    with pytest.raises(UserError, match=f"{task_data}: a task's data, .*`linformer data pretraining`"):
        complete(compose("pretraining", [f"task.data={task_data}"]))


def test_empty_data_are_said(own_data: Path) -> None:
    write_items(own_data / "train", [])
    with pytest.raises(UserError, match="train.idx: "):
        complete(compose("pretraining", [f"task.data={own_data}"]))


def test_a_colon_in_the_run_folder_is_refused(own_data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="checkpoint.save_dir=.*a:b.* colon"):
        complete(compose("pretraining", [f"task.data={own_data}", f"run.runs='{tmp_path}/a:b'"]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_node_without_gpus_is_refused_before_processes_start(
    own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "torchrun_command", None)
    monkeypatch.setattr(application, "reset_logging", lambda: None)
    words = ["model=linformer_mini", f"task.data={own_data}", "run_config=node", f"run.runs={tmp_path / 'runs'}"]
    with pytest.raises(UserError, match="torch sees none"):
        launch("pretraining", words, sweep=False)
    assert not (tmp_path / "runs").exists()

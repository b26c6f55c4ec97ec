"""Every config is composed and its model built; what their headers say is held against what they are."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models.roberta import model as fairseq_roberta
from omegaconf import DictConfig, ListConfig, open_dict
from torch import nn

from linformer_fairseq.launch import compose, config_dir, resolved
from linformer_fairseq.launch.options import with_defaults
from linformer_fairseq.models import roberta as linformer_roberta
from linformer_fairseq.planning import plan
from linformer_fairseq.results.paper import PANELS as OF_PAPER
from linformer_fairseq.results.paper import TABLE2, TASKS

SYMBOLS = 1000
CONFIGS = config_dir()
EXPERIMENTS = sorted(path.stem for path in (CONFIGS / "experiment").glob("*.yaml"))
# That of converted models has the model of a checkpoint: tests/conversion/test_training.py.
OTHERS = sorted(
    str(path.relative_to(CONFIGS / "experiment").with_suffix(""))
    for path in CONFIGS.glob("experiment/*/*.yaml")
    if path.parent.name != "converted"
)
RUN_CONFIGS = sorted(path.stem for path in (CONFIGS / "run_config").glob("*.yaml"))
# The number of updates of one's own texts is that of the data: test_pretrained.py.
TASK_CONFIGS = sorted(path.stem for path in (CONFIGS / "task").glob("*.yaml") if path.stem != "tsv")
MODELS = sorted(path.stem for path in (CONFIGS / "model").glob("*.yaml"))
GROUPS = [path for path in sorted(CONFIGS.glob("*/**/*.yaml")) if path.parent.name != "experiment"]
NAME = re.compile(r"(?:linformer|roberta)_base_n(\d+)(?:_k(\d+)_(\w+))?")
# What the paper shows: n and k of the Linformers of each panel with layerwise sharing, those of panel (c) apart.
PANELS = {
    "a": {(512, 64), (512, 128), (512, 256)},
    "b": {(1024, 128), (1024, 256), (1024, 512)},
    "d": {(512, 256), (1024, 256), (2048, 256), (4096, 256)},
}


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Callable[[DictConfig], nn.Module]:
    """``build(config)``: the model as fairseq builds it, without memory for its numbers."""
    # init_bert_params goes through the CPU, where these numbers are not
    for module in (fairseq_roberta, linformer_roberta):
        monkeypatch.setattr(module, "init_bert_params", lambda module: None)
    dictionary = Dictionary()
    for number in range(SYMBOLS - len(dictionary)):
        dictionary.add_symbol(f"w{number}")

    def make(config: DictConfig) -> nn.Module:
        config = with_defaults(config)
        n = config.task.get("tokens_per_sample") or config.task.max_positions
        task = SimpleNamespace(cfg=config.task, source_dictionary=dictionary, max_positions=lambda: n)
        with torch.device("meta"):
            return models.build_model(config.model, task)

    return make


@functools.cache
def pretraining(*overrides: str) -> DictConfig:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_NTASKS", "64")  # run_config=srun reads it
        return resolved(compose("pretraining", ["task.data=data", *overrides]))


def experiment(name: str) -> DictConfig:
    """A run of the paper, on its 64 GPUs."""
    return pretraining(f"experiment={name}", "run_config=slurm")


def check_model(model: Any, config: DictConfig) -> None:
    """The model is what the config says it is."""
    positions = model.encoder.sentence_encoder.embed_positions.weight
    assert positions.shape[0] == config.task.tokens_per_sample + 2
    found = plan(config).sizes
    difference = (found.vocabulary - SYMBOLS) * (found.width + 1)  # of the embeddings and the head's bias
    assert sum(parameter.numel() for parameter in model.parameters()) == found.parameters - difference
    if not config.model._name.startswith("linformer"):
        assert found.settings is None
        return
    settings = model.encoder.settings
    assert settings == found.settings
    assert settings.max_positions == config.task.tokens_per_sample
    dims, sharing, encoder = config.model.projected_dim, config.model.sharing, model.encoder.sentence_encoder
    by_layer = list(dims) if isinstance(dims, ListConfig) else [dims] * found.layers
    k = by_layer[-1]
    assert (settings.sharing, list(settings.dims)) == (sharing, [(k,) * found.heads for k in by_layer])
    attention = encoder.layers[-1].self_attn
    n = config.task.tokens_per_sample
    if settings.projection == "convolution":
        kernels = encoder.proj_k if sharing == "layerwise" else attention.proj_k
        assert kernels.weight.shape == (found.width, n // k * settings.kernel_strides)
    elif sharing == "layerwise":
        assert encoder.proj_k.weight.shape == (k, n) and attention.proj_k is None
    else:
        assert encoder.proj_k is None
        assert attention.proj_k.weight.shape == ((found.heads, k, n) if sharing == "none" else (k, n))
        assert (attention.proj_v is None) == (sharing == "key_value")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_are_what_their_names_say(build: Callable[..., nn.Module], name: str) -> None:
    config = experiment(name)
    match = NAME.fullmatch(name)
    assert match, f"{name}: expected a name like linformer_base_n512_k128_layerwise"
    n, k, sharing = match.groups()
    assert config.run.name == f"{name}_s1"
    assert config.task.tokens_per_sample == int(n)
    assert config.model.get("projected_dim") == (k and int(k))
    assert config.model.get("sharing") == sharing
    assert config.model.get("projection") == (k and "linear")
    assert config.model._name == ("linformer_roberta_base" if k else "roberta_base")
    check_model(build(config), config)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_headers_of_experiments_say_what_follows_from_them(name: str) -> None:
    config = experiment(name)
    found, header = plan(config), header_of(CONFIGS / "experiment" / f"{name}.yaml")
    n, updates = config.task.tokens_per_sample, config.optimization.max_update
    assert (
        f"Batch: {found.sequences_per_update:,} sequences of {n:,} tokens = {found.tokens_per_update:,} tokens an "
        in header
    )
    assert f"an update; {updates:,} updates, {found.total_tokens:,.0f} tokens." in header
    assert f"Hardware: {config.distributed_training.distributed_world_size} V100" in header
    assert f"Command: linformer pretrain experiment={name} task.data=work/bin run_config=slurm" in header
    model = f"k = {config.model.projected_dim}, {config.model.sharing}" if "sharing" in config.model else ""
    assert f"n = {n:,}" in header and model.replace("none", "no") in header
    panels, row = config.run.paper.figure3, config.run.paper.table2
    shown = [f"Figure 3 ({', '.join(panels)})"] * bool(panels) + [f'Table 2, row "{row}"'] * (row is not None)
    assert f"In the paper: {'; '.join(shown)}." in header
    if row is None:
        assert "Expected: no number is published: Figure 3 has curves." in header
    else:
        (scores,) = [paper.scores for paper in TABLE2 if (paper.n, paper.name) == (n, row)]
        expected = ", ".join(f"{task} {score}" for task, score in zip(TASKS.values(), scores, strict=True))
        assert f"(the paper's Table 2): {expected} %." in header


def header_of(path: Path) -> str:
    """The comment at the beginning of a config, as one line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    return re.sub(r"\s+", " ", " ".join(line.removeprefix("#") for line in lines[:end]))


@pytest.mark.slow
def test_every_run_of_figure_3_and_table_2_is_there() -> None:
    configs = [experiment(name) for name in EXPERIMENTS]
    shown: dict[str, set[Any]] = {panel: set() for panel in "abcd"}
    rows = set()
    for config in configs:
        n, model, paper = config.task.tokens_per_sample, config.model, config.run.paper
        for panel in paper.figure3:
            shown[panel].add((n, model.get("projected_dim"), model.get("sharing")))
        if paper.table2:
            rows.add((n, paper.table2))
            assert_row_is_of_model(paper.table2, model)
    for panel, runs in PANELS.items():
        baseline = {"a": {(512, None, None)}, "b": {(1024, None, None)}}.get(panel, set())
        assert shown[panel] == {(n, k, "layerwise") for n, k in runs} | baseline
    sharings = ("none", "headwise", "key_value", "layerwise")
    assert shown["c"] == {(512, 256, sharing) for sharing in sharings} | {(512, None, None)}
    assert {panel: len(models) for panel, models in shown.items()} == {name: of[2] for name, of in OF_PAPER.items()}
    assert rows == {(row.n, row.name) for row in TABLE2 if row.reproduced}
    assert len({config.run.tokens_per_update for config in configs}) == 1


def assert_row_is_of_model(row: str, model: DictConfig) -> None:
    """Our reading of the names in Table 2."""
    name, *words = row.split(", ")
    if name == "RoBERTa-base":
        assert model._name == "roberta_base"
    else:
        sharing = {(): "headwise", ("shared kv",): "key_value", ("shared kv", "layer"): "layerwise"}[tuple(words[1:])]
        assert (name, words[0], sharing) == ("Linformer", str(model.projected_dim), model.sharing)


@pytest.mark.slow
@pytest.mark.parametrize("path", GROUPS, ids=lambda path: str(path.relative_to(CONFIGS)))
def test_every_header_says_hardware_batch_and_a_command_that_composes(path: Path) -> None:
    header = header_of(path)
    assert "Hardware: " in header and "Batch: " in header
    text = re.sub(r"\\\n#\s*", "", path.read_text())  # a command may have several lines
    commands = re.findall(r"^# (?:Command:)? +linformer (pretrain|finetune) (.*)", text, flags=re.MULTILINE)
    if not commands:
        assert "Command: sbatch " in header or "Command: that of" in header
        return
    own = str(path.relative_to(CONFIGS).with_suffix("")).replace("/", "=", 1)
    for command, options in commands:
        words = [word for word in options.split() if re.match(r"[\w.]+=", word)]
        compose({"pretrain": "pretraining", "finetune": "finetuning"}[command], words)
        assert own in words or own == "data=books_wikipedia"


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_model_is_built(build: Callable[..., nn.Module], name: str) -> None:
    config = pretraining(f"model={name}", "task.tokens_per_sample=1024")
    check_model(build(config), config)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_experiments_that_are_not_the_papers_are_built(build: Callable[..., nn.Module], name: str) -> None:
    config = pretraining(f"experiment={name}", "run_config=cpu")
    check_model(build(config), config)
    assert not config.run.paper.table2


@pytest.mark.slow
@pytest.mark.parametrize("run_config", RUN_CONFIGS)
def test_every_run_config_makes_the_same_update(run_config: str) -> None:
    """An update has as many tokens as is said, whatever the hardware; test_compose.py has every n."""
    config = pretraining("experiment=linformer_base_n4096_k256_layerwise", f"run_config={run_config}")
    sequences = config.dataset.batch_size * config.optimization.update_freq[0]
    sequences *= config.distributed_training.distributed_world_size
    assert sequences * config.task.tokens_per_sample == config.run.tokens_per_update == 2**20


def test_the_header_of_pretraining_says_what_is_in_it() -> None:
    config = pretraining("run_config=slurm")
    header = header_of(CONFIGS / "pretraining.yaml")
    found, world_size = plan(config), config.distributed_training.distributed_world_size
    assert f"{found.sequences_per_update:,} sequences = {found.tokens_per_update:,} tokens with 5e-4" in header
    assert f"{found.total_tokens / 1e9:.0f} billion tokens, {found.updates:,} x {found.tokens_per_update:,}" in header
    assert f"{config.dataset.batch_size} on each of {world_size} GPUs" in header
    assert f"warm-up at that batch is {config.lr_scheduler.warmup_updates:,} updates" in header
    assert list(config.optimization.lr) == [5e-4]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASK_CONFIGS)
def test_every_task_is_composed_and_its_models_are_built(build: Callable[..., nn.Module], task: str) -> None:
    composed = compose("finetuning", [f"task={task}", "task.data=data", "pretrained=run/checkpoint_best.pt"])
    own = {key: value for key, value in composed.model.items() if value is not None}
    for model in ("linformer_roberta_base", "roberta_base"):
        with open_dict(composed):  # what the checkpoint and the data say
            composed.model = {**own, "_name": model, "max_positions": 512}
            composed.task.update({"max_positions": 512, "num_classes": 2})
        config = resolved(composed)
        built = build(config)
        built.register_classification_head("sentence_classification_head", num_classes=2)  # type: ignore[operator]
        found = plan(config)
        difference = (found.sizes.vocabulary - SYMBOLS) * (found.sizes.width + 1)
        assert sum(parameter.numel() for parameter in built.parameters()) == found.parameters - difference
        assert found.sequences_per_update == config.run.sentences_per_update
    header = header_of(CONFIGS / "task" / f"{task}.yaml")
    assert f"{config.optimization.max_update:,} updates are" in header
    if task in TASKS:
        share = config.lr_scheduler.warmup_updates / config.optimization.max_update
        assert f"{share:.0%}".replace("%", " %") + " of them warm-up" in header
        examples, per_epoch = (
            int(re.search(rf"([\d,]+) {what}", header)[1].replace(",", "")) for what in ("examples", "updates an epoch")
        )  # type: ignore[index]
        assert per_epoch == -(-examples // found.sequences_per_update)
        column = list(TASKS).index(task)
        scores = {(row.n, row.name): row.scores[column] for row in TABLE2}
        roberta, linformer = scores[512, "RoBERTa-base"], scores[512, "Linformer, 256, shared kv, layer"]
        assert f"RoBERTa-base {roberta}, Linformer n = 512, k = 256, layerwise {linformer} % on dev" in header

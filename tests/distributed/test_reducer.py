"""In pretraining no parameter is without a gradient: torch's own DDP needs find_unused_parameters to finetune only."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import tasks

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.core import SHARINGS
from linformer_fairseq.launch import compose
from tests.fairseq_config import parse

Build = Callable[..., tuple[Any, torch.nn.Module]]


@pytest.fixture
def alone_in_a_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.fixture
def build(train_words: Callable[..., list[str]], tiny_settings: dict[str, Any]) -> Build:
    """Task and model as fairseq-train builds them."""

    def build(**options: Any) -> tuple[Any, torch.nn.Module]:
        settings = {key: value for key, value in tiny_settings.items() if key != "common.user_dir"}
        settings |= {f"model.{name}": value for name, value in options.items()}
        words = train_words("fairseq-train", settings, Path("unused"))
        config = parse(*words)
        task = tasks.setup_task(config.task)
        return task, task.build_model(config.model)

    return build


def _step(model: torch.nn.Module, vocabulary: int) -> None:
    tokens = torch.randint(4, vocabulary - 1, (3, 20))
    masked = torch.zeros_like(tokens, dtype=torch.bool)
    masked[:, 3] = True
    logits, _ = model(tokens, masked_tokens=masked)
    torch.nn.functional.cross_entropy(logits, tokens[masked]).backward()


@pytest.mark.slow
@pytest.mark.usefixtures("alone_in_a_group")
@pytest.mark.parametrize(
    ("sharing", "projection"),
    [*((sharing, "linear") for sharing in SHARINGS), ("layerwise", "convolution"), ("layerwise", "mean_pool")],
)
def test_every_parameter_has_a_gradient(build: Build, sharing: str, projection: str) -> None:
    torch.manual_seed(0)
    task, model = build(sharing=sharing, projection=projection)
    parallel = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=False)
    for _ in range(2):  # DDP complains of parameters that the first backward did not reach in the second
        _step(parallel, len(task.source_dictionary))
    lacking = [name for name, parameter in model.named_parameters() if parameter.grad is None]
    assert lacking == []


@pytest.mark.usefixtures("alone_in_a_group")
def test_ddp_would_notice(build: Build) -> None:
    """The check above can fail: an unused parameter is an error in the second step."""
    task, model = build()
    model.unused = torch.nn.Parameter(torch.zeros(2))
    parallel = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=False)
    _step(parallel, len(task.source_dictionary))
    with pytest.raises(RuntimeError, match="find_unused_parameters"):
        _step(parallel, len(task.source_dictionary))


@pytest.mark.usefixtures("alone_in_a_group")
def test_finetuning_goes_on_though_the_language_model_head_has_no_gradient(build: Build) -> None:
    looks = compose("finetuning", ["task=sst2"]).distributed_training.find_unused_parameters
    task, model = build()
    model.register_classification_head("head", num_classes=2)
    parallel = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=looks)
    tokens = torch.randint(4, len(task.source_dictionary) - 1, (3, 20))
    for _ in range(2):  # DDP complains in the second
        logits, _ = parallel(tokens, features_only=True, classification_head_name="head")
        logits.square().sum().backward()
    assert model.encoder.lm_head.dense.weight.grad is None

"""The optimizer ``fused_adamw`` against fairseq's Adam, which it must equal to rounding, in its checkpoints too."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fairseq import optim
from omegaconf import OmegaConf
from torch import Tensor

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from linformer_fairseq.checkpoints.reading import read_checkpoint
from tests.checkpoint_files import same
from tests.fairseq_config import parse

SETTINGS = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-6, "weight_decay": 0.1, "lr": [0.01]}
STEPS = 50


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """So small tensors are slow on two threads if another process has one of the cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make_parameters(dtype: torch.dtype = torch.float32) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(1)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    # a matrix, a vector of more than one vector register, a scalar, a transposed matrix, every other column
    tensors = [numbers(7, 5), numbers(131), numbers(), numbers(5, 7).t(), numbers(7, 10)[:, ::2]]
    return [torch.nn.Parameter(tensor) for tensor in tensors]


def gradients(step: int, parameters: list[torch.nn.Parameter]) -> list[Tensor | None]:
    """Of each update: from 1 down to where eps counts; the second parameter has none in every third update."""
    generator = torch.Generator().manual_seed(100 + step)
    found: list[Tensor | None] = [
        10.0**-i * torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.dtype)
        for i, p in enumerate(parameters)
    ]
    if step % 3 == 0:
        found[1] = None
    return found


def build(name: str, parameters: list[torch.nn.Parameter], **settings: Any) -> Any:
    cfg = {"_name": name, **SETTINGS, **settings}
    if name == "adam":
        cfg |= {"use_old_adam": True, "tpu": False}  # the class Adam, wherever the tests run
    return optim.build_optimizer(OmegaConf.create(cfg), parameters)


def take_steps(optimizer: Any, parameters: list[torch.nn.Parameter], first: int = 0, last: int = STEPS) -> None:
    for step in range(first, last):
        optimizer.set_lr(0.01 / (1 + step % 10))
        for p, gradient in zip(parameters, gradients(step, parameters), strict=True):
            p.grad = gradient
        optimizer.step()


def assert_close(found: list[torch.nn.Parameter], expected: list[torch.nn.Parameter]) -> None:
    tolerance = 1e-12 if expected[0].dtype == torch.float64 else 2e-6
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def through_a_file(state: Any) -> Any:
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("eps", [1e-8, 1e-6, 1e-2])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("betas", ["(0.9, 0.98)", "(0.9, 0.999)", "(0.0, 0.5)"])
def test_steps_equal_those_of_adam(dtype: torch.dtype, eps: float, weight_decay: float, betas: str) -> None:
    settings = {"adam_eps": eps, "weight_decay": weight_decay, "adam_betas": betas}
    ours, theirs = make_parameters(dtype), make_parameters(dtype)
    take_steps(build("fused_adamw", ours, **settings), ours)
    take_steps(build("adam", theirs, **settings), theirs)
    assert_close(ours, theirs)
    for p, start in zip(theirs, make_parameters(dtype), strict=True):
        assert (p - start).abs().max() > 1e-5


def test_a_step_is_one_kernel() -> None:
    parameters = make_parameters()
    optimizer = build("fused_adamw", parameters)
    with torch.profiler.profile() as profile:
        take_steps(optimizer, parameters, 1, 2)
    assert [event.name for event in profile.events()].count("aten::_fused_adamw_") == 1


@pytest.mark.parametrize("names", [("adam", "fused_adamw"), ("fused_adamw", "adam"), ("fused_adamw", "fused_adamw")])
def test_resumes_from_what_the_other_saved(names: tuple[str, str]) -> None:
    whole, parts = make_parameters(), make_parameters()
    take_steps(build(names[1], whole), whole)
    first = build(names[0], parts)
    take_steps(first, parts, 0, STEPS // 2)
    second = build(names[1], parts, adam_eps=1.0)  # what is in the file counts, and it is the eps that was asked for
    second.load_state_dict(through_a_file(first.state_dict()))
    take_steps(second, parts, STEPS // 2, STEPS)
    assert_close(parts, whole)
    if len(set(names)) == 1:
        assert same([p.data for p in parts], [p.data for p in whole])


def test_the_state_is_like_that_of_adam() -> None:
    states = []
    for name in ("fused_adamw", "adam"):
        parameters = make_parameters()
        optimizer = build(name, parameters)
        take_steps(optimizer, parameters, 0, 7)
        states.append(optimizer.state_dict())
    ours, theirs = states
    assert ours["param_groups"] == theirs["param_groups"]
    assert ours["param_groups"][0]["eps"] == SETTINGS["adam_eps"]
    assert ours["state"].keys() == theirs["state"].keys()
    for key, expected in theirs["state"].items():
        found = ours["state"][key]
        assert type(found["step"]) is int and found["step"] == expected["step"]
        torch.testing.assert_close(found, expected)


def test_goes_on_with_averages_in_another_layout() -> None:
    whole, parts = make_parameters(), make_parameters()
    take_steps(build("fused_adamw", whole), whole, 0, 10)
    first = build("fused_adamw", parts)
    take_steps(first, parts, 0, 5)
    state = first.state_dict()
    for averages in state["state"].values():
        if averages["exp_avg"].dim() == 2:
            averages["exp_avg"] = averages["exp_avg"].t().contiguous().t()
    second = build("fused_adamw", parts)
    second.load_state_dict(state)
    take_steps(second, parts, 5, 10)
    assert same([p.data for p in parts], [p.data for p in whole])


def test_returns_what_the_closure_returns() -> None:
    p = torch.nn.Parameter(torch.ones(3))

    def closure() -> Tensor:
        loss = (2 * p).sum()
        loss.backward()
        return loss

    assert build("fused_adamw", [p]).optimizer.step(closure).item() == 6
    assert (p < 1).all()


def test_is_built_from_the_command_line(data: Path) -> None:
    words = [
        "--task",
        "masked_lm",
        "--criterion",
        "masked_lm",
        "--arch",
        "linformer_roberta_tiny",
        "--optimizer",
        "fused_adamw",
    ]
    words += ["--adam-betas", "(0.8, 0.9)", "--adam-eps", "1e-3", "--weight-decay", "0.3", "--lr", "0.7"]
    cfg = parse(data, *words)
    (group,) = optim.build_optimizer(cfg.optimizer, make_parameters()).param_groups
    given = {key: group[key] for key in ("betas", "eps", "weight_decay", "lr")}
    assert given == {"betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.3, "lr": 0.7}


def test_an_epsilon_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match=r"adam_eps=-1.0: expected at least 0"):
        build("fused_adamw", make_parameters(), adam_eps=-1.0)


def wrapped(wrapper: Any, name: str, parameters: list[torch.nn.Parameter], bf16: bool) -> Any:
    common = {"bf16": bf16, "fp16_no_flatten_grads": True, "fp16_scale_window": 8, "fp16_init_scale": 4}
    common |= {"fp16_scale_tolerance": 0.0, "threshold_loss_scale": None, "min_loss_scale": 1e-4}
    optimizer = {"_name": name, **SETTINGS}
    if name == "adam":
        optimizer |= {"use_old_adam": True, "tpu": False}
    return wrapper.build_optimizer(OmegaConf.create({"common": common, "optimizer": optimizer}), parameters)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_equals_adam_below_half_precision(dtype: torch.dtype) -> None:
    """With fp16's loss scaling, or without as with bf16; saved and loaded on the way."""
    masters = []
    for names in (("adam", "adam"), ("fused_adamw", "fused_adamw"), ("adam", "fused_adamw"), ("fused_adamw", "adam")):
        parameters = make_parameters(dtype)
        optimizer = wrapped(optim.FP16Optimizer, names[0], parameters, dtype == torch.bfloat16)
        for step in range(20):
            if step == 10:
                state, copies = through_a_file(optimizer.state_dict()), optimizer.fp32_params
                optimizer = wrapped(optim.FP16Optimizer, names[1], parameters, dtype == torch.bfloat16)
                optimizer.load_state_dict(state)
                for p, copy in zip(optimizer.fp32_params, copies, strict=True):
                    p.data.copy_(copy.data)
            optimizer.zero_grad()
            losses = [(p * g).sum() for p, g in zip(parameters, gradients(3 * step + 1, parameters), strict=True)]
            optimizer.backward(torch.stack(losses).float().sum())
            optimizer.clip_grad_norm(1.0)
            optimizer.step()
        assert all(p.dtype == dtype for p in parameters)
        masters.append(optimizer.fp32_params)
    for found in masters[1:]:
        assert_close(found, masters[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_memory_efficient_half_precision_is_refused(dtype: torch.dtype) -> None:
    expected = f"fused_adamw got {dtype} parameters .* needs float32: leave --memory-efficient-fp16"
    with pytest.raises(ValueError, match=expected):
        wrapped(optim.MemoryEfficientFP16Optimizer, "fused_adamw", make_parameters(dtype), dtype == torch.bfloat16)
    assert not build("fused_adamw", make_parameters()).supports_memory_efficient_fp16


@pytest.mark.parametrize("betas", ["0.9", "(0.9, 1.0)", "(-0.1, 0.9)", "(0.9,)"])
def test_other_betas_are_refused(betas: str) -> None:
    with pytest.raises(ValueError, match=r"adam_betas=.*: expected two numbers from 0 to below 1"):
        build("fused_adamw", make_parameters(), adam_betas=betas)


def test_sparse_gradients_are_refused() -> None:
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="sparse gradient"):
        build("fused_adamw", list(embedding.parameters())).step()


@pytest.mark.slow
def test_a_training_changes_between_the_two(
    train: Callable[..., str], tiny_settings: dict[str, Any], tmp_path: Path
) -> None:
    """By both entry points, with nothing but the optimizer's name changed."""
    options = {f"optimizer.{key}": value for key, value in SETTINGS.items() if key != "lr"}
    settings = {**tiny_settings, **options}

    def run(name: str, updates: int, folder: str, program: str = "fairseq-train") -> Any:
        more = {"optimizer._name": name, "optimization.max_update": updates}
        train(program, {**settings, **more}, tmp_path / folder)
        return read_checkpoint(tmp_path / folder / "checkpoint_last.pt")

    theirs = run("adam", 5, "adam")
    first = run("fused_adamw", 2, "both")
    second = run("adam", 3, "both")
    last = run("fused_adamw", 5, "both", "fairseq-hydra-train")
    assert [x["optimizer_history"][-1]["num_updates"] for x in (theirs, first, second, last)] == [5, 2, 3, 5]
    assert {part["optimizer_name"] for part in last["optimizer_history"]} == {"FairseqAdam"}
    torch.testing.assert_close(last["model"], theirs["model"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(last["last_optimizer_state"], theirs["last_optimizer_state"], rtol=1e-3, atol=1e-5)
    assert not same(last["model"], theirs["model"])  # fused_adamw has really been taken

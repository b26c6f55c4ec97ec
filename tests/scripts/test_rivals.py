"""scripts/rivals: Performer's and Nystrom attention as fairseq calls them, and pretrained by `linformer pretrain`."""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from fairseq.models import build_model
from torch import Tensor

from benchmarks.efficiency.models.fairseq_task import Task, encoder_options
from benchmarks.efficiency.sizes import Sizes
from linformer_fairseq.analysis.nystrom import pseudo_inverse
from linformer_fairseq.results.perplexity import groups
from linformer_fairseq.results.run_row import read_run
from scripts.rivals.attention import CalledByFairseq, Nystrom, Performer

PLUGIN = Path(__file__).resolve().parents[2] / "scripts" / "rivals"
WIDTH, HEADS, N, M = 8, 2, 12, 4
DEPTH = WIDTH // HEADS
OPTIONS = {"performer": "features", "nystrom": "landmarks"}


def attention(name: str) -> CalledByFairseq:
    torch.manual_seed(1)
    made = Performer(WIDTH, HEADS, M) if name == "performer" else Nystrom(WIDTH, HEADS, N, M)
    return made.double()


def inputs(length: int = 11) -> Tensor:
    """(T, 2, C)."""
    return torch.randn(length, 2, WIDTH, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def padding(length: int, tokens: int) -> Tensor:
    """(2, T): the second sequence has fewer tokens than the first."""
    return torch.arange(length) >= torch.tensor([[length], [tokens]])


def called(module: CalledByFairseq, x: Tensor, mask: Tensor | None = None) -> Tensor:
    return module(query=x, key=x, value=x, key_padding_mask=mask, need_weights=False, attn_mask=None)[0]


def performer_formula(features: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The ratio of sums over phi(q) phi(k), for a head of one sequence: (T, D)."""

    def phi(x: Tensor) -> Tensor:
        x = x / DEPTH**0.25
        return (x @ features.T - x.square().sum(-1, keepdim=True) / 2).exp() / math.sqrt(M)

    products = phi(query) @ phi(key).T
    return products @ value / products.sum(-1, keepdim=True)


def nystrom_formula(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The three softmax matrices with segments of ceil(T / m) tokens, for a head of one sequence: (T, D)."""
    size = math.ceil(len(query) / M)
    q, k = (torch.stack([part.mean(0) for part in x.split(size)]) for x in (query, key))

    def scores(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.T / math.sqrt(DEPTH)).softmax(-1)

    return scores(query, k) @ pseudo_inverse(scores(q, k)) @ scores(q, key) @ value


def by_formula(module: CalledByFairseq, x: Tensor) -> Tensor:
    """The output for a sequence (T, C), head by head."""
    heads = zip(*(linear(x).split(DEPTH, -1) for linear in (module.q_proj, module.k_proj, module.v_proj)), strict=True)
    if isinstance(module, Performer):
        mixed = [performer_formula(module.features, *parts) for parts in heads]
    else:
        mixed = [nystrom_formula(*parts) for parts in heads]
    return module.out_proj(torch.cat(mixed, -1))


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("tokens", [11, 9, 5, 2, 1])
def test_each_sequence_has_the_values_of_the_formula_in_a_padded_batch(name: str, tokens: int) -> None:
    module, x = attention(name), inputs()
    out = called(module, x, padding(11, tokens))
    torch.testing.assert_close(out[:, 0], by_formula(module, x[:, 0]))
    torch.testing.assert_close(out[:tokens, 1], by_formula(module, x[:tokens, 1]))
    torch.testing.assert_close(called(module, x)[:, 1], by_formula(module, x[:, 1]))


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_gradients(name: str) -> None:
    module, mask = attention(name), padding(7, 5)
    x = inputs(7).requires_grad_()
    weights = list(module.parameters())

    def outputs(x: Tensor, *given: Tensor) -> tuple[Tensor, Tensor]:
        names = [name for name, _ in module.named_parameters()]
        arguments = {"query": x, "key": x, "value": x, "key_padding_mask": mask}
        out = torch.func.functional_call(module, dict(zip(names, given, strict=True)), (), arguments)[0]
        return out[:, 0], out[:5, 1]

    assert torch.autograd.gradcheck(outputs, (x, *weights))
    sum(part.square().sum() for part in outputs(x, *weights)).backward()
    assert not x.grad[5:, 1].any() and x.grad[:5].abs().sum(-1).all()
    assert all(linear.weight.grad.any() for linear in module.children() if isinstance(linear, torch.nn.Linear))


@pytest.mark.parametrize("name", OPTIONS)
def test_attention_masks_are_refused(name: str) -> None:
    x = inputs()
    with pytest.raises(ValueError, match="attn_mask"):
        attention(name)(x, x, x, attn_mask=torch.zeros(11, 11))


def model(name: str, **options: object) -> torch.nn.Module:
    sizes = encoder_options(Sizes(2, 16, 32, 2, 40), N, dropout=0.0)
    return build_model(Namespace(arch=f"{name}_prenorm", **{**sizes, **options}), Task(40, N))


@pytest.mark.parametrize("name", OPTIONS)
def test_all_but_the_attention_is_robertas(name: str) -> None:
    torch.manual_seed(1)
    roberta, other = model("roberta"), model(name, **{OPTIONS[name]: M})
    shapes = {key: value.shape for key, value in other.state_dict().items()}
    features = {key for key in shapes if key.endswith("self_attn.features")}
    assert {shapes.pop(key) for key in features} == ({(M, 8)} if name == "performer" else set())
    assert shapes == {key: value.shape for key, value in roberta.state_dict().items()}
    for key, weight in other.named_parameters():
        if key.endswith("proj.weight"):
            assert float(weight.detach().std()) == pytest.approx(0.02, rel=0.2), "RoBERTa's initialization"
    layers = list(other.encoder.sentence_encoder.layers)
    assert all(layer.normalize_before for layer in layers)
    if name == "performer":
        assert not torch.equal(layers[0].self_attn.features, layers[1].self_attn.features)


@pytest.mark.parametrize("name", OPTIONS)
def test_the_features_of_a_sequence_do_not_depend_on_its_batch(name: str) -> None:
    made = model(name, **{OPTIONS[name]: M}).eval()
    tokens = torch.randint(4, 39, (2, N), generator=torch.Generator().manual_seed(1))
    tokens[1, 7:] = 1
    with torch.no_grad():
        together, alone = (made(some, features_only=True)[0] for some in (tokens, tokens[1:, :7]))
    torch.testing.assert_close(together[1:, :7], alone)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize(
    ("options", "message"),
    [({}, "None"), ({"m": 0}, "=0"), ({"m": M, "attention_dropout": 0.1}, "attention_dropout=0.1")],
)
def test_wrong_options(name: str, options: dict[str, object], message: str) -> None:
    given = {OPTIONS[name] if key == "m" else key: value for key, value in options.items()}
    with pytest.raises(ValueError, match=message):
        model(name, **given)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_a_run_is_resumed_and_has_a_row(
    name: str, tiny_corpus: Path, tmp_path: Path, run_fairseq: Callable[..., str]
) -> None:
    words = [
        *("pretrain", "experiment=small/roberta", f"common.user_dir={PLUGIN}", f"model._name={name}_prenorm"),
        *("run_config=cpu", f"task.data={tiny_corpus}", "task.tokens_per_sample=32", "model.encoder_embed_dim=32"),
        *("run.tokens_per_update=256", "run.tokens_per_batch=256", "lr_scheduler.warmup_updates=1"),
        *("run.name=rival", "lr_scheduler.total_num_update=20"),
    ]
    for updates in (4, 6):
        run_fairseq("linformer", *words, f"model.{OPTIONS[name]}=8", f"optimization.max_update={updates}", cwd=tmp_path)
    folder = tmp_path / "runs" / "rival"
    attempts = json.loads((folder / "run.json").read_text())["attempts"]
    assert [(one["updates_at_start"], one["updates_at_end"]) for one in attempts] == [(0, 4), (4, 6)]
    row = read_run(folder)
    assert (row.model.architecture, row.model.family, row.model.k) == (f"{name}_prenorm", name, 8)
    assert row.finished and row.perplexity and row.experiment == "small/roberta"
    ((group,), _) = groups([row])
    assert group.name == f"{name.capitalize()}, n = 32, m = 8" and not group.is_baseline

    said = run_fairseq(
        "linformer", *words, f"model.{OPTIONS[name]}=4", "optimization.max_update=8", cwd=tmp_path, status=1
    )
    assert f"model.{OPTIONS[name]} 8, but this one has 4" in said

"""No causal form: early outputs depend on late tokens, and hiding the rows that contain these hides too much."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from linformer_fairseq.analysis.encoder import Attention, Heads
from linformer_fairseq.analysis.fairseq_encoder import FairseqEncoder, load_fairseq
from linformer_fairseq.analysis.projected_rows import projected_rows
from linformer_fairseq.core import LinformerSelfAttention
from linformer_fairseq.files.shipped import shipped_folder
from tests.analysis.test_projected_rows import make
from tests.core.cases import EVERY_CASE, WIDTH, K, N

SMALL = shipped_folder("linformer-small")
SENTENCE = "She read the letter twice and put it back into the drawer. "


def visible(attention: LinformerSelfAttention, x: Tensor) -> Tensor:
    """Rows of the first head that are made of a position and earlier ones only, (T, R)."""
    position = torch.arange(x.size(1))
    last = torch.where(projected_rows(attention, x)[0].weights != 0, position, -1).amax(1)
    return last <= position.unsqueeze(1)


def with_rows_hidden(attention: LinformerSelfAttention, x: Tensor) -> Tensor:
    """The output if each position attends to its visible rows alone."""
    projected = attention.project(x)
    return attention.attend(x, projected._replace(mask=visible(attention, x)[None, None]))


def change(before: Tensor, after: Tensor) -> float:
    return float((after - before).norm() / before.norm())


@torch.no_grad()
@pytest.mark.parametrize("length", [N, 5])
@pytest.mark.parametrize("case", EVERY_CASE)
def test_the_first_position_depends_on_the_last(case: str, length: int) -> None:
    attention = make(case)
    x = torch.randn(1, length, WIDTH, generator=torch.Generator().manual_seed(1))
    other = x.clone()
    other[:, -1] += 5
    assert change(attention(x)[0][:, 0], attention(other)[0][:, 0]) > 1e-3


@torch.no_grad()
def test_hidden_rows_of_a_full_projection_leave_nothing() -> None:
    attention = make("layerwise-linear")
    seen = visible(attention, torch.randn(1, N, WIDTH))
    assert not seen[:-1].any() and seen[-1].all()


@torch.no_grad()
@pytest.mark.parametrize("case", ["layerwise-mean_pool-stretch", "key_value-convolution-stretch"])
def test_hidden_windows_are_causal_but_a_position_does_not_see_its_own(case: str) -> None:
    attention, window = make(case), 3
    x = torch.randn(1, N, WIDTH, generator=torch.Generator().manual_seed(1))
    seen = visible(attention, x)
    assert seen.sum(1).tolist() == [*((position + 1) // window for position in range(N - 1)), K]
    other = x.clone()
    other[:, -1] += 5
    before, after = with_rows_hidden(attention, x), with_rows_hidden(attention, other)
    torch.testing.assert_close(after[:, window - 1 : -1], before[:, window - 1 : -1], rtol=0, atol=0)
    # and one token more makes other windows of all tokens before it
    assert visible(attention, x[:, : 2 * K]).size(1) == K and visible(attention, x[:, : 2 * K + 1]).size(1) == 5


@pytest.fixture(scope="module")
def small() -> FairseqEncoder:
    return load_fairseq(SMALL / "model.safetensors", SMALL, torch.device("cpu"))


def replaced(encoder: FairseqEncoder, length: int) -> Tensor:
    """A block and the same with another last token, (2, T)."""
    tokens = torch.tensor([encoder.first, *encoder.encode(SENTENCE * length)][:length]).repeat(2, 1)
    tokens[1, -1] = int(encoder.encode("mountain")[0])
    assert tokens[0, -1] != tokens[1, -1]
    return tokens


def layer1(encoder: FairseqEncoder, tokens: Tensor) -> Heads:
    """What the heads of the first layer compute."""
    found: list[Heads] = []

    def see(layer: int, attention: Attention) -> None:
        if layer == 0:
            found.append(attention.heads())

    encoder.attend(tokens, see)
    return found[0]


def test_the_figures_of_the_documentation(small: FairseqEncoder) -> None:
    """The output of the first layer's attention at the first position, when the last token is another."""
    long = layer1(small, replaced(small, 512)).output[:, :, 0]
    assert 100 * change(*long) == pytest.approx(0.958, abs=0.005)
    heads = layer1(small, replaced(small, 128))  # up to k = 256 tokens, each is a row: dense attention
    scores = heads.query @ heads.key.transpose(-1, -2) / heads.query.size(-1) ** 0.5
    dense = scores.softmax(-1) @ heads.value
    torch.testing.assert_close(dense, heads.output)
    assert 100 * change(*dense[:, :, 0]) == pytest.approx(2.328, abs=0.005)
    causal = scores.masked_fill(torch.ones(128, 128, dtype=torch.bool).triu(1), -torch.inf).softmax(-1) @ heads.value
    assert change(*causal[:, :, 0]) == 0

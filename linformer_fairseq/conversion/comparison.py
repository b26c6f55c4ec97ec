"""How near a converted model is to its source, on text: perplexity of masked tokens, attention of each layer."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn import functional as F

from linformer_fairseq.core import attention_input
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.models import LinformerRobertaModel

_MASKED = 0.15
TOKENS_PER_BATCH = 4096


def batches(rows: Tensor) -> Iterator[Tensor]:
    """Parts (b, T) of blocks (B, T), of about `TOKENS_PER_BATCH` tokens."""
    yield from rows.split(max(1, TOKENS_PER_BATCH // rows.size(1)))


@torch.no_grad()
def perplexity(model: LinformerRobertaModel, rows: Tensor, seed: int) -> float:
    """Perplexity of masked tokens: 15 % of the tokens, drawn at random, are replaced by ``<mask>`` and predicted.

    Args:
        model: in evaluation mode.
        rows: (B, T) token ids.
        seed: of the draw; with the same one the same tokens are masked.

    Raises:
        UserError: no token was drawn.
    """
    dictionary = model.encoder.dictionary
    generator = torch.Generator().manual_seed(seed)
    loss, count = 0.0, 0
    device = next(model.parameters()).device
    with Progress("perplexity", rows.numel(), items="tokens") as progress:
        for part in batches(rows):
            chosen = (torch.rand(part.shape, generator=generator) < _MASKED) & (part >= dictionary.nspecial)
            tokens, chosen = part.to(device), chosen.to(device)
            masked = tokens.masked_fill(chosen, dictionary.index("<mask>"))
            logits, _ = model(masked, masked_tokens=chosen)
            loss += float(F.cross_entropy(logits.float(), tokens[chosen], reduction="sum"))
            count += int(chosen.sum())
            progress.advance(part.numel())
    if not count:
        raise UserError(f"--text: none of {rows.numel():,} tokens was masked; give more text")
    return float(torch.tensor(loss / count, dtype=torch.float64).exp())


@torch.no_grad()
def attention_errors(dense: LinformerRobertaModel, model: LinformerRobertaModel, rows: Tensor) -> list[float]:
    """Relative error of the output of each layer's attention, where its input is that of the source's layer.

    It is |A' - A| / |A|, with the Euclidean norm over all tokens and channels, where A is the output of the source's
    attention, W^O included, and A' that of the Linformer.

    Args:
        dense: the source, from `building.build_dense`.
        model: the Linformer, with the same n.
        rows: (B, T) token ids.
    """
    layers = len(dense.encoder.sentence_encoder.layers)
    wrong, whole = torch.zeros(layers, dtype=torch.float64), torch.zeros(layers, dtype=torch.float64)
    with Progress("attention", rows.numel(), items="tokens") as progress:
        for part in batches(rows):
            for number, (expected, x) in enumerate(dense_attention(dense, part)):
                found, _ = model.encoder.sentence_encoder.layers[number].self_attn(x)
                wrong[number] += float((found - expected).double().square().sum())
                whole[number] += float(expected.double().square().sum())
            progress.advance(part.numel())
    return [float(error) for error in (wrong / whole).sqrt()]


@torch.no_grad()
def dense_attention(dense: LinformerRobertaModel, tokens: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The output of the attention of each layer, and its input; (B, T, C) both.

    Args:
        dense: the source, from `building.build_dense`.
        tokens: (B, T), without padding.
    """
    encoder = dense.encoder.sentence_encoder
    states = encoder(tokens.to(next(dense.parameters()).device), return_all_hiddens=True)["encoder_states"]
    for layer, state in zip(encoder.layers, states, strict=False):
        x = state.transpose(0, 1)
        source = attention_input(layer, x)
        expected, _ = layer.self_attn(source)
        yield expected, source

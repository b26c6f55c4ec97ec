from pathlib import Path

import pytest
import torch
from fairseq import tasks
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch.nn import functional as F

import linformer_fairseq.models  # noqa: F401 (installs the patches)
from tests.fairseq_config import parse


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("recomputed", [True, False])
def test_padded_batches_are_computed_without_cudnn(
    enabled: bool, recomputed: bool, tiny_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--task", "masked_lm", "--arch", "roberta", "--batch-size", "1", "--criterion", "masked_lm"]
    size = ["--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-attention-heads", "2"]
    config = parse(tiny_corpus, *words, *size)
    config.model.checkpoint_activations = recomputed  # an option of fairseq's RoBERTa in Hydra alone
    task = tasks.setup_task(config.task)
    model = task.build_model(config.model)
    seen: list[bool] = []

    def attend(*args: object, **kwargs: object) -> torch.Tensor:
        seen.append(torch.backends.cuda.cudnn_sdp_enabled())
        return attention(*args, **kwargs)

    attention = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", attend)
    pad = task.source_dictionary.pad()
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(enabled)
    try:
        for row in ([0, 2, pad], [0, 6, 2]):
            model(torch.tensor([[0, 5, 2], row]), features_only=True)[0].sum().backward()
        assert torch.backends.cuda.cudnn_sdp_enabled() == enabled
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
    assert seen == ([False, False, enabled, enabled] if recomputed else [False, enabled])


def test_layers_can_be_scripted_and_called_by_name() -> None:
    config = TransformerConfig()
    config.encoder.embed_dim, config.encoder.ffn_embed_dim, config.encoder.attention_heads = 8, 16, 2
    layer = TransformerEncoderLayerBase(config).eval()
    x, padding = torch.randn(3, 2, 8), torch.tensor([[False, False, False], [False, True, True]])
    expected = layer(x, encoder_padding_mask=padding)
    torch.testing.assert_close(torch.jit.script(layer)(x, padding), expected)

from pathlib import Path

import pytest
import torch
from fairseq import tasks
from torch.nn import functional as F

import linformer_fairseq.models  # noqa: F401 (installs the patches)
from tests.fairseq_config import parse


@pytest.mark.parametrize("enabled", [True, False])
def test_padded_batches_are_computed_without_cudnn(
    enabled: bool, tiny_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["--task", "masked_lm", "--arch", "roberta", "--batch-size", "1", "--criterion", "masked_lm"]
    size = ["--encoder-layers", "1", "--encoder-embed-dim", "8", "--encoder-attention-heads", "2"]
    config = parse(tiny_corpus, *words, *size)
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
        model(torch.tensor([[0, 5, 2], [0, 2, pad]]), features_only=True)
        model(torch.tensor([[0, 5, 2], [0, 6, 2]]), features_only=True)
        assert torch.backends.cuda.cudnn_sdp_enabled() == enabled
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
    assert seen == [False, enabled]

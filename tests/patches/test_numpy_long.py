"""Blocks of one sentence each."""

import numpy as np
import torch
from fairseq.data import TokenBlockDataset

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)


def test_one_block_per_sentence() -> None:
    sentences = [torch.arange(4, 4 + length) for length in (3, 5, 2)]
    blocks = TokenBlockDataset(sentences, np.array([3, 5, 2]), block_size=None, pad=1, eos=2, break_mode="eos")
    assert [block.tolist() for block in blocks] == [sentence.tolist() for sentence in sentences]
    assert not hasattr(np, "compat") or np.lib.NumpyVersion(np.__version__) < "2.0.0", "numpy itself is left alone"

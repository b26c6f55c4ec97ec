"""Operations by formula are those that torch counts while a real model runs."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from linformer_fairseq.core import PROJECTIONS, SHARINGS
from linformer_fairseq.launch.options import with_defaults
from linformer_fairseq.planning.flops import flops_of
from linformer_fairseq.planning.sizes import sizes_of
from tests.planning.conftest import SYMBOLS, N

LINFORMER, ROBERTA = "linformer_roberta", "roberta"
BATCH, MASKED = 3, 4
# What is not the projection's default.
OTHER_SHORT_INPUTS = {**dict.fromkeys(PROJECTIONS, "first_columns"), "linear": "stretch"}
CASES = [
    (ROBERTA, {}),
    (ROBERTA, {"checkpoint_activations": True}),
    (ROBERTA, {"quant_noise_pq": 0.1}),
    *((LINFORMER, {"projected_dim": 8, "sharing": s, "projection": p}) for s in SHARINGS for p in PROJECTIONS),
    *(
        (LINFORMER, {"projected_dim": 8, "sharing": s, "projection": "linear", "freeze_projection": True})
        for s in ("none", "layerwise")
    ),
    *((LINFORMER, {"projected_dim": [8, 6], "sharing": s, "projection": "linear"}) for s in ("headwise", "layerwise")),
    (LINFORMER, {"projected_dim": [[8, 7, 6, 5], [4, 3, 2, 1]], "sharing": "none", "projection": "linear"}),
    (LINFORMER, {"projected_dim": [[3, 8, 6, 4], [4, 4, 4, 4]], "sharing": "none", "projection": "mean_pool"}),
    *((LINFORMER, {"projected_dim": 8, "sharing": s, "checkpoint_activations": True}) for s in SHARINGS),
    *(
        (LINFORMER, {"projected_dim": 8, "checkpoint_activations": True, "encoder_normalize_before": n, "dropout": d})
        for n, d in ((True, 0.0), (True, 0.1), (False, 0.0))
    ),
    *((LINFORMER, {"projected_dim": 8, "projection": p, "short_inputs": s}) for p, s in OTHER_SHORT_INPUTS.items()),
    # the constraint on the rows costs no product
    (LINFORMER, {"projected_dim": 8, "sharing": "none", "projection": "linear", "row_weights": "affine"}),
    (LINFORMER, {"projected_dim": 8, "sharing": "key_value", "projection": "linear", "row_weights": "affine"}),
    (LINFORMER, {"projected_dim": 8, "sharing": "headwise", "projection": "convolution", "row_weights": "free"}),
    *(
        (
            LINFORMER,
            {"projected_dim": 8, "sharing": "key_value", "projection": "convolution", "row_weights": r} | overlap,
        )
        for r in ("free", "affine")
        for overlap in ({"kernel_strides": 2}, {"kernel_strides": 3})
    ),
    (LINFORMER, {"projected_dim": 8, "sharing": "layerwise", "offload_activations": True}),
    (LINFORMER, {"projected_dim": 8, "sharing": "none", "quant_noise_pq": 0.0, "encoder_normalize_before": True}),
]


def counted(model, length, classes):
    """What torch counts of a forward, and of a forward and a backward pass of BATCH sequences."""
    tokens = torch.randint(4, SYMBOLS, (BATCH, length), generator=torch.Generator().manual_seed(1))
    masked = torch.zeros(BATCH, length, dtype=torch.bool)
    masked[:, :MASKED] = True
    words = {"classification_head_name": "sentence_classification_head"} if classes else {"masked_tokens": masked}
    # The fused kernels are not counted on a CPU; what they compute is the same.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        output, _ = model.train()(tokens, **words)
        forward = counter.get_total_flops()
        output.sum().backward()
    return forward, counter.get_total_flops()


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_operations_are_those_that_torch_counts(small, build, name, options):
    config = small(name, **options)
    sizes, model = sizes_of(with_defaults(config), SYMBOLS), build(config)
    for length in (N - 4, 5):
        flops = flops_of(sizes, length, MASKED)
        forward, training = counted(model, length, 0)
        assert (BATCH * flops.forward, BATCH * flops.training) == (forward, training), length


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (ROBERTA, {}),
        *((LINFORMER, {"projected_dim": 8, "projection": p}) for p in PROJECTIONS),
        *((LINFORMER, {"projected_dim": k, "projection": "linear", "freeze_projection": True}) for k in (8, N - 1)),
        (LINFORMER, {"projected_dim": 8, "checkpoint_activations": True}),
    ],
    ids=str,
)
def test_a_classification_has_no_masked_language_model_head(small, build, name, options):
    config = small(name, 3, **options)
    flops = flops_of(sizes_of(with_defaults(config), SYMBOLS), N, masked=0)
    forward, training = counted(build(config), N, 3)
    assert BATCH * flops.forward == forward
    assert BATCH * flops.training == training


def test_layerdrop_leaves_out_its_share_of_the_layers(small):
    whole, half = (
        flops_of(sizes_of(with_defaults(small(ROBERTA, encoder_layerdrop=p)), SYMBOLS), N, MASKED) for p in (0.0, 0.5)
    )
    assert half.layers == whole.layers / 2
    assert half.outside == whole.outside

"""The number of parameters by formula is that of the model that fairseq builds."""

from __future__ import annotations

import pytest

from linformer_fairseq.launch.options import with_defaults
from linformer_fairseq.planning.data import data_of
from linformer_fairseq.planning.sizes import sizes_of
from tests.planning.conftest import SMALL, SYMBOLS

LINFORMER, ROBERTA = "linformer_roberta", "roberta"
CASES = [
    (ROBERTA, {}),
    (ROBERTA, {"untie_weights_roberta": True, "layernorm_embedding": False}),
    ("roberta_prenorm", {}),
    (ROBERTA, {"quant_noise_pq": 0.1}),
    (LINFORMER, {"projected_dim": 8}),
    (LINFORMER, {"projected_dim": 8, "encoder_layers": 3, "encoder_layers_to_keep": "0,2"}),
    ("linformer_roberta_prenorm", {"projected_dim": 8}),
    (LINFORMER, {"projected_dim": [8, 6], "projection": "linear"}),
    (LINFORMER, {"projected_dim": 8, "freeze_projection": True}),
    (LINFORMER, {"projected_dim": 8, "projection": "linear", "freeze_projection": True}),
    (LINFORMER, {"projected_dim": 8, "sharing": "none", "projection": "linear"}),
    (LINFORMER, {"projected_dim": [[8, 7, 6, 5], [4, 3, 2, 1]], "sharing": "none", "projection": "linear"}),
    (LINFORMER, {"projected_dim": 8, "sharing": "headwise", "projection": "linear"}),
    (LINFORMER, {"projected_dim": 8, "sharing": "key_value", "projection": "linear", "untie_weights_roberta": True}),
    (LINFORMER, {"projected_dim": 8, "sharing": "none", "projection": "mean_pool"}),
    (LINFORMER, {"projected_dim": 8, "sharing": "headwise", "projection": "convolution"}),
    (LINFORMER, {"projected_dim": 8, "sharing": "key_value", "quant_noise_pq": 0.1}),
]


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_parameters_are_those_of_the_built_model(small, build, name, options, classes):
    config = small(name, classes, **options)
    model = build(config)
    sizes = sizes_of(with_defaults(config), SYMBOLS)
    assert sizes.parameters == sum(parameter.numel() for parameter in model.parameters())
    frozen = sum(buffer.numel() for key, buffer in model.named_buffers() if "proj_" in key and "weight" in key)
    assert sizes.frozen == frozen
    assert sizes.layers == len(model.encoder.sentence_encoder.layers)


def test_sizes_are_those_of_the_architecture(small):
    config = small("linformer_roberta_large", projected_dim=8, **dict.fromkeys(SMALL))
    sizes = sizes_of(with_defaults(config), SYMBOLS)
    assert (sizes.layers, sizes.width, sizes.ffn, sizes.heads) == (24, 1024, 4096, 16)


@pytest.mark.parametrize(("name", "rows"), [(LINFORMER, 7), (ROBERTA, 8)])
def test_only_fairseqs_roberta_has_rows_for_a_dictionarys_padding(small, tmp_path, name, rows):
    (tmp_path / "dict.txt").write_text("a 2\nb 1\n<mask> 0\nmadeupword0000 0\n")
    config = with_defaults(small(name))
    config.task.data = str(tmp_path)
    assert data_of(config).vocabulary == rows


def test_another_model_is_refused_by_name(small):
    with pytest.raises(ValueError, match="model._name is 'transformer_lm': costs are known only for"):
        sizes_of(small("transformer_lm"), SYMBOLS)

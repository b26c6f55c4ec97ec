"""What is refused, and in which words; how k is written."""

from __future__ import annotations

import copy
import math
import re
import warnings
from dataclasses import fields
from typing import Any

import pytest
import torch

from linformer_fairseq.core import (
    LinformerSelfAttention,
    LinformerSettings,
    build_shared_projection,
    parse_projected_dim,
    signature,
)
from linformer_fairseq.core.signature import projection_options, signature_of
from tests.core.cases import EVERY_CASE

GOOD = {
    "embed_dim": 12,
    "num_heads": 2,
    "num_layers": 3,
    "max_positions": 16,
    "projected_dim": 4,
    "projection": "linear",
}

_PAPER = ("free", "first_columns")

_SIZES = {"embed_dim", "num_heads", "num_layers"}  # shapes of weights
_TRAINING = {"projection_init", "freeze_projection", "attention_dropout"}  # the same function of the same weights
# Of each other setting, two values with which the same weights are another function.
_OTHERS: dict[str, tuple[object, object]] = {
    "max_positions": (16, 15),
    "projected_dim": (4, [4, 4, 3]),
    "sharing": ("headwise", "key_value"),
    "projection": ("linear", "convolution"),
    "projection_step": (1.0, 0.5),
    "row_weights": ("free", "affine"),
    "short_inputs": ("first_columns", "stretch"),
    "kernel_strides": (1, 2),
}


def test_every_setting_is_in_the_signature_and_has_cases() -> None:
    """Whoever adds a setting adds it to core/signature.py (or above, with a reason) and to tests/core/cases.py."""
    names = {field.name for field in fields(LinformerSettings) if field.init}
    assert names == _SIZES | _TRAINING | _OTHERS.keys()
    for name, values in _OTHERS.items():
        good = GOOD | ({"projection": "convolution"} if name == "kernel_strides" else {})
        one, other = (signature_of(LinformerSettings(**{**good, name: value}), 2) for value in values)
        assert one != other, name
        if name != "max_positions":  # tests of lengths vary it
            assert len({str(case.get(name)) for case in EVERY_CASE.values()}) > 1, name


_STORED: list[tuple[dict[str, Any], list[int]]] = [
    ({}, [0, 0, 16, 4, 4]),
    ({"projection": "mean_pool"}, [1, 0, 16, 4, 4]),
    ({"projection": "max_pool"}, [2, 0, 16, 4, 4]),
    ({"projection": "convolution"}, [3, 0, 16, 4, 4]),
    ({"row_weights": "affine"}, [4, 0, 16, 4, 4]),
    ({"short_inputs": "stretch"}, [8, 0, 16, 4, 4]),
    ({"projection_step": 0.5}, [8_000_000, 0, 16, 4, 4]),
    ({"projection_step": 1e-4}, [15_998_400, 0, 16, 4, 4]),
    ({"projection": "convolution", "kernel_strides": 2}, [16_000_003, 0, 16, 4, 4]),
    ({"sharing": "headwise"}, [0, 1, 16, 4, 4]),
    ({"sharing": "key_value"}, [0, 2, 16, 4, 4]),
    ({"sharing": "layerwise"}, [0, 3, 16, 4, 4]),
    ({"projection": "mean_pool", "sharing": "layerwise"}, [1, 0, 16, 4, 4]),
    ({"max_positions": 20, "projected_dim": [[4, 3], [2, 1], [5, 5]]}, [0, 0, 20, 4, 3]),
]
"""Changes of `_FIRST`, and the signature of layer 0 in all checkpoints that have been written with them."""
_FIRST: dict[str, Any] = {**GOOD, "sharing": "none", "row_weights": "free", "short_inputs": "first_columns"}


@pytest.mark.parametrize(("change", "signature"), _STORED)
def test_the_numbers_in_checkpoints_stay_the_same(change: dict[str, Any], signature: list[int]) -> None:
    assert signature_of(LinformerSettings(**{**_FIRST, **change}), 0) == signature


@pytest.mark.parametrize(("change", "signature"), _STORED)
def test_the_numbers_in_checkpoints_are_read_as_the_options_that_they_meant(
    change: dict[str, Any], signature: list[int]
) -> None:
    found = projection_options(signature[0])
    assert found.keys() == {"projection", "row_weights", "short_inputs", "projection_step", "kernel_strides"}
    expected = {"projection_step": 1.0, "kernel_strides": 1, **_FIRST, **change}
    assert found == {name: expected[name] for name in found}


@pytest.mark.parametrize(("change", "stored"), _STORED)
def test_values_can_be_added_without_another_number_in_checkpoints(
    change: dict[str, Any], stored: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, (values, room) in signature._KINDS.items():
        monkeypatch.setitem(signature._KINDS, name, ((*values, "new", "newer"), room))
    settings = LinformerSettings(**{**_FIRST, **change})
    assert signature_of(settings, 0) == stored
    found = {stored[0]: projection_options(stored[0])}
    for name in signature._KINDS:
        for value in ("new", "newer"):
            other = copy.copy(settings)
            object.__setattr__(other, name, value)
            (kind, *_) = signature_of(other, 0)
            assert kind not in found and kind < 2**63
            found[kind] = projection_options(kind)
            assert found[kind] == {**found[stored[0]], name: value}
    monkeypatch.undo()
    for kind in (*list(found)[1:], -1, math.prod(signature._RADICES)):
        with pytest.raises(ValueError, match=f"^{kind} in its signature is no .* damaged, or of a newer version"):
            projection_options(kind)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 5}, "5 attention heads do not divide the width 12"),
        ({"projected_dim": 0}, "projected_dim (k) is 0 in layer 0; expected at least 1"),
        ({"projected_dim": [4, 4, -1]}, "projected_dim (k) is -1 in layer 2"),
        ({"projected_dim": [4, 4]}, "lists 2 layers ([4, 4]), but the encoder has 3"),
        ({"projected_dim": [4, 4, 4, 4]}, "lists 4 layers ([4, 4, 4, 4]), but the encoder has 3"),
        ({"projected_dim": [[4, 4], [4], [4, 4]], "sharing": "none"}, "lists 1 heads for layer 1 ([4])"),
        ({"projected_dim": [[4, 4], [4, 4], [4, 4, 4]], "sharing": "none"}, "lists 3 heads for layer 2 ([4, 4, 4])"),
        ({"projected_dim": "four"}, "projected_dim is 'four'; expected one integer k"),
        ({"projected_dim": 2.5}, "projected_dim is 2.5"),
        ({"projected_dim": True}, "projected_dim is True"),
        ({"projected_dim": []}, "projected_dim is []"),
        ({"projected_dim": "{[1]}"}, "projected_dim is '{[1]}'"),
        ({"projected_dim": b"abc"}, "projected_dim is b'abc'"),
        ({"projected_dim": [4, [4, 4], 4]}, "projected_dim is [4, [4, 4], 4]"),
        ({"sharing": "everything"}, "sharing is 'everything'; expected one of none, headwise, key_value, layerwise"),
        ({"projection": "fourier"}, "projection is 'fourier'; expected one of linear"),
        ({"projection_init": "zeros"}, "projection_init is 'zeros'; expected one of xavier, normal, jl, window_means"),
        ({"max_positions": 0}, "max_positions is 0"),
        ({"attention_dropout": 1.0}, "attention_dropout is 1.0"),
        ({"attention_dropout": "0.1"}, "attention_dropout is '0.1'"),
        ({"freeze_projection": "no"}, "freeze_projection is 'no'; expected True or False"),
        ({"projection": "mean_pool", "freeze_projection": True}, "projection=mean_pool has no parameters"),
        ({"kernel_strides": 0}, "kernel_strides is 0; expected an integer of at least 1"),
        ({"kernel_strides": 2}, "kernel_strides=2 is the size of a convolution's kernel, but projection=linear"),
        ({"projection": "convolution", "kernel_strides": 5}, "projected_dim (k) = 4; expected at most k"),
        (
            {"projection": "convolution", "kernel_strides": 3, "projected_dim": [[4, 2]] * 3, "sharing": "none"},
            "projected_dim (k) = 2; expected at most k",
        ),
        ({"row_weights": "convex"}, "row_weights is 'convex'; expected one of free, affine"),
        ({"short_inputs": "pad"}, "short_inputs is 'pad'; expected one of first_columns, stretch"),
        ({"projection_step": 0}, "projection_step is 0; expected a value from 0.0001 to 1"),
        ({"projection_step": None}, "projection_step is None"),
        ({"projection_step": 1e-5}, "projection_step is 1e-05; expected a value from 0.0001 to 1"),
        ({"projection_step": 1.5}, "projection_step is 1.5; expected a value from 0.0001 to 1"),
        ({"projection_step": 0.1, "freeze_projection": True}, "freeze_projection keeps E"),
        ({"projection_step": 0.1, "projection": "max_pool"}, "projection=max_pool has no E"),
        (
            {"row_weights": "affine", "projection": "mean_pool"},
            "row_weights=affine does not go with projection=mean_po",
        ),
        ({"projected_dim": [[4, 2]] * 3, "sharing": "headwise"}, "sharing=headwise gives them one projection"),
        ({"projected_dim": [4, 3, 2], "projection": "convolution"}, "sharing=layerwise gives them one kernel"),
    ],
)
def test_bad_settings_are_refused_by_name_and_value(change: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        LinformerSettings(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (128, 128),
        ("128", 128),
        ("[128, 64]", [128, 64]),
        ("128,64", [128, 64]),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
        ("[[1,2],[3,4]]", [[1, 2], [3, 4]]),
        ((3, 2), [3, 2]),
    ],
)
def test_k_is_read_from_command_lines_files_and_code(written: object, meant: object) -> None:
    assert parse_projected_dim(written) == meant


def test_k_of_every_layer_and_head() -> None:
    assert LinformerSettings(**GOOD).dims == ((4, 4),) * 3
    assert LinformerSettings(**{**GOOD, "projected_dim": [4, 3, 2]}).dims == ((4, 4), (3, 3), (2, 2))
    per_head = [[4, 3], [2, 1], [5, 5]]
    assert LinformerSettings(**{**GOOD, "projected_dim": per_head, "sharing": "none"}).dims == ((4, 3), (2, 1), (5, 5))


@pytest.mark.parametrize(
    ("given", "row_weights", "short_inputs", "projection_init"),
    [
        ({}, "affine", "stretch", "window_means"),
        ({"projection": "linear"}, "free", "first_columns", "xavier"),
        ({"projection": "linear", "freeze_projection": True}, "free", "first_columns", "jl"),
        ({"projection": "linear", "freeze_projection": True, "projection_init": "normal"}, *_PAPER, "normal"),
        ({"projection": "linear", "row_weights": "affine"}, "affine", "first_columns", "xavier"),
        ({"projection": "convolution", "freeze_projection": True}, "affine", "stretch", "window_means"),
        ({"projection": "convolution", "row_weights": "free"}, "free", "stretch", "window_means"),
        ({"projection": "mean_pool"}, "free", "stretch", "window_means"),
        ({"projection": "max_pool", "short_inputs": "first_columns"}, *_PAPER, "window_means"),
    ],
)
def test_what_is_left_out_follows_the_projection(
    given: dict, row_weights: str, short_inputs: str, projection_init: str
) -> None:
    sizes = {key: value for key, value in GOOD.items() if key != "projection"}
    settings = LinformerSettings(**sizes, **given)
    assert settings.projection == given.get("projection", "convolution")
    found = (settings.row_weights, settings.short_inputs, settings.projection_init)
    assert found == (row_weights, short_inputs, projection_init)


@pytest.mark.parametrize("projection", ["mean_pool", "max_pool", "convolution"])
def test_windows_that_are_fewer_than_k_are_said(projection: str) -> None:
    words = {**GOOD, "max_positions": 512, "projected_dim": 200, "projection": projection}
    with pytest.warns(UserWarning) as said:
        settings = LinformerSettings(**words)
    (text,) = (str(warning.message) for warning in said)
    assert [int(number) for number in re.findall(r"\d+", text)] == [200, 512, 3, 171]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the layer itself, and settings without such windows, say nothing
        attention = LinformerSelfAttention(settings, 0, build_shared_projection(settings))
        LinformerSettings(**{**words, "projected_dim": 128})
        LinformerSettings(**{**words, "projected_dim": 171})
        LinformerSettings(**{**words, "projection": "linear"})
    assert attention.project(torch.zeros(1, 512, settings.embed_dim)).keys.size(2) == 171


def test_each_k_with_fewer_windows_is_said_once() -> None:
    with pytest.warns(UserWarning) as said:
        LinformerSettings(**{**GOOD, "max_positions": 512, "projected_dim": [200, 128, 200], "projection": "max_pool"})
    assert len(said) == 1 and "= 200 " in str(said[0].message)


def test_a_k_above_n_is_not_called_too_few_windows() -> None:
    with pytest.warns(UserWarning) as said:
        LinformerSettings(**{**GOOD, "max_positions": 8, "projected_dim": 9, "projection": "mean_pool"})
    assert len(said) == 1 and "is not below max_positions" in str(said[0].message)


def test_layers_that_would_see_only_the_beginning_are_said() -> None:
    words = {**GOOD, "projected_dim": [4, 2, 4], "projection_init": "window_means"}
    with pytest.warns(UserWarning, match=r"projected_dim=\[4, 2, 4\].*sharing=layerwise.*window_means"):
        LinformerSettings(**words)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for change in ({"sharing": "key_value"}, {"projection_init": "xavier"}, {"projected_dim": 4}):
            LinformerSettings(**{**words, **change})

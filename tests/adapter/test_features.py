"""Padding, gradients, options and host syncs of whole encoders."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
import torch.distributed as dist
from omegaconf import OmegaConf
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.parallel import DistributedDataParallel

from linformer_fairseq.core import PROJECTIONS, SHARINGS, compiling, convolution, windows
from linformer_fairseq.core import layer as core_layer
from linformer_fairseq.modules import encoder as encoders
from linformer_fairseq.modules import encoder_layer as encoder_layers
from tests.adapter.building import directly
from tests.dropouts import applied

N, PAD, BOS, EOS = 24, 1, 0, 2
OPTIONS = {
    "encoder_layers": 4,
    "encoder_embed_dim": 24,
    "encoder_ffn_embed_dim": 32,
    "encoder_attention_heads": 3,
    "max_positions": N,
    "projected_dim": 5,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}
EVERY_MODE = [(sharing, projection) for sharing in SHARINGS for projection in PROJECTIONS]


def build(**changes: Any) -> torch.nn.Module:
    torch.manual_seed(3)
    model = directly(N, **{**OPTIONS, **changes})
    for name, p in model.named_parameters():  # large random weights: what is wrong must show
        if "layer_norm" not in name:
            p.data.normal_(std=0.3)
    model.encoder.sentence_encoder.embed_tokens.weight.data[PAD] = 0
    return model


def sentences(*lengths: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    words = [torch.randint(4, 40, (length - 2,), generator=generator) for length in lengths]
    return [torch.cat([torch.tensor([BOS]), w, torch.tensor([EOS])]) for w in words]


def batch(texts: list[torch.Tensor]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=PAD)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize(("sharing", "projection"), EVERY_MODE)
def test_a_sequence_has_the_same_features_alone_and_in_a_padded_batch(
    sharing: str, projection: str, training: bool
) -> None:
    # In double precision: rounding differs between the two, and how much of it is left depends on the machine.
    model = build(sharing=sharing, projection=projection).double().train(training)
    texts = sentences(N, 9, 3, 17)
    together, extra = model(batch(texts), features_only=True, return_all_hiddens=True)
    for row, text in enumerate(texts):
        alone, alone_extra = model(text.unsqueeze(0), features_only=True, return_all_hiddens=True)
        torch.testing.assert_close(together[row, : len(text)], alone[0], atol=1e-9, rtol=1e-9)
        states = zip(extra["inner_states"], alone_extra["inner_states"], strict=True)
        for layer, (padded, bare) in enumerate(states):
            torch.testing.assert_close(
                padded[: len(text), row], bare[:, 0], atol=1e-9, rtol=1e-9, msg=f"differs after layer {layer}"
            )


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
def test_features_and_states_are_the_same_without_gradients(
    normalize_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_layer, "_block_size", lambda _: 5)  # then layers write over their input
    model = build(encoder_normalize_before=normalize_before).double().eval()
    tokens = batch(sentences(N, 9, 3))
    whole, extra = model(tokens, features_only=True, return_all_hiddens=True)
    embeddings = torch.randn(*tokens.shape, OPTIONS["encoder_embed_dim"], dtype=torch.float64)
    given = embeddings.clone()
    encoder = model.encoder.sentence_encoder
    from_embeddings = encoder(tokens, token_embeddings=given)["encoder_out"][0]
    with torch.no_grad():
        torch.testing.assert_close(model(tokens, features_only=True)[0], whole)
        states = model(tokens, features_only=True, return_all_hiddens=True)[1]["inner_states"]
        torch.testing.assert_close(encoder(tokens, token_embeddings=given)["encoder_out"][0], from_embeddings)
    torch.testing.assert_close(states, extra["inner_states"])
    assert torch.equal(given, embeddings)


@pytest.mark.parametrize("normalize_before", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize(("sharing", "projection"), EVERY_MODE)
def test_a_classifier_computes_only_the_first_position_of_the_last_layer(
    sharing: str, projection: str, normalize_before: bool
) -> None:
    model = build(sharing=sharing, projection=projection, encoder_normalize_before=normalize_before).double()
    model.register_classification_head("two", num_classes=2)
    model.classification_heads["two"].double()
    lengths = []
    for layer in model.encoder.sentence_encoder.layers:  # not by a hook, which would see all positions
        layer.fc1.forward = lambda x, forward=layer.fc1.forward: lengths.append(x.size(1)) or forward(x)
    tokens = batch(sentences(N, 9, 3))
    logits, _ = model(tokens, classification_head_name="two")
    assert lengths == [N] * (OPTIONS["encoder_layers"] - 1) + [1]
    outputs = []
    hook = layer.register_forward_hook(lambda module, inputs, output: outputs.append(output.size(1)))
    torch.testing.assert_close(model(tokens, classification_head_name="two")[0], logits)
    assert outputs == [N], "a hook on the last layer sees all positions"
    hook.remove()
    features, _ = model(tokens, features_only=True)
    torch.testing.assert_close(logits, model.classification_heads["two"](features))
    logits.sum().backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    features, _ = model(tokens, features_only=True)
    model.classification_heads["two"](features).sum().backward()
    expected = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, msg=name)


@pytest.mark.parametrize("hook", ["register_forward_hook", "register_forward_pre_hook"])
def test_what_a_hook_took_stays_as_it_was(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    overwrites: list[bool] = []
    monkeypatch.setattr(core_layer, "_block_size", lambda _: 5)
    monkeypatch.setattr(
        encoder_layers, "encoder_layer", lambda *args: overwrites.append(args[3]) or core_layer.encoder_layer(*args)
    )
    model = build().eval()
    tokens = batch(sentences(N, 9, 3))
    with torch.no_grad():
        model(tokens)
    assert overwrites == [False, True, True, True]
    layers = model.encoder.sentence_encoder.layers
    taken: list[torch.Tensor] = []
    copies: list[torch.Tensor] = []

    def take(layer: Any, inputs: Any, *output: torch.Tensor) -> None:
        found = output[0] if output else inputs[0]
        taken.append(found)
        copies.append(found.clone())

    for layer in layers:
        getattr(layer, hook)(take)
    with torch.no_grad():
        model(tokens)
    assert len(taken) == 4
    for found, copied in zip(taken, copies, strict=True):
        assert torch.equal(found, copied)


@pytest.mark.parametrize(("sharing", "projection"), EVERY_MODE)
def test_every_parameter_gets_a_gradient_in_masked_lm(sharing: str, projection: str) -> None:
    model = build(sharing=sharing, projection=projection)
    model(batch(sentences(12, 5)))[0].sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None] == []


def test_all_positions_of_the_last_layer_are_there_if_its_states_are_asked_for() -> None:
    model = build().eval()
    model.register_classification_head("classes", num_classes=2)
    tokens = batch(sentences(12, 5))
    expected, _ = model(tokens, classification_head_name="classes")
    logits, extra = model(tokens, classification_head_name="classes", return_all_hiddens=True)
    assert extra["inner_states"][-1].shape[:2] == (12, 2)
    torch.testing.assert_close(logits, expected)


def gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    model.zero_grad()
    torch.manual_seed(11)
    model(batch(sentences(12, 5)))[0].square().mean().backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("option", ["checkpoint_activations", "offload_activations"])
@pytest.mark.parametrize("sharing", SHARINGS)
def test_activation_checkpointing_changes_no_gradient(
    sharing: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("linformer_fairseq.core.layer._block_size", lambda _: 99)
    plain = build(sharing=sharing, dropout=0.2, attention_dropout=0.2)
    saving = build(sharing=sharing, dropout=0.2, attention_dropout=0.2, **{option: True})
    saving.load_state_dict(plain.state_dict())
    for training in (True, False):
        expected, got = gradients(plain.train(training)), gradients(saving.train(training))
        assert expected.keys() == got.keys()
        for name in expected:
            torch.testing.assert_close(got[name], expected[name], msg=f"{name} differs")


def test_offloading_moves_what_the_backward_pass_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[torch.Size] = []

    def spy(pin_memory: bool) -> Any:
        return saved_tensors_hooks(lambda tensor: moved.append(tensor.shape) or tensor, lambda tensor: tensor)

    monkeypatch.setattr(encoders, "save_on_cpu", spy)
    gradients(build(checkpoint_activations=True).train())
    assert not moved
    gradients(build(offload_activations=True).train())
    inputs = moved.count(torch.Size([2, 12, OPTIONS["encoder_embed_dim"]]))
    assert inputs >= OPTIONS["encoder_layers"]
    assert torch.Size([2, 12, OPTIONS["encoder_ffn_embed_dim"]]) not in moved, "computed again"


@pytest.mark.parametrize("option", ["checkpoint_activations", "offload_activations"])
def test_layers_that_share_e_can_be_recomputed_with_distributed_data_parallel(option: str) -> None:
    """Each parameter is ready once in a backward pass, as torch's DDP requires."""
    plain = build(sharing="layerwise")
    saving = build(sharing="layerwise", **{option: True})
    saving.load_state_dict(plain.state_dict())
    expected = gradients(plain.train())
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        model = DistributedDataParallel(saving.train(), find_unused_parameters=True)
        got = gradients(model)
    finally:
        dist.destroy_process_group()
    for name, wanted in expected.items():
        torch.testing.assert_close(got[f"module.{name}"], wanted, msg=f"{name} differs")


def test_dropouts_are_each_their_own() -> None:
    tokens = batch(sentences(12, 5))

    def varies(**options: float) -> bool:
        model = build(**options).train()
        return not torch.equal(model(tokens)[0], model(tokens)[0])

    assert not varies()
    for option in ("dropout", "attention_dropout", "activation_dropout"):
        assert varies(**{option: 0.3}), option
    model = build(dropout=0.3)
    attention = model.train().encoder.sentence_encoder.layers[0].self_attn
    x = torch.randn(1, 5, 24)
    torch.testing.assert_close(attention(x)[0], attention(x)[0])  # residual dropout is not in P


def test_dropout_is_applied_to_embeddings_and_sublayers_and_in_the_head() -> None:
    model = build(dropout=0.1, activation_dropout=0.2, pooler_dropout=0.3)
    model.register_classification_head("head", num_classes=2)
    tokens = batch(sentences(12, 5))
    found = applied(model, lambda: model(tokens, features_only=True, classification_head_name="head"))
    assert found == [0.1, *[0.1, 0.2, 0.1] * OPTIONS["encoder_layers"], 0.3, 0.3]


def test_layerdrop_leaves_out_layers_in_training_only() -> None:
    tokens = batch(sentences(12))
    model = build(encoder_layerdrop=0.5)
    outputs = {round(model.train()(tokens)[0].sum().item(), 3) for _ in range(30)}
    assert len(outputs) > 3
    assert torch.equal(model.eval()(tokens)[0], model(tokens)[0])


def test_the_first_position_alone_without_any_layer() -> None:
    model = build(encoder_layerdrop=0.5).train()
    model.encoder.sentence_encoder.layers.p = 1.0
    features, _ = model(batch(sentences(12, 5)), features_only=True, first_only=True)
    assert features.shape == (2, 1, 24)


@pytest.mark.parametrize(
    "options",
    [
        {"sharing": "headwise"},
        {"sharing": "layerwise", "projection": "linear", "short_inputs": "stretch", "row_weights": "affine"},
    ],
)
def test_pruned_layers_are_the_ones_asked_for(options: dict[str, Any]) -> None:
    full = build(**options, projected_dim=[3, 4, 5, 6]).eval()
    pruned = build(**options, projected_dim=[3, 5], encoder_layers_to_keep="0,2").eval()
    cfg = OmegaConf.create(
        {"_name": "linformer_roberta", "encoder_layers_to_keep": "0,2", "decoder_layers_to_keep": None}
    )
    pruned.load_state_dict(copy.deepcopy(full.state_dict()), model_cfg=cfg)
    layers = full.encoder.sentence_encoder.layers
    layers[1], layers[3] = _Skip(), _Skip()
    tokens = batch(sentences(12, 5))
    torch.testing.assert_close(pruned(tokens)[0], full(tokens)[0])


class _Skip(torch.nn.Module):
    def forward(self, x: torch.Tensor, **_: Any) -> torch.Tensor:
        return x


def test_quantisation_noise_acts_in_training_and_spares_e() -> None:
    model = build(quant_noise_pq=0.5)
    before = {name: p.clone() for name, p in model.named_parameters()}
    embedded: list[torch.Size] = []
    model.encoder.sentence_encoder.quant_noise.register_forward_hook(lambda *given: embedded.append(given[-1].shape))
    model.train()(batch(sentences(12)))
    assert embedded == [(1, 12, OPTIONS["encoder_embed_dim"])], "the linear layer after the embeddings"
    after = dict(model.named_parameters())
    layer = "encoder.sentence_encoder.layers.0.self_attn."
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        assert (after[f"{layer}{name}.weight"] == 0).any(), f"{name} got no noise"
    assert torch.equal(
        after["encoder.sentence_encoder.proj_k.weight"], before["encoder.sentence_encoder.proj_k.weight"]
    )


def test_longer_input_is_refused_before_anything_is_looked_up() -> None:
    model = build()
    with pytest.raises(ValueError, match=f"{N + 1} tokens.* at most {N}; .*max_positions={N + 1}"):
        model(torch.full((1, N + 1), 5))


def test_causal_attention_is_refused() -> None:
    layer = build().encoder.sentence_encoder.layers[0]
    with pytest.raises(ValueError, match="attn_mask was given.*causal"):
        layer(torch.randn(1, 5, 24), None, attn_mask=torch.ones(5, 5).triu(1))


def test_full_blocks_are_projected_without_gathering_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """On any device, the encoder looks whether there is padding: a gather for each sequence takes much longer."""
    encoder = build(projection="convolution", projected_dim=6, kernel_strides=2).encoder.sentence_encoder
    full, similar, padded = batch(sentences(N, N)), batch(sentences(N, N - 1)), batch(sentences(N, 5))
    gathered: list[torch.Size] = []
    gather = convolution.gathered
    monkeypatch.setattr(convolution, "gathered", lambda x, *args: gathered.append(x.shape) or gather(x, *args))
    encoder(full)
    encoder(similar)  # windows of the same size in both sequences
    assert not gathered
    encoder(padded)
    assert gathered
    gathered.clear()
    monkeypatch.setattr(windows, "depends_on_values", lambda _: False)  # as on a GPU, where sizes are not compared
    encoder(full)
    assert not gathered


@pytest.mark.parametrize("capturing", [False, True])
def test_only_a_graph_masks_without_looking(capturing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = build(compile_encoder=True).encoder.sentence_encoder
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)
    assert encoder._masks_always(torch.device("cuda")) == capturing


@pytest.mark.slow
@pytest.mark.parametrize("sharing", SHARINGS)
def test_the_encoder_is_one_graph_whatever_the_padding(sharing: str) -> None:
    """A host sync such as ``.any()`` on the mask would break the graph: fullgraph raises then."""
    encoder = build(sharing=sharing, encoder_layers=2).eval().encoder.sentence_encoder
    compiled = torch.compile(encoder, fullgraph=True, backend="eager")
    for tokens in (batch(sentences(12, 5)), batch(sentences(12, 12))):
        torch.testing.assert_close(compiled(tokens)["encoder_out"][0], encoder(tokens)["encoder_out"][0])
    torch._dynamo.reset()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"encoder_layerdrop": 0.5, "encoder_normalize_before": True}], ids=str)
def test_compiled_layers_are_equal_layers_that_share_programs(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Backend eager: it takes the same graphs, and no time to make code of them."""
    options = {**options, "encoder_layers": 2}
    plain = build(**options)
    monkeypatch.setattr(compiling, "_hide_blanks", lambda folder: None)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    core_layer._compiled.cache_clear()
    compiled = build(**options, compile_encoder=True)
    assert compiled.state_dict().keys() == plain.state_dict().keys()
    plain.eval(), compiled.eval()
    torch._dynamo.utils.counters.clear()
    for lengths in ([12, 5], [11, 4], [13, 9, 2], [9, 9], [12, 3, 3, 3]):
        tokens = batch(sentences(*lengths))
        torch.testing.assert_close(compiled(tokens)[0], plain(tokens)[0])
    # The two steps of a layer: for the first shape, for other lengths, for other batch sizes as well, without padding.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 8
    assert not torch._dynamo.utils.counters["graph_break"]
    torch._dynamo.reset()
    core_layer._compiled.cache_clear()


def test_compile_encoder_compiles_every_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_hide_blanks", lambda folder: None)
    assert not any(layer.compiled for layer in build().encoder.sentence_encoder.layers.children())
    made = build(compile_encoder=True, encoder_layerdrop=0.5)
    assert [layer.compiled for layer in made.encoder.sentence_encoder.layers.children()] == [True] * 4


@pytest.mark.slow
@pytest.mark.parametrize("option", ["checkpoint_activations", "offload_activations"])
def test_compiled_layers_may_compute_activations_again(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_hide_blanks", lambda folder: None)
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    core_layer._compiled.cache_clear()
    plain, both = build(), build(compile_encoder=True, **{option: True})
    both.load_state_dict(plain.state_dict())
    expected, got = gradients(plain.train()), gradients(both.train())
    for name in expected:
        torch.testing.assert_close(got[name], expected[name], msg=f"{name} differs")
    core_layer._compiled.cache_clear()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_forward_and_backward_stay_finite_and_close(dtype: torch.dtype) -> None:
    for sharing, projection in EVERY_MODE:
        model = build(sharing=sharing, projection=projection)
        for p in model.parameters():
            p.data *= 0.3
        tokens = batch(sentences(12, 5))
        exact = model(tokens, features_only=True)[0]
        half = copy.deepcopy(model).to(dtype)
        features = half(tokens, features_only=True)[0]
        assert features.dtype == dtype
        real = (tokens != PAD).unsqueeze(-1)
        error = ((features.float() - exact) * real).norm() / (exact * real).norm()
        assert error < (0.05 if dtype == torch.bfloat16 else 0.01), f"{sharing} {projection}: {error:.4f}"
        direction = torch.randn(features.shape, generator=torch.Generator().manual_seed(2))
        gradients = []
        for one, out in ((model, exact), (half, features)):
            (out.float() * direction * real).sum().backward()
            gradients.append(torch.cat([p.grad.float().flatten() for p in one.parameters() if p.grad is not None]))
        error = (gradients[1] - gradients[0]).norm() / gradients[0].norm()
        assert error < (0.05 if dtype == torch.bfloat16 else 0.01), f"{sharing} {projection}: {error:.4f}"


def test_a_head_of_another_kind_gets_the_features_of_all_positions() -> None:
    class Mean(torch.nn.Module):
        def forward(self, features: torch.Tensor, **unused: Any) -> torch.Tensor:
            return features.mean(1)

    model, tokens = build().eval(), batch(sentences(12, 12))
    model.classification_heads["mean"] = Mean()
    found, _ = model(tokens, classification_head_name="mean")
    torch.testing.assert_close(found, model(tokens, features_only=True)[0].mean(1))


def test_other_embeddings_reach_the_layers() -> None:
    model, tokens = build().eval(), batch(sentences(12, 5))
    embedded = model.encoder.sentence_encoder.embed_tokens(tokens)
    model.register_classification_head("classes", num_classes=3)
    plain, same, other = (
        model(tokens, classification_head_name="classes", token_embeddings=given)[0]
        for given in (None, embedded, embedded.roll(1, dims=2))
    )
    torch.testing.assert_close(plain, same)
    assert not torch.allclose(plain, other, atol=1e-3)


def test_padding_in_front_is_refused() -> None:
    model, tokens = build().eval(), batch(sentences(12, 5))
    with pytest.raises(ValueError, match="padding in front"):
        model(tokens.flip(1))

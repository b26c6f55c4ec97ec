"""Models in transformers compute what they computed in fairseq, and go back."""

from __future__ import annotations

import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoTokenizer

from linformer_fairseq.checkpoints.transformers_weights import INDEX
from linformer_fairseq.cli import main
from linformer_fairseq.core import LinformerSettings, layer
from linformer_fairseq.exporting.hugging_face import export_folder, import_folder, names, options
from linformer_fairseq.exporting.hugging_face.configuration_linformer import LinformerConfig
from linformer_fairseq.exporting.hugging_face.modeling_linformer import (
    LinformerForMaskedLM,
    LinformerForSequenceClassification,
    LinformerModel,
)
from linformer_fairseq.files.dictionary import read_labels
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_inputs import TaskInputs, read_inputs
from linformer_fairseq.files.weight_names import ENCODER, OUTPUT, head_output
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.config import Role, with_role
from tests.adapter.building import directly
from tests.core.cases import EVERY_CASE, randomise
from tests.data_prep.small_tokenizers import make_gpt2, make_sentencepiece
from tests.dropouts import applied
from tests.models import make_pretrained, write_checkpoint

VARIANTS: dict[str, dict[str, Any]] = {
    "prenorm": {"encoder_normalize_before": True, "layernorm_embedding": False},
    "untied": {"untie_weights_roberta": True},
    "tanh": {"activation_fn": "gelu_fast", "pooler_activation_fn": "relu"},
}
HEAD = "sentence_classification_head"


def options_of(case: str) -> dict[str, Any]:
    settings = dict(EVERY_CASE[case])
    sizes = {
        "encoder_embed_dim": settings.pop("embed_dim"),
        "encoder_attention_heads": settings.pop("num_heads"),
        "encoder_layers": settings.pop("num_layers"),
    }
    return {**sizes, "encoder_ffn_embed_dim": 32, **settings}


def padded(vocabulary: int, lengths: tuple[int, ...], total: int) -> Tensor:
    tokens = torch.randint(4, vocabulary, (len(lengths), total), generator=torch.Generator().manual_seed(1))
    return tokens.masked_fill(torch.arange(total) >= torch.tensor(lengths).unsqueeze(1), 1)


def in_both(**changes: Any) -> tuple[Any, LinformerForMaskedLM, LinformerForSequenceClassification]:
    """A model of fairseq with random weights, and the models of transformers that load these."""
    ours = directly(changes["max_positions"], **changes)
    ours.register_classification_head("other", num_classes=2)
    ours.register_classification_head(HEAD, num_classes=3)
    randomise(ours)
    ours.eval()
    args = ours.args
    config = LinformerConfig(**options.to_transformers(args, ours.encoder.lm_head.bias.numel(), ("a", "b", "c")))
    weights = names.to_transformers(ours.state_dict(), HEAD, config.tie_word_embeddings)
    masked, classifier = LinformerForMaskedLM(config).eval(), LinformerForSequenceClassification(config).eval()
    for model in (masked, classifier):
        found = model.load_state_dict(weights, strict=False)
        assert set(found.missing_keys) <= {"lm_head.decoder.weight"}
        assert all(name.startswith(("lm_head.", "classifier.")) for name in found.unexpected_keys)
        model.tie_weights()
    return ours, masked, classifier


def close(found: Tensor, expected: Tensor, tokens: Tensor) -> None:
    real = tokens.ne(1) if found.dim() == 3 else slice(None)
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", EVERY_CASE)
@torch.no_grad()
def test_every_attention_gives_the_same_logits(case: str) -> None:
    ours, masked, classifier = in_both(**options_of(case))
    n = EVERY_CASE[case]["max_positions"]
    for lengths, total in (((n, n // 2, 3), n), ((5, 2), 5), ((1,), 1)):
        tokens = padded(masked.config.vocab_size, lengths, total)
        mask = tokens.ne(1).long()
        close(masked(tokens, mask).logits, ours(tokens)[0], tokens)
        close(masked(tokens).logits, ours(tokens)[0], tokens)  # padding is seen without a mask
        close(classifier(tokens, mask).logits, ours(tokens, classification_head_name=HEAD)[0], tokens)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.filterwarnings("ignore:--activation-fn=gelu_fast has been renamed:UserWarning")
@torch.no_grad()
def test_other_options_give_the_same_logits(variant: str) -> None:
    ours, masked, classifier = in_both(**{**options_of("layerwise-convolution"), **VARIANTS[variant]})
    tokens = padded(masked.config.vocab_size, (20, 7), 20)
    close(masked(tokens).logits, ours(tokens)[0], tokens)
    close(classifier(tokens).logits, ours(tokens, classification_head_name=HEAD)[0], tokens)
    found = masked(tokens, output_hidden_states=True).hidden_states
    inner = ours.encoder(tokens, return_all_hiddens=True)[1]["inner_states"]
    assert len(found) == len(inner)
    for one, other in zip(found[:-1], inner[:-1], strict=True):  # transformers' last one is behind the last layer norm
        close(one, other.transpose(0, 1), tokens)


@torch.no_grad()
def test_a_classifier_computes_the_last_layer_for_the_first_position_unless_its_states_are_wanted() -> None:
    _, _, classifier = in_both(**options_of("layerwise-linear"))
    tokens = padded(classifier.config.vocab_size, (20, 7), 20)
    lengths: list[int] = []
    classifier.linformer.layers[-1].register_forward_hook(lambda module, args, out: lengths.append(out.size(1)))
    found = classifier(tokens)
    whole = classifier(tokens, output_hidden_states=True)
    classifier.config.output_hidden_states = True
    assert len(classifier(tokens).hidden_states) == len(whole.hidden_states)
    assert lengths == [1, 20, 20]
    torch.testing.assert_close(found.logits, whole.logits)
    assert [state.shape[:2] for state in whole.hidden_states] == [(2, 20)] * len(whole.hidden_states)


@torch.no_grad()
def test_what_hooks_keep_is_not_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without gradients, a layer that computes several blocks writes over its input, if nobody else has it."""
    monkeypatch.setattr(layer, "_block_size", lambda _: 7)
    _, masked, _ = in_both(**options_of("layerwise-linear"))
    tokens = padded(masked.config.vocab_size, (20, 20), 20)
    # of a copy: transformers' own hooks stay
    expected = copy.deepcopy(masked)(tokens, output_hidden_states=True).hidden_states[-2]
    kept: dict[str, Tensor] = {}
    *_, before, last = masked.linformer.layers
    hooks = {
        "input": lambda: last.register_forward_pre_hook(lambda _, args: kept.update(input=args[0])),
        "output": lambda: before.register_forward_hook(lambda _, args, out: kept.update(output=out)),
    }
    for name, register in hooks.items():
        hook = register()
        masked(tokens)
        hook.remove()
        torch.testing.assert_close(kept[name], expected)


def test_dropout_is_applied_where_fairseqs_model_has_it() -> None:
    probabilities = {"dropout": 0.1, "activation_dropout": 0.2, "pooler_dropout": 0.3}
    _, _, classifier = in_both(**options_of("layerwise-linear"), **probabilities)
    tokens = padded(classifier.config.vocab_size, (20, 7), 20)
    layers = EVERY_CASE["layerwise-linear"]["num_layers"]
    assert applied(classifier, lambda: classifier(tokens)) == [0.1, *[0.1, 0.2, 0.1] * layers, 0.3, 0.3]


@torch.no_grad()
def test_the_loss_of_masked_tokens_is_their_cross_entropy() -> None:
    _, masked, _ = in_both(**options_of("layerwise-linear"))
    tokens = padded(masked.config.vocab_size, (20, 7), 20)
    chosen = tokens.ne(1) & (torch.arange(20) % 3 == 0)
    out = masked(tokens, labels=tokens.masked_fill(~chosen, -100))
    torch.testing.assert_close(out.loss, F.cross_entropy(out.logits[chosen], tokens[chosen]))


@torch.no_grad()
def test_the_loss_of_classes_is_their_cross_entropy() -> None:
    _, _, classifier = in_both(**options_of("layerwise-linear"))
    tokens, classes = padded(classifier.config.vocab_size, (20, 7), 20), torch.tensor([2, 0])
    out = classifier(tokens, labels=classes)
    torch.testing.assert_close(out.loss, F.cross_entropy(out.logits, classes))


@torch.no_grad()
def test_embeddings_can_be_given_instead_of_tokens() -> None:
    _, masked, _ = in_both(**options_of("layerwise-linear"))
    tokens = padded(masked.config.vocab_size, (20, 7), 20)
    embedded = masked.get_input_embeddings()(tokens)
    copy = embedded.clone()
    close(masked(inputs_embeds=embedded, attention_mask=tokens.ne(1)).logits, masked(tokens).logits, tokens)
    assert torch.equal(embedded, copy)


@pytest.mark.filterwarnings("ignore:.*checkpointing.* is deprecated")
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_changes_no_gradient(reentrant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("linformer_fairseq.core.layer._block_size", lambda _: 8)
    _, masked, _ = in_both(**options_of("layerwise-linear"))
    tokens = padded(masked.config.vocab_size, (20, 7), 20)
    masked.train()

    def gradients() -> list[torch.Tensor]:
        masked.zero_grad()
        torch.manual_seed(3)
        masked(tokens).logits.square().mean().backward()
        return [p.grad.clone() for p in masked.parameters() if p.grad is not None]

    expected = gradients()
    masked.gradient_checkpointing_enable({"use_reentrant": reentrant})
    assert masked.is_gradient_checkpointing
    torch.testing.assert_close(gradients(), expected)


def test_what_a_linformer_does_not_take_is_refused() -> None:
    _, masked, _ = in_both(**options_of("layerwise-linear"))
    tokens = padded(masked.config.vocab_size, (20, 7), 20)
    with pytest.raises(ValueError, match="21 tokens.*at most 20"):
        masked(torch.full((1, 21), 5))
    with pytest.raises(ValueError, match="padding_side"):
        masked(tokens.flip(1))
    for name in ("position_ids", "token_type_ids"):
        with pytest.raises(ValueError, match=name):
            masked(tokens, **{name: tokens})
    with pytest.raises(ValueError, match="output_attentions"):
        masked(tokens, output_attentions=True)
    masked.config.output_attentions = True
    with pytest.raises(ValueError, match="output_attentions"):
        masked(tokens)
    masked.config.output_attentions = False
    for shape in ((2, 3), (1, 20), (2, 1), (2, 1, 20, 20)):
        with pytest.raises(ValueError, match=r"expected \(B, T\) = \(2, 20\)"):
            masked(tokens, torch.ones(shape))
    with pytest.raises(ValueError, match="input_ids or inputs_embeds"):
        masked()


def test_names_go_there_and_back() -> None:
    ours, *_ = in_both(**options_of("none-linear"))
    weights = ours.state_dict()
    there = names.to_transformers(weights, HEAD, tied=True)
    back = names.to_fairseq(there, HEAD)
    left_out = {names.VERSION, OUTPUT, *(name for name in weights if ".other." in name)}
    assert back.keys() == weights.keys() - left_out
    assert all(back[name] is weights[name] for name in back)


def test_options_go_there_and_back() -> None:
    args = directly(20, **options_of("headwise-linear-affine-stretch"), pooler_dropout=0.3).args
    back = options.to_fairseq(options.to_transformers(args, 45, None))
    assert {name: getattr(args, name) for name in back} == back
    assert {"pooler_dropout", "projected_dim", "activation_fn", "row_weights"} <= back.keys()
    args.projected_dim = "[[8, 4], [4, 2]]"  # from a command line
    assert options.to_transformers(args, 45, None)["projected_dim"] == [[8, 4], [4, 2]]
    with pytest.raises(ValueError, match="'silu'"):
        options.to_fairseq({"hidden_act": "silu"})


def test_each_dropout_has_its_name_in_transformers() -> None:
    probabilities = {"dropout": 0.2, "attention_dropout": 0.3, "activation_dropout": 0.4, "pooler_dropout": 0.5}
    args = directly(20, **options_of("layerwise-linear"), **probabilities).args
    expected = {
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.3,
        "activation_dropout": 0.4,
        "classifier_dropout": 0.5,
    }
    found = options.to_transformers(args, 45, None)
    assert {name: found[name] for name in expected} == expected


def test_no_option_of_the_model_is_lost() -> None:
    """Whoever adds one to models/config.py adds it to exporting/hugging_face/options.py, or says here why not."""
    args = directly(20, **options_of("headwise-linear-affine-stretch")).args
    back = options.to_fairseq(options.to_transformers(args, 45, None))
    # an exported model has the layers that were kept alone, and one with noise is refused
    assert with_role(Role.MODEL) - back.keys() == {"encoder_layers_to_keep", "quant_noise_pq"}


def test_the_configuration_has_all_options_of_the_attention() -> None:
    sizes = {"projected_dim": [64, 32], "num_hidden_layers": 2, "max_position_embeddings": 128}
    config = LinformerConfig(projection="linear", attention_probs_dropout_prob=0.3, hidden_dropout_prob=0.2, **sizes)
    expected = LinformerSettings(768, 12, 2, 128, [64, 32], projection="linear", attention_dropout=0.3)
    assert config.attention_settings() == expected
    assert LinformerConfig(**json.loads(config.to_json_string())).attention_settings() == expected


@pytest.mark.parametrize("case", ["layerwise-linear-frozen", "none-convolution", "key_value-linear-step"])
def test_missing_weights_are_initialised(case: str, tmp_path: Path) -> None:
    """As the projection says, and not those that the file has."""
    _, masked, _ = in_both(**options_of(case))
    masked.save_pretrained(tmp_path)
    again = LinformerForMaskedLM.from_pretrained(tmp_path)
    for name, tensor in masked.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    bare = LinformerModel.from_pretrained(None, config=masked.config, state_dict={})
    fresh = LinformerModel(masked.config).state_dict()
    for name, tensor in bare.state_dict().items():
        assert tensor.isfinite().all(), name
        if re.search(r"proj_[kv]\.weight$", name):
            torch.testing.assert_close(tensor.abs().mean(), fresh[name].abs().mean(), rtol=0.3, atol=0)
        if name.endswith("signature"):
            assert torch.equal(tensor, masked.linformer.state_dict()[name])


@pytest.mark.parametrize("kind", [LinformerModel, LinformerForMaskedLM, LinformerForSequenceClassification])
def test_settings_that_the_weights_were_not_trained_with_are_refused(kind: Any, tmp_path: Path) -> None:
    _, masked, _ = in_both(**options_of("layerwise-linear"))
    masked.save_pretrained(tmp_path)
    assert kind.from_pretrained(tmp_path, output_loading_info=True)[1]["mismatched_keys"] == set()
    with pytest.raises(ValueError, match=r"layers.0.self_attn was .*short_inputs=first_columns.*short_inputs=stretch"):
        kind.from_pretrained(tmp_path, short_inputs="stretch", output_loading_info=True)


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(checkpoint, data folder) of a classifier."""
    data = tmp_path_factory.mktemp("task")
    make_sentencepiece(data)
    (data / "input0").mkdir()
    (data / "dict.txt").rename(data / "input0" / "dict.txt")
    (data / "label").mkdir()
    (data / "label" / "dict.txt").write_text("bad 3\ngood 4\n")
    checkpoint = data / "checkpoint.pt"
    write_checkpoint(data, checkpoint, "--max-positions", "64", classes=2)
    return checkpoint, data


@torch.no_grad()
def test_a_classifier_goes_there_and_back(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    checkpoint, data = finetuned
    export_folder(str(checkpoint), tmp_path / "hf")
    ours = LinformerRobertaModel.from_pretrained(data, checkpoint.name, data).eval()
    model = LinformerForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    assert model.config.id2label == {0: "bad", 1: "good"}
    assert len({path.stat().st_mode for path in (tmp_path / "hf").iterdir()}) == 1  # whoever reads one reads all
    assert model.config.problem_type == "single_label_classification"
    tokens = ours.encode(["the value", "a list of the given value is empty"])
    expected = ours.predict(HEAD, tokens, return_logits=True)
    close(model(tokens).logits, expected, tokens)
    masked = LinformerForMaskedLM.from_pretrained(tmp_path / "hf").eval()
    close(masked(tokens).logits, ours.model(tokens)[0], tokens)

    import_folder(tmp_path / "hf", tmp_path / "back")
    again = LinformerRobertaModel.from_pretrained(tmp_path / "back").eval()
    close(again.predict(HEAD, tokens, return_logits=True), expected, tokens)
    before = torch.load(checkpoint, weights_only=False)["model"]
    assert all(torch.equal(before[name], tensor) for name, tensor in again.model.state_dict().items())
    assert (tmp_path / "back/label/dict.txt").read_text() == "bad 1\ngood 1\n"


@torch.no_grad()
def test_a_model_that_predicts_numbers_goes_there_and_back(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    """Whatever classes are in the folder of its data."""
    _, data = finetuned
    flags = ("--max-positions", "64", "--regression-target")
    checkpoint = write_checkpoint(data, data / "number.pt", *flags, classes=1)
    export_folder(str(checkpoint), tmp_path / "hf")
    ours = LinformerRobertaModel.from_pretrained(data, checkpoint.name, data).eval()
    model = LinformerForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    assert (model.config.problem_type, model.config.id2label) == ("regression", {0: "LABEL_0"})
    tokens = ours.encode(["the value", "a list of the given value is empty"])
    expected = ours.predict(HEAD, tokens, return_logits=True)
    close(model(tokens).logits, expected, tokens)

    import_folder(tmp_path / "hf", tmp_path / "back")
    again = LinformerRobertaModel.from_pretrained(tmp_path / "back").eval()
    assert again.cfg.task.regression_target is again.cfg.criterion.regression_target is True
    close(again.predict(HEAD, tokens, return_logits=True), expected, tokens)


def test_how_the_task_was_prepared_is_kept(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    checkpoint, data = finetuned
    inputs = TaskInputs("imdb", 7, "tail")
    shutil.copytree(data, tmp_path / "data")
    inputs.write(tmp_path / "data")
    export_folder(str(checkpoint), tmp_path / "hf", tmp_path / "data")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf")
    text = "a list of the given value is empty or not in the list"
    ids = tokenizer(text, truncation=True)["input_ids"]
    assert len(ids) == 7 and ids[1:-1] == tokenizer(text)["input_ids"][-6:-1]
    import_folder(tmp_path / "hf", tmp_path / "back")
    assert read_inputs(tmp_path / "back") == inputs
    import_folder(tmp_path / "hf", tmp_path / "other", data)
    assert read_inputs(tmp_path / "other") == inputs


def test_a_masked_language_model_has_no_task(tmp_path: Path) -> None:
    model = make_pretrained(tmp_path)
    TaskInputs("imdb", 7, "tail").write(model)
    assert not LinformerRobertaModel.from_pretrained(model).inputs.task
    export_folder(str(model), tmp_path / "hf")
    assert not (tmp_path / "hf/manifest.json").exists()


@pytest.mark.parametrize("heads", [["a"], ["a", "b"]], ids=len)
@torch.no_grad()
def test_heads_of_a_masked_language_model_are_left_out(tmp_path: Path, heads: list[str]) -> None:
    make_sentencepiece(tmp_path)
    checkpoint = write_checkpoint(
        tmp_path, tmp_path / "model.pt", "--max-positions", "64", "--tokens-per-sample", "64", task="masked_lm"
    )
    ours = LinformerRobertaModel.from_pretrained(tmp_path, checkpoint.name, tmp_path).eval()
    state = torch.load(checkpoint, weights_only=False)
    for head in heads:
        ours.model.register_classification_head(head, num_classes=2)
    state["model"] = ours.model.state_dict()
    torch.save(state, checkpoint)
    assert head_output("a") in state["model"]

    export_folder(str(checkpoint), tmp_path / "hf")
    assert json.loads((tmp_path / "hf/config.json").read_text())["architectures"] == ["LinformerForMaskedLM"]
    model, loading = LinformerForMaskedLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not loading["unexpected_keys"] and not loading["missing_keys"]
    tokens = ours.encode(["the value", "a list of the given value is empty"])
    close(model.eval()(tokens).logits, ours.model(tokens)[0], tokens)


@pytest.mark.parametrize("change", ["short", "kind", "n", "last_layer", "missing"])
def test_a_checkpoint_that_was_trained_with_other_options_than_it_names_is_not_exported(
    finetuned: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], change: str
) -> None:
    checkpoint, data = finetuned
    state = torch.load(checkpoint, weights_only=False)
    name = f"{ENCODER}layers.{1 if change == 'last_layer' else 0}.self_attn.signature"
    signature = state["model"][name]
    if change == "short":
        state["model"][name] = signature[:2]
    elif change == "missing":
        del state["model"][f"{ENCODER}embed_positions.weight"]
    else:
        signature[{"kind": 0, "n": 2, "last_layer": 3}[change]] += 1
    torch.save(state, path := tmp_path / "model.pt")
    for command in (["export", "hf", str(path), str(tmp_path / "hf"), "--data", str(data)], ["card", str(path)]):
        capsys.readouterr()
        assert main(command) == 1
        assert f"error: {path}: does not fit its own options: " in capsys.readouterr().err
    assert not (tmp_path / "hf").exists()


def test_a_model_without_a_head_is_imported(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    export_folder(str(finetuned[0]), tmp_path / "hf")
    model = LinformerModel.from_pretrained(tmp_path / "hf").eval()
    model.save_pretrained(tmp_path / "saved")
    import_folder(tmp_path / "saved", tmp_path / "back", tmp_path / "hf")
    again = LinformerRobertaModel.from_pretrained(tmp_path / "back").eval()
    tokens = again.encode(["the value", "a list of the given value is empty"])
    with torch.no_grad():
        close(model(tokens).last_hidden_state, again.extract_features(tokens), tokens)
    head = again.model.encoder.lm_head
    assert 0.01 < float(head.dense.weight.std()) < 0.03, "as RoBERTa begins: it can be trained"
    assert head.dense.bias.count_nonzero() == head.bias.count_nonzero() == 0 and bool(
        (head.layer_norm.weight == 1).all()
    )


@pytest.mark.parametrize("files", ["one", "shards"])
def test_a_model_saved_by_transformers_is_imported(finetuned: tuple[Path, Path], tmp_path: Path, files: str) -> None:
    """It has no tokenizer of ours and no head for masked tokens."""
    export_folder(str(finetuned[0]), tmp_path / "hf")
    model = LinformerForSequenceClassification.from_pretrained(tmp_path / "hf").eval()
    model.save_pretrained(tmp_path / "saved", max_shard_size="1GB" if files == "one" else "10KB")
    assert (tmp_path / "saved" / INDEX).is_file() == (files == "shards")
    with pytest.raises(UserError, match="--data|tokenizer"):
        import_folder(tmp_path / "saved", tmp_path / "back")
    assert not (tmp_path / "back").exists()
    import_folder(tmp_path / "saved", tmp_path / "back", tmp_path / "hf")
    again = LinformerRobertaModel.from_pretrained(tmp_path / "back").eval()
    tokens = again.encode(["the value", "a list of the given value is empty"])
    with torch.no_grad():
        close(model(tokens).logits, again.predict(HEAD, tokens, return_logits=True), tokens)
        assert again.model(tokens)[0].isfinite().all()


@pytest.mark.parametrize("name", ["../hf/model.safetensors", "/model.safetensors", "model.bin", "", 5])
def test_shards_that_are_not_in_the_folder_are_not_read(
    finetuned: tuple[Path, Path], tmp_path: Path, name: object
) -> None:
    export_folder(str(finetuned[0]), tmp_path / "hf")
    shutil.copytree(tmp_path / "hf", tmp_path / "copy", ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "copy" / INDEX).write_text(json.dumps({"weight_map": {"lm_head.decoder.bias": name}}))
    with pytest.raises(UserError, match=f"{INDEX}: expected weight_map"):
        import_folder(tmp_path / "copy", tmp_path / "back")


def test_a_classifier_of_several_labels_is_not_imported(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    export_folder(str(finetuned[0]), tmp_path / "hf")
    config = tmp_path / "hf" / "config.json"
    problem = {"problem_type": "multi_label_classification"}
    config.write_text(json.dumps(json.loads(config.read_text()) | problem))
    with pytest.raises(UserError, match="config.json: problem_type is 'multi_label_classification'"):
        import_folder(tmp_path / "hf", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_models_that_cannot_be_exported_are_refused(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    checkpoint, data = finetuned
    out = tmp_path / "out"
    with pytest.raises(UserError, match=r"linformer-smal: no such file or folder"):
        export_folder("linformer-smal", out)
    with pytest.raises(UserError, match="dictionary of [0-9]+ symbols, but .*dict.txt makes"):
        export_folder(str(checkpoint), out, make_gpt2(tmp_path / "gpt2"))
    alone = tmp_path / "alone" / "checkpoint.pt"
    alone.parent.mkdir()
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["task"]["data"] = str(tmp_path / "gone")
    torch.save(state, alone)
    with pytest.raises(UserError, match="--data"):
        export_folder(str(alone), out)
    labels = tmp_path / "labels"
    shutil.copytree(data, labels)
    (labels / "label" / "dict.txt").write_text("one 1\n")
    with pytest.raises(UserError, match="2 classes, but .*label/dict.txt has 1 "):
        export_folder(str(checkpoint), out, labels)
    roberta = tmp_path / "roberta.pt"
    state = torch.load(checkpoint, weights_only=False)
    state["model"] = {name: weight for name, weight in state["model"].items() if "signature" not in name}
    state["cfg"]["model"]["_name"] = "roberta"
    torch.save(state, roberta)
    with pytest.raises(UserError, match="is a roberta; expected a Linformer"):
        export_folder(str(roberta), out, data)
    normalized = tmp_path / "normalized.pt"
    state = torch.load(checkpoint, weights_only=False)
    output = head_output(HEAD)
    state["model"][f"{output}_orig"] = state["model"].pop(output)
    torch.save(state, normalized)
    with pytest.raises(UserError, match=f"normalized.pt: .*{HEAD} .* spectral_norm_classification_head"):
        export_folder(str(normalized), out, data)
    noisy = write_checkpoint(data, data / "noisy.pt", "--max-positions", "64", "--quant-noise-pq", "0.1")
    with pytest.raises(UserError, match="quant_noise_pq=0.1"):
        export_folder(str(noisy), out)
    for option in ("init_token", "separator_token"):
        state = torch.load(checkpoint, weights_only=False)
        state["cfg"]["task"][option] = None
        torch.save(state, framed := tmp_path / "framed.pt")
        with pytest.raises(UserError, match=f"framed.pt: was finetuned with task.{option}=None"):
            export_folder(str(framed), out, data)
    assert not out.exists() and not list(tmp_path.glob("*.tmp"))
    out.mkdir()
    with pytest.raises(ValueError, match="already exists"):
        export_folder("linformer-small", out)


def test_code_in_the_folder_imports_what_is_in_the_folder(exported: Path) -> None:
    imported = {
        name for path in exported.glob("*.py") for name in re.findall(r"^from \.(\w+) import", path.read_text(), re.M)
    }
    assert {"attention", "convolution"} <= imported <= {path.stem for path in exported.glob("*.py")}


def test_folders_that_cannot_be_imported_are_refused(exported: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match=r"config.json: no such file"):
        import_folder(tmp_path, out)
    copy = tmp_path / "copy"
    shutil.copytree(exported, copy)
    config = (copy / "config.json").read_text()
    for name, value in (("layer_norm_eps", 1e-12), ("pad_token_id", 0)):
        (copy / "config.json").write_text(json.dumps(json.loads(config) | {name: value}))
        with pytest.raises(UserError, match=f"config.json: {name} is {value}, "):
            import_folder(copy, out)
    (copy / "config.json").write_text(config)
    (copy / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(UserError, match=r"model.safetensors"):
        import_folder(copy, out)
    (copy / "model.safetensors").unlink()
    with pytest.raises(UserError, match=r"model.safetensors: no such file"):
        import_folder(copy, out)
    (copy / "config.json").write_text('{"model_type": "roberta"}')
    with pytest.raises(UserError, match="model_type is 'roberta', expected 'linformer'"):
        import_folder(copy, out)
    (copy / "config.json").write_text("{}")
    for graph in ("model.onnx", "model.pt2"):
        (copy / graph).touch()
        with pytest.raises(UserError, match=rf"copy: an exported graph \({graph}\) cannot be read back"):
            import_folder(copy, out)
        (copy / graph).unlink()
    with pytest.raises(UserError, match=r"8,\d\d\d symbols, but .*dict.txt makes"):
        import_folder(exported, out, make_sentencepiece(tmp_path / "other"))
    assert not out.exists()


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({"0": "a", "1": "a"}, "the label 'a' several times"),
        ({"0": "a", "1": "b", "2": "c"}, "3 labels, but the classifier 2 outputs"),
        ({"0": "a", "1": "<mask>"}, "the label '<mask>' has a meaning"),
        ({"0": "<unk>", "1": "b"}, "the label '<unk>' has a meaning"),
        ({"0": "a", "1": "madeupword0001"}, "the label 'madeupword0001' has a meaning"),
        ({"0": "a", "1": "very good"}, "'very good' has a blank"),
    ],
)
def test_labels_that_fairseq_cannot_have(
    finetuned: tuple[Path, Path], tmp_path: Path, labels: dict[str, str], said: str
) -> None:
    export_folder(str(finetuned[0]), tmp_path / "hf")
    config = tmp_path / "hf" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"id2label": labels}))
    with pytest.raises(UserError, match=f"config.json: .*{re.escape(said)}"):
        import_folder(tmp_path / "hf", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_labels_are_in_the_order_of_their_numbers(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    """The keys of a JSON object have no order: programs that sort them put "10" before "2"."""
    _, data = finetuned
    checkpoint = write_checkpoint(data, tmp_path / "many.pt", "--max-positions", "64", classes=11)
    labels = [f"label{number}" for number in range(11)]
    shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns("*.pt"))
    (tmp_path / "data" / "label" / "dict.txt").write_text("".join(f"{label} 1\n" for label in labels))
    state = torch.load(checkpoint, weights_only=False)
    state["cfg"]["task"]["data"] = str(tmp_path / "data")
    torch.save(state, checkpoint)
    export_folder(str(checkpoint), tmp_path / "hf")
    config = tmp_path / "hf" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()), sort_keys=True))
    import_folder(tmp_path / "hf", tmp_path / "back")
    assert read_labels(tmp_path / "back" / "label" / "dict.txt") == labels


@pytest.mark.parametrize("change", ["missing", "foreign", "fewer_layers", "trained_otherwise"])
def test_weights_that_do_not_fit_config_json(finetuned: tuple[Path, Path], tmp_path: Path, change: str) -> None:
    export_folder(str(finetuned[0]), folder := tmp_path / "hf")
    path, config = folder / "model.safetensors", json.loads((folder / "config.json").read_text())
    weights = load_file(path)
    if change == "missing":
        del weights["linformer.layers.1.fc1.bias"]
    elif change == "foreign":
        weights["linformer.layers.1.fc3.bias"] = torch.ones(1)
    elif change == "fewer_layers":
        config["num_hidden_layers"] = 1
    else:
        config["short_inputs"] = "stretch" if config["short_inputs"] != "stretch" else "first_columns"
    save_file(weights, path, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match=f"^{re.escape(str(folder))}: .*do not fit the model"):
        import_folder(folder, tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("lost", ["dense.weight", "dense.bias", "out_proj.weight", "out_proj.bias"])
def test_a_classifier_that_lacks_a_weight_is_not_given_a_random_one(
    finetuned: tuple[Path, Path], tmp_path: Path, lost: str
) -> None:
    export_folder(str(finetuned[0]), folder := tmp_path / "hf")
    weights = load_file(folder / "model.safetensors")
    del weights[f"classifier.{lost}"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=rf"^{re.escape(str(folder))}: .*no classifier\.{re.escape(lost)}$"):
        import_folder(folder, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_dictionary_with_other_ids_than_the_tokenizer(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    export_folder(str(finetuned[0]), tmp_path / "hf")
    shutil.copytree(tmp_path / "hf", tmp_path / "data")
    lines = (tmp_path / "data" / "dict.txt").read_text().splitlines(keepends=True)
    (tmp_path / "data" / "dict.txt").write_text("".join([*lines[:20], *lines[:19:-1]]))
    (tmp_path / "hf" / "dict.txt").unlink()
    with pytest.raises(UserError, match="data/dict.txt: gives .* the id [0-9]+, but .*hf/tokenizer.json gives it "):
        import_folder(tmp_path / "hf", tmp_path / "back", tmp_path / "data")


def test_a_classifier_with_its_own_matrix_of_outputs_for_tokens(finetuned: tuple[Path, Path], tmp_path: Path) -> None:
    _, data = finetuned
    options = ("--max-positions", "64", "--untie-weights-roberta")
    export_folder(str(write_checkpoint(data, data / "untied.pt", *options, classes=2)), tmp_path / "hf")
    LinformerForSequenceClassification.from_pretrained(tmp_path / "hf").save_pretrained(tmp_path / "saved")
    import_folder(tmp_path / "saved", tmp_path / "back", tmp_path / "hf")
    assert LinformerRobertaModel.from_pretrained(tmp_path / "back").model.args.untie_weights_roberta


def test_a_single_output_is_a_number_unless_said_otherwise(
    finetuned: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export_folder(str(finetuned[0]), tmp_path / "hf")
    model = LinformerForSequenceClassification.from_pretrained(
        tmp_path / "hf", num_labels=1, problem_type=None, ignore_mismatched_sizes=True
    )
    model.save_pretrained(tmp_path / "saved")
    import_folder(tmp_path / "saved", tmp_path / "back", tmp_path / "hf")
    assert LinformerRobertaModel.from_pretrained(tmp_path / "back").task.cfg.regression_target is True
    config = tmp_path / "saved" / "config.json"
    one_class = {"problem_type": "single_label_classification"}
    config.write_text(json.dumps(json.loads(config.read_text()) | one_class))
    import_folder(tmp_path / "saved", tmp_path / "one", tmp_path / "hf")
    (tmp_path / "texts.txt").write_text("a text\n")
    assert main(["predict", str(tmp_path / "one"), str(tmp_path / "texts.txt")]) == 1
    assert "has a single output" in capsys.readouterr().err


@torch.no_grad()
def test_the_shipped_model_goes_back_without_a_change(exported: Path, hub: Any, tmp_path: Path) -> None:
    import_folder(exported, tmp_path / "back")
    again = LinformerRobertaModel.from_pretrained(tmp_path / "back").eval()
    weights = hub.model.state_dict()
    assert weights.keys() == again.model.state_dict().keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in again.model.state_dict().items())
    text = "He opened the <mask> and walked into the room."
    assert again.fill_mask(text) == hub.fill_mask(text)

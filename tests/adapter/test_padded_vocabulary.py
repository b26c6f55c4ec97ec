"""A vocabulary padded in the dictionary or in the model changes no parameter, no logit of a real token and no loss."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.data import Dictionary

from linformer_fairseq.checkpoints.reading import CheckpointError
from linformer_fairseq.files import dictionary as dictionary_file
from linformer_fairseq.models import LinformerRobertaConfig, LinformerRobertaModel
from linformer_fairseq.modules.vocabulary import real_symbols
from tests.adapter.building import WORDS, from_command_line, from_hydra, make_dictionary
from tests.checkpoint_files import save

SYMBOLS = WORDS + 5
"""With fairseq's four and <mask>: no multiple of 8."""
PADDED = 48
MASK = SYMBOLS - 1
SIZES = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "encoder_attention_heads": 4}
MODEL = {**SIZES, "max_positions": 32, "projected_dim": 8}


def symbols(padded: bool) -> Dictionary:
    """As fairseq's masked_lm has it from a dict.txt of either kind."""
    made = make_dictionary()
    made.add_symbol("<mask>")
    if padded:
        made.pad_to_multiple_(dictionary_file.MULTIPLE)
    return made


def build(padded: bool = False, **options: Any) -> LinformerRobertaModel:
    torch.manual_seed(1)
    task = SimpleNamespace(cfg=SimpleNamespace(tokens_per_sample=32), source_dictionary=symbols(padded))
    return LinformerRobertaModel.build_model(LinformerRobertaConfig(**{**MODEL, **options}), task).eval()


KINDS = [{"padded": True}, {"pad_vocabulary": True}, {"padded": True, "pad_vocabulary": True}]


@pytest.fixture
def tokens() -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(4, SYMBOLS, (3, 20), generator=generator)


def products(model: LinformerRobertaModel, tokens: torch.Tensor) -> list[int]:
    """Rows of each matrix that the output layer multiplies with."""
    rows: list[int] = []

    class Spy(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func is torch.nn.functional.linear:
                rows.append(args[1].shape[0])
            return func(*args, **(kwargs or {}))

    with Spy():
        model(tokens)
    return rows


@pytest.mark.parametrize("untied", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_parameters_logits_and_gradients_are_those_without_padding(
    kind: dict[str, bool], untied: bool, tokens: torch.Tensor
) -> None:
    plain, padded = build(untie_weights_roberta=untied), build(**kind, untie_weights_roberta=untied)
    state = plain.state_dict()
    assert {name: tensor.shape for name, tensor in padded.state_dict().items()} == {
        name: tensor.shape for name, tensor in state.items()
    }
    padded.load_state_dict(state)
    assert products(plain, tokens)[-1] == SYMBOLS and products(padded, tokens)[-1] == PADDED
    where = tokens % 3 == 0
    for masked in (None, where):
        expected, found = (model(tokens, masked_tokens=masked)[0] for model in (plain, padded))
        assert found.shape == expected.shape and found.shape[-1] == SYMBOLS
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for model in (plain, padded):
        model(tokens)[0].square().sum().backward()
    theirs = dict(padded.named_parameters())
    for name, parameter in plain.named_parameters():
        assert parameter.grad is not None, name
        torch.testing.assert_close(theirs[name].grad, parameter.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_loss_is_that_without_padding(kind: dict[str, bool], tokens: torch.Tensor) -> None:
    target = tokens.where(tokens % 4 == 0, torch.tensor(1))
    sample = {"net_input": {"src_tokens": tokens}, "target": target, "ntokens": 60, "nsentences": 3}
    losses = []
    for model in (build(), build(**kind)):
        task = SimpleNamespace(source_dictionary=model.encoder.dictionary, target_dictionary=model.encoder.dictionary)
        criterion = MaskedLmLoss(SimpleNamespace(tpu=False), task)
        losses.append(criterion(model, sample)[0].item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)


def test_half_precision(tokens: torch.Tensor) -> None:
    plain, padded = build().bfloat16(), build(pad_vocabulary=True).bfloat16()
    torch.testing.assert_close(padded(tokens)[0], plain(tokens)[0], rtol=0.02, atol=0.02)


def test_padding_is_read_as_unknown_and_a_foreign_id_is_refused(tokens: torch.Tensor) -> None:
    """fairseq's masked_lm draws its random tokens from the whole dictionary."""
    model = build(padded=True)
    filler, unknown = tokens.clone(), tokens.clone()
    filler[0, 5], unknown[0, 5] = PADDED - 1, 3
    assert torch.equal(model(filler)[0], model(unknown)[0])
    filler[0, 5] = PADDED
    with pytest.raises(IndexError):
        model(filler)


def test_fillers_in_front_of_mask_are_symbols() -> None:
    """RoBERTa's dictionary has three; a dictionary without <mask> has no padding either."""
    made = make_dictionary()
    made.add_symbol("madeupword0000")
    assert real_symbols(made) == WORDS + 5
    made.add_symbol("<mask>")
    made.add_symbol("madeupword0001")
    assert real_symbols(made) == WORDS + 6
    made.add_symbol("more")
    assert real_symbols(made) == len(made)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data of either kind, as far as a model is built from it."""
    folder = tmp_path_factory.mktemp("dictionaries")
    for name in ("plain", "padded"):
        (folder / name).mkdir()
        make_dictionary().save(str(folder / name / "dict.txt"))
    dictionary_file.pad(folder / "padded" / "dict.txt")
    return {"plain": folder / "plain", "padded": folder / "padded"}


@pytest.mark.slow
def test_both_entry_points_have_the_option(folders: dict[str, Path], tokens: torch.Tensor) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in MODEL.items()]
    options = {"_name": "linformer_roberta", **MODEL}
    _, _, by_flag = from_command_line(
        folders["plain"], "--arch", "linformer_roberta", *flags, "--pad-vocabulary", "--tokens-per-sample", "32"
    )
    _, _, by_config = from_hydra(folders["plain"], {**options, "pad_vocabulary": True}, {"tokens_per_sample": 32})
    for model in (by_flag, by_config):
        assert products(model.eval(), tokens)[-1] == PADDED


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), [("plain", "padded"), ("padded", "plain")])
def test_checkpoints_load_with_data_of_the_other_kind(
    folders: dict[str, Path], first: str, second: str, tmp_path: Path, tokens: torch.Tensor
) -> None:
    """By fairseq's own loader, and by ``from_pretrained``; a dictionary with another symbol is refused."""
    options = {"_name": "linformer_roberta", **MODEL, "pad_vocabulary": first == "padded"}
    cfg, task, model = from_hydra(folders[first], options, {"tokens_per_sample": 32})
    assert len(task.source_dictionary) == {"plain": SYMBOLS, "padded": PADDED}[first]
    model.eval()
    path = save(tmp_path / "model.pt", 0, model.state_dict(), cfg, checksum=False)
    expected = model(tokens)[0]
    (loaded,), _, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(path)], arg_overrides={"data": str(folders[second])}
    )
    assert task.mask_idx == MASK and len(task.source_dictionary) == {"plain": SYMBOLS, "padded": PADDED}[second]
    torch.testing.assert_close(loaded.eval()(tokens)[0], expected, rtol=1e-5, atol=1e-6)
    hub = LinformerRobertaModel.from_pretrained(tmp_path, "model.pt", folders[second], bpe=None).eval()
    torch.testing.assert_close(hub.model(tokens)[0], expected, rtol=1e-5, atol=1e-6)

    other = tmp_path / "other"
    shutil.copytree(folders["plain"], other)
    with (other / "dict.txt").open("a") as stream:
        stream.write("one_more 1\n")
    if second == "padded":
        dictionary_file.pad(other / "dict.txt")
    with pytest.raises(CheckpointError, match="size mismatch for encoder.sentence_encoder.embed_tokens.weight"):
        checkpoint_utils.load_model_ensemble_and_task([str(path)], arg_overrides={"data": str(other)})

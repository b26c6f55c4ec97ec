"""A model to hand on: what `linformer checkpoint release` makes, and all that reads it."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
import torch
from fairseq import checkpoint_utils

from linformer_fairseq.checkpoints import released_folder
from linformer_fairseq.checkpoints.averaging import averaged
from linformer_fairseq.checkpoints.folder import State, examine
from linformer_fairseq.checkpoints.reading import CheckpointError, read_checkpoint
from linformer_fairseq.checkpoints.released_file import read_released, released
from linformer_fairseq.checkpoints.released_folder import training_data
from linformer_fairseq.checkpoints.releasing import release
from linformer_fairseq.checkpoints.writing import write_checkpoint as save_checkpoint
from linformer_fairseq.cli import main
from linformer_fairseq.evaluation import load_classifier, predict, read_finetuned
from linformer_fairseq.files import shipped as shipped_module
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_data import read_task
from linformer_fairseq.files.weight_names import OUTPUT, OUTPUT_BIAS, TOKENS
from linformer_fairseq.launch.pretrained import read_pretrained
from linformer_fairseq.launch.resolvers import run_of
from linformer_fairseq.models import LinformerRobertaModel
from tests.data_prep.small_tokenizers import make_sentencepiece
from tests.messages import says
from tests.models import write_checkpoint
from tests.mutations import damaged
from tests.prepared_task import qqp

Folders = tuple[Path, Path, Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """The data of a task, a checkpoint of its finetuning, and what is released of that."""
    folder = tmp_path_factory.mktemp("release")
    data = qqp(folder / "glue", make_sentencepiece(folder / "tokenizer"))
    path = write_checkpoint(data, folder / "trained.pt", "--max-positions", "128")
    assert main(["checkpoint", "release", str(path), "--data", str(data), "--out", str(folder / "model")]) == 0
    return data, path, folder / "model"


@pytest.fixture
def shipped(folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same as a model that comes with the package, by the name ``small``."""
    monkeypatch.setattr(shipped_module, "_SHIPPED", tmp_path / "weights")
    shutil.copytree(folders[2], tmp_path / "weights" / "small")
    return tmp_path / "weights" / "small" / shipped_module.WEIGHTS


def test_a_folder_has_all_that_is_needed_and_nothing_of_this_machine(folders: Folders) -> None:
    data, path, model = folders
    files = {str(file.relative_to(model)) for file in model.rglob("*") if file.is_file()}
    assert files == {
        *("model.safetensors", "sentencepiece.bpe.model", "manifest.json"),
        *("dict.txt", "input0/dict.txt", "label/dict.txt"),
    }
    content = (model / shipped_module.WEIGHTS).read_bytes()
    assert str(data.parent).encode() not in content
    parameters = {tensor.data_ptr(): tensor.numel() for tensor in read_checkpoint(path)["model"].values()}
    assert len(content) < 2 * sum(parameters.values()) + 10_000, "half precision, and each tensor once"


def test_paths_are_forgotten_and_the_name_of_the_head_kept(folders: Folders) -> None:
    state = read_checkpoint(folders[1])
    task, criterion = state["cfg"]["task"], state["cfg"]["criterion"]
    task["data"], criterion["other"] = "task", "made/here"
    task["classification_head_name"] = criterion["classification_head_name"] = "topic/a"
    cfg = read_released(io.BytesIO(released(state)))["cfg"]
    assert cfg.task.data == cfg.criterion.other == "."
    assert cfg.task.classification_head_name == cfg.criterion.classification_head_name == "topic/a"


def test_copies_are_stored_once_and_other_types_apart(folders: Folders) -> None:
    """A checkpoint of half precision training has a copy of the embedding for the output layer."""
    state = read_checkpoint(folders[1])
    shared = len(released(state))
    state["model"] = {name: tensor.clone() for name, tensor in state["model"].items()}
    assert len(released(state)) == shared
    state["model"] = {"a": torch.zeros(2), "b": torch.zeros(2, dtype=torch.long)}
    found = read_released(io.BytesIO(released(state)))["model"]
    assert (found["a"].dtype, found["b"].dtype) == (torch.float16, torch.int64)


def test_weights_are_those_of_the_checkpoint_in_half_precision(folders: Folders) -> None:
    _, path, model = folders
    expected = read_checkpoint(path)["model"]
    state = checkpoint_utils.load_checkpoint_to_cpu(str(model / shipped_module.WEIGHTS))
    assert state["model"].keys() == expected.keys()
    for name, tensor in expected.items():
        found = state["model"][name]
        assert found.dtype == (torch.float16 if tensor.is_floating_point() else tensor.dtype)
        torch.testing.assert_close(found.to(tensor.dtype), tensor.half().to(tensor.dtype), rtol=0, atol=0)


def test_it_classifies_as_the_checkpoint_does(folders: Folders) -> None:
    folder, path, model = folders
    data, device = read_task(folder), torch.device("cpu")
    found, expected = (
        predict(load_classifier(read_finetuned(file), data, device), "valid", 8)
        for file in (model / shipped_module.WEIGHTS, path)
    )
    assert torch.equal(torch.as_tensor(found.predicted), torch.as_tensor(expected.predicted))


def test_the_package_s_models_have_names(
    folders: Folders,
    shipped: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert shipped_module.shipped_models() == ["small"]
    hub = LinformerRobertaModel.from_pretrained("small").eval()
    tokens = hub.encode("the list is empty")
    assert hub.decode(tokens) == "the list is empty"
    expected = LinformerRobertaModel.from_pretrained(folders[2]).eval()
    assert torch.equal(hub.extract_features(tokens), expected.extract_features(tokens))
    assert released_folder.find_weights("small") == str(shipped)
    assert released_folder.find_weights("other/small.pt") == "other/small.pt"
    assert run_of("small") == "small"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json").write_text("{}")
    assert released_folder.existing_weights("small") == shipped, "the name, not a folder of transformers"
    with pytest.raises(UserError, match=r"\./small: is a folder of Hugging Face's transformers"):
        released_folder.existing_weights("./small")
    (tmp_path / "small").rename(tmp_path / "a blank")
    with pytest.raises(UserError, match="`linformer import hf 'a blank' OUT`"):
        released_folder.existing_weights("a blank")
    (tmp_path / "a blank" / "model.onnx").touch()
    with pytest.raises(UserError, match=r"an exported graph \(model.onnx\)"):
        released_folder.existing_weights("a blank")
    capsys.readouterr()
    assert main(["evaluate", "small", str(folders[0]), "--device", "cpu"]) == 0
    assert "accuracy" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="smal does not exist.* or one of small"):
        LinformerRobertaModel.from_pretrained("smal")
    with pytest.raises(UserError, match="no such file.*small"):
        read_pretrained(tmp_path / "smal")


def test_the_weights_of_a_folder(tmp_path: Path) -> None:
    assert released_folder.find_weights(str(tmp_path)) == str(tmp_path)
    for name in ("checkpoint_last.pt", "checkpoint_best.pt", "model.pt", "model.safetensors"):
        (tmp_path / name).touch()
        expected = tmp_path / name if name != "checkpoint_last.pt" else tmp_path
        assert released_folder.find_weights(str(tmp_path)) == str(expected)


def test_a_finetuning_may_begin_with_one(shipped: Path) -> None:
    pretrained = read_pretrained(Path(released_folder.find_weights("small")))
    assert pretrained.name == "linformer_roberta"
    assert (pretrained.max_positions, int(pretrained.options["projected_dim"])) == (128, 8)


def test_it_is_verified(folders: Folders, tmp_path: Path) -> None:
    path = shutil.copy(folders[2] / shipped_module.WEIGHTS, tmp_path / "model.safetensors")
    assert examine(path).state is State.SOUND
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert examine(path).state is State.DAMAGED


@pytest.mark.parametrize("number", range(120))
def test_a_damaged_one_is_refused_by_name(folders: Folders, tmp_path: Path, number: int) -> None:
    path = shutil.copy(folders[2] / shipped_module.WEIGHTS, tmp_path / "model.safetensors")
    content = path.read_bytes()
    with damaged(path, content, number):
        if path.read_bytes() != content:
            with pytest.raises(CheckpointError, match="model.safetensors"):
                read_checkpoint(path)


def test_another_program_s_safetensors_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    for number, (facts, said) in enumerate(
        (
            (None, "was not written by"),
            ({"format": "pt"}, "its format is 'pt'"),
            ({"format": "linformer-fairseq 2", "sha256": "0" * 64}, "its format is 'linformer-fairseq 2'"),
        )
    ):
        path = tmp_path / f"{number}.safetensors"
        save_file({"weight": torch.zeros(2)}, path, facts)
        with pytest.raises(CheckpointError, match=f"{number}.safetensors.*{said}"):
            read_checkpoint(path)


def test_of_a_run_the_best_checkpoint_is_released(folders: Folders, tmp_path: Path) -> None:
    data, path, model = folders
    (tmp_path / "run").mkdir()
    shutil.copy(path, tmp_path / "run" / "checkpoint_best.pt")
    words = ["checkpoint", "release", str(tmp_path / "run"), "--data", str(data), "--out", str(tmp_path / "new")]
    assert main(words) == 0
    ours, theirs = (read_checkpoint(folder / shipped_module.WEIGHTS)["model"] for folder in (tmp_path / "new", model))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_of_several_checkpoints_the_mean_is_released(folders: Folders, tmp_path: Path) -> None:
    data, path, _ = folders
    added = {"more.pt": 0.25, "most.pt": 0.5}
    for name, step in added.items():
        state = read_checkpoint(path)
        for key, weight in state["model"].items():
            state["model"][key] = weight + step if weight.is_floating_point() else weight
        save_checkpoint(state, tmp_path / name)
    words = [*map(str, (path, *(tmp_path / name for name in added))), "--data", str(data), "--out"]
    assert main(["checkpoint", "release", *words, str(tmp_path / "mean")]) == 0
    one, mean = read_checkpoint(path)["model"], read_checkpoint(tmp_path / "mean" / shipped_module.WEIGHTS)["model"]
    assert one.keys() == mean.keys()
    for name, weight in one.items():
        wanted = weight + 0.25 if weight.is_floating_point() else weight
        torch.testing.assert_close(mean[name].to(weight.dtype), wanted, atol=2e-3, rtol=0)
    assert torch.equal(mean[OUTPUT], mean[TOKENS])


def test_the_mean_of_half_precision_weights_is_not_rounded_nor_too_large(folders: Folders, tmp_path: Path) -> None:
    for name, values in (("one.pt", [60000.0, 1.0]), ("other.pt", [50016.0, 1.0009765625])):
        state = read_checkpoint(folders[1])
        state["model"] = {"weight": torch.tensor(values, dtype=torch.float16)}
        save_checkpoint(state, tmp_path / name)
    found = averaged([tmp_path / "one.pt", tmp_path / "other.pt"])["model"]["weight"]
    assert (found.dtype, found.tolist()) == (torch.float32, [55008.0, 1.00048828125])


def test_only_checkpoints_of_one_model_have_a_mean(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, path, _ = folders

    def said(other: Path) -> str:
        words = ["checkpoint", "release", str(path), str(other), "--data", str(data), "--out", str(tmp_path / "new")]
        assert main(words) == 1 and not (tmp_path / "new").exists()
        return capsys.readouterr().err

    shorter = write_checkpoint(data, tmp_path / "shorter.pt", "--max-positions", "64")
    assert says(said(shorter), shorter, "model.max_positions=64", path, "128")
    affine = write_checkpoint(data, tmp_path / "paper.pt", "--max-positions", "128", "--row-weights", "free")
    assert says(said(affine), affine, "model.row_weights=free", path, "affine")
    roberta = write_checkpoint(data, tmp_path / "roberta.pt", "--max-positions", "128", arch="roberta")
    assert says(said(roberta), roberta, "model._name=roberta", path, "linformer_roberta")
    assert says(said(path), path, "twice")
    (tmp_path / "link.pt").symlink_to(path)
    assert says(said(tmp_path / "link.pt"), "link.pt", "twice")
    state = read_checkpoint(path)
    del state["model"][OUTPUT_BIAS]
    save_checkpoint(state, tmp_path / "without.pt")
    assert says(said(tmp_path / "without.pt"), "without.pt", f"no weight {OUTPUT_BIAS}", path)
    with pytest.raises(ValueError, match=f"trained.pt: has the weight {OUTPUT_BIAS} .* but .*without.pt has no weight"):
        averaged([tmp_path / "without.pt", path])
    state["model"][OUTPUT_BIAS] = torch.zeros(3)
    save_checkpoint(state, tmp_path / "other.pt")
    assert says(said(tmp_path / "other.pt"), "other.pt", f"{OUTPUT_BIAS} of shape (3,)", path)
    state["model"][OUTPUT_BIAS] = {}
    save_checkpoint(state, tmp_path / "no_tensor.pt")
    assert says(said(tmp_path / "no_tensor.pt"), "no_tensor.pt", OUTPUT_BIAS, "dict")
    assert says(said(tmp_path / "missing.pt"), "missing.pt")
    state = read_checkpoint(path)
    state["model"][TOKENS] = state["model"][TOKENS] + 3e5
    save_checkpoint(state, tmp_path / "large.pt")
    assert says(said(tmp_path / "large.pt"), path, "large.pt", TOKENS, "half precision")


def test_what_cannot_be_released_is_named(folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, path, model = folders

    def said(*words: object) -> str:
        assert main(["checkpoint", "release", *map(str, words)]) == 1
        return capsys.readouterr().err

    assert f"{model}: already exists" in said(path, "--data", data, "--out", model)
    assert f"{tmp_path}: expected the folder" in said(path, "--data", tmp_path, "--out", tmp_path / "new")
    assert "missing.pt" in said(tmp_path / "missing.pt", "--data", data, "--out", tmp_path / "new")
    assert f"{data}: a folder without" in said(data, "--data", data, "--out", tmp_path / "new")
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    for source in (data / "input0" / "dict.txt", data / "sentencepiece.bpe.model"):
        shutil.copy(source, tokenizer)
    assert f"{tokenizer}: expected the folder of the classifier's task" in said(
        path, "--data", tokenizer, "--out", tmp_path / "new"
    )
    state = read_checkpoint(path)
    name = next(iter(state["model"]))
    state["model"][name] = torch.full((2,), 1e6)
    with pytest.raises(ValueError, match=f"{name}.*half precision"):
        released(state)
    assert not (tmp_path / "new").exists()


def test_of_several_folders_of_data_the_first_has_the_dictionary(tmp_path: Path) -> None:
    torch.save({"cfg": {"task": {"data": "first:second"}}}, tmp_path / "model.pt")
    assert training_data(tmp_path / "model.pt") == Path("first")


def test_a_model_of_numbers_is_released_whatever_classes_the_data_have(folders: Folders, tmp_path: Path) -> None:
    data = folders[0]
    path = write_checkpoint(data, tmp_path / "numbers.pt", "--max-positions", "64", "--regression-target", classes=1)
    assert tmp_path / "out" / "model.safetensors" in release(path, data, tmp_path / "out")


def test_a_masked_language_model_that_carries_a_head_along_needs_no_task(folders: Folders, tmp_path: Path) -> None:
    state = read_checkpoint(folders[1])
    state["cfg"]["task"] = {"_name": "masked_lm", "data": "gone", "tokens_per_sample": 128}
    state["cfg"]["criterion"] = {"_name": "masked_lm"}
    save_checkpoint(state, tmp_path / "trained.pt")
    make_sentencepiece(tmp_path / "bin")
    made = release(tmp_path / "trained.pt", tmp_path / "bin", tmp_path / "out")
    assert {path.name for path in made} == {"dict.txt", "model.safetensors", "sentencepiece.bpe.model"}
    assert LinformerRobertaModel.from_pretrained(tmp_path / "out").eval().fill_mask("the <mask> is empty", topk=1)


def test_data_without_a_tokenizer_are_refused(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(folders[0], data)
    tokenizer = (data / "sentencepiece.bpe.model").rename(tmp_path / "sentencepiece.bpe.model")
    words = ["checkpoint", "release", str(folders[1]), "--data", str(data), "--out", str(tmp_path / "model")]
    assert main(words) == 1
    said = capsys.readouterr().err
    assert f"no tokenizer found in {data}" in said and f"put it into {data}" in said
    assert "sentencepiece.bpe.model" in said and "encoder.json" in said
    assert "from_pretrained" not in said and "None" not in said
    assert not (tmp_path / "model").exists()

    tokenizer.rename(data / "input0" / tokenizer.name)  # where from_pretrained finds it, too
    assert main(words) == 0
    assert (tmp_path / "model" / tokenizer.name).is_file()

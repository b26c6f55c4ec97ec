"""A finetuning builds the model of its checkpoint, and refuses what contradicts it."""

from __future__ import annotations

import shutil
from pathlib import Path

import hydra
import pytest
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, open_dict

from linformer_fairseq.files import dictionary
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.mmap_dataset import open_dataset
from linformer_fairseq.launch import complete, compose, config_dir, submission
from linformer_fairseq.launch.compose import VERSION_BASE, register
from linformer_fairseq.launch.pretrained import Pretrained
from linformer_fairseq.launch.processes import SRUN, RankInfo
from tests.binarised import write_items

pytestmark = pytest.mark.slow


@pytest.fixture
def words(pretrained: Path, task_data: Path) -> list[str]:
    return ["task=sst2", "run_config=cpu", f"task.data={task_data}", f"pretrained={pretrained / 'checkpoint_best.pt'}"]


def test_what_the_model_is_comes_from_the_checkpoint(words: list[str], pretrained: Path) -> None:
    config = complete(compose("finetuning", [*words, "model.dropout=0.3"]))
    model = config.model
    assert (model._name, model.max_positions, model.projected_dim) == ("linformer_roberta_tiny", 32, 8)
    assert (model.sharing, model.projection, model.encoder_layers, model.encoder_embed_dim) == (
        "layerwise",
        "convolution",
        2,
        64,
    )
    assert (model.dropout, model.attention_dropout) == (0.3, 0.1)
    assert (config.task.max_positions, config.task.num_classes) == (32, 3)
    assert config.checkpoint.finetune_from_model == str(pretrained / "checkpoint_best.pt")
    assert config.run.name == "linformer_base_n32_k8_layerwise_s1/sst2_lr1e-05_s1"


def test_how_fast_it_is_trained_is_the_finetunings_choice(words: list[str]) -> None:
    assert "compile_encoder" not in complete(compose("finetuning", words)).model
    assert complete(compose("finetuning", [*words, "model.compile_encoder=true"])).model.compile_encoder is True


@pytest.mark.parametrize("without", ["model=null", "~model"])
def test_a_pretraining_goes_on_with_the_model_of_a_checkpoint(
    without: str, pretrained: Path, tiny_corpus: Path
) -> None:
    words = [f"pretrained={pretrained / 'checkpoint_best.pt'}", f"task.data={tiny_corpus}", "run_config=cpu"]
    words += ["task.tokens_per_sample=32", "run.tokens_per_update=96", "run.tokens_per_batch=96"]
    config = complete(compose("pretraining", [*words, without, "model.dropout=0.3"]))
    assert (config.model._name, config.model.projected_dim, config.model.dropout) == ("linformer_roberta_tiny", 8, 0.3)
    assert config.run.name == f"{pretrained.name}_s1"
    with pytest.raises(UserError, match="model._name=linformer_roberta_base, .* linformer_roberta_tiny; .*model=null"):
        complete(compose("pretraining", words))


def test_a_submitted_pretraining_goes_on_with_the_model_of_a_checkpoint(
    pretrained: Path, tiny_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job gets the config from Hydra, and not from `compose`."""
    words = [f"pretrained={pretrained / 'checkpoint_best.pt'}", f"task.data={tiny_corpus}", "run_config=cpu", "~model"]
    words += ["task.tokens_per_sample=32", "run.tokens_per_update=96", "run.tokens_per_batch=96"]
    register()
    with hydra.initialize_config_dir(str(config_dir()), version_base=VERSION_BASE):
        config = hydra.compose("pretraining", overrides=words, return_hydra_config=True)
    monkeypatch.setattr(HydraConfig.instance(), "cfg", config.copy())
    with open_dict(config):
        config.pop("hydra")
    started: list[DictConfig] = []
    monkeypatch.setattr(submission, "detect_rank", lambda environment, world_size: RankInfo(0, 1, 0, None, SRUN))
    monkeypatch.setattr(submission, "train", lambda completed, rank_info, words: started.append(completed))
    submission._submitted(config)
    assert [completed.model._name for completed in started] == ["linformer_roberta_tiny"]
    monkeypatch.setattr(submission, "detect_rank", lambda environment, world_size: None)
    with pytest.raises(SystemExit, match="1"):  # with another launcher of Hydra, there is nobody to tell
        submission._submitted(config)


def test_a_roberta_has_no_option_of_linformer() -> None:
    roberta = Pretrained(Path("some.pt"), "roberta_base", {"dropout": 0.1, "encoder_layers": 12}, 512, 100)
    with pytest.raises(UserError, match="compile_encoder=True: no option of roberta_base"):
        roberta.model_options({"compile_encoder": True})
    assert roberta.model_options({"compile_encoder": None, "dropout": 0.2})["dropout"] == 0.2


def test_what_is_no_k_is_another_one_than_the_checkpoints() -> None:
    linformer = Pretrained(Path("some.pt"), "linformer_roberta", {"projected_dim": 8}, 512, 100)
    assert linformer.model_options({"projected_dim": "8"})["projected_dim"] == 8
    with pytest.raises(UserError, match="^model.projected_dim=8x, but some.pt was pretrained with projected_dim=8; "):
        linformer.model_options({"projected_dim": "8x"})


def test_the_same_said_twice_is_no_contradiction(words: list[str]) -> None:
    said = ["model.projected_dim=8", "model.encoder_layers=2", "model._name=linformer_roberta_tiny"]
    assert complete(compose("finetuning", [*words, *said])).model.projected_dim == 8


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.projected_dim=16", "model.projected_dim=16.* projected_dim=8"),
        ("model.max_positions=64", "model.max_positions=64.* max_positions=32"),
        ("model.sharing=none", "model.sharing=none.* sharing=layerwise"),
        ("model.encoder_layers=4", "model.encoder_layers=4.* encoder_layers=2"),
        ("model._name=roberta", "model._name=roberta,.* linformer_roberta_tiny"),
        ("task.max_positions=64", "task.max_positions=64.* n = 32"),
        ("lr_scheduler.warmup_updates=30000", "warmup_updates=30000.*max_update is 20,935:"),
        ("run.tokens_per_update=512", "^run.tokens_per_update=512: .*; in finetuning, set run.sentences_per_update"),
        ("run.tokens_per_batch=256", "^run.tokens_per_batch=256: .*; in finetuning, set run.sentences_per_update"),
        ("run.precision=fp16", "run.precision=fp16.* fp32 or bf16"),
        ("task.num_classes=2", "task.num_classes=2.* 3 classes"),
        ("task.length_window=-1", "task.length_window=-1: .*0"),
        ("task.init_token=65", "task.init_token=65, .* 65 symbols"),
        ("task.max_positions=abc", "task.max_positions: Value 'abc'"),
        ("model.dropout=2", "model.dropout=2.0: .* below 1"),
        ("dataset.valid_subset=nope", "dataset.valid_subset=nope: "),
        ("pretrained=absent.pt", "pretrained=.*absent.pt: no such file"),
    ],
)
def test_contradictions_are_refused(words: list[str], word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        complete(compose("finetuning", [*words, word]))


def test_pretraining_data_are_no_tasks_data(words: list[str], tiny_corpus: Path) -> None:
    with pytest.raises(UserError, match=f"{tiny_corpus}: .*pretraining.*`linformer data task`"):
        complete(compose("finetuning", [*words, f"task.data={tiny_corpus}"]))


def test_another_dictionary_is_refused(words: list[str], task_data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(task_data, other)
    with (other / "input0" / "dict.txt").open("a") as stream:
        stream.write("more 1\n")
    with pytest.raises(UserError, match="65 symbols.* 66"):
        complete(compose("finetuning", [*words, f"task.data={other}"]))


@pytest.mark.parametrize("split", ["train", "valid"])
def test_examples_without_a_class_are_refused_before_training(
    words: list[str], task_data: Path, tmp_path: Path, split: str
) -> None:
    other = tmp_path / "other"
    shutil.copytree(task_data, other)
    examples = open_dataset(other / "label" / split).items
    write_items(other / "label" / split, [[dictionary.FIRST, 2]] * (examples - 1) + [[dictionary.UNK, 2]])
    with pytest.raises(UserError, match=f"task.data: .*label/{split}: 1 examples without one of the classes"):
        complete(compose("finetuning", [*words, f"task.data={other}"]))


def test_a_padded_dictionary_is_the_same(words: list[str], pretrained: Path, task_data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(task_data, other)
    dictionary.pad(other / "input0" / "dict.txt")
    assert complete(compose("finetuning", [*words, f"task.data={other}"])).task.data == str(other)
    # fairseq's model has rows for the padding
    roberta = Pretrained(pretrained / "checkpoint_best.pt", "roberta_base", {}, 512, 72)
    roberta.check_dictionary(other / "input0" / "dict.txt")
    with pytest.raises(UserError, match="72 symbols, but .* makes 65"):
        roberta.check_dictionary(task_data / "input0" / "dict.txt")


def test_longer_examples_than_the_model_takes_are_refused(words: list[str], task_data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(task_data, other)
    (other / "manifest.json").write_text('{"options": {"max_positions": 64}}')  # what it allowed, not what there is
    complete(compose("finetuning", [*words, f"task.data={other}"]))
    examples = open_dataset(other / "label" / "valid").items
    write_items(other / "input0" / "valid", [[*[5] * 40, 2]] * examples)
    with pytest.raises(UserError, match="input0/valid: .*n = 32.*--max-positions 32"):
        complete(compose("finetuning", [*words, f"task.data={other}"]))
    complete(compose("finetuning", [*words, f"task.data={other}", "task.shorten_method=truncate"]))


def test_ten_epochs_of_ones_own_texts(words: list[str], task_data: Path) -> None:
    examples = open_dataset(task_data / "label" / "train").items
    more = ["task=tsv", "run.task=mine", "run.sentences_per_update=7", "dataset.batch_size=7"]
    config = complete(compose("finetuning", [*words, *more]))
    # an epoch's last update has the rest of it
    assert config.optimization.max_update == config.lr_scheduler.total_num_update == 10 * -(-examples // 7)
    assert examples % 7, "or this shows no rounding"
    assert config.lr_scheduler.warmup_updates == int(0.06 * config.optimization.max_update)
    assert config.run.name.endswith("/mine_lr1e-05_s1")
    swapped = complete(compose("finetuning", [*words, *more, "dataset.train_subset=valid"]))
    assert swapped.optimization.max_update == 10 * -(-open_dataset(task_data / "label" / "valid").items // 7)
    left_out = ["~lr_scheduler.total_num_update", "lr_scheduler._name=inverse_sqrt"]  # what depends on values behind it
    scheduler = complete(compose("finetuning", [*left_out, *words, *more])).lr_scheduler
    assert set(scheduler) == {"_name", "warmup_updates"}
    assert scheduler.warmup_updates == config.lr_scheduler.warmup_updates
    with pytest.raises(UserError, match="absent: no such folder"):
        complete(compose("finetuning", [*words, *more, "task.data=absent"]))
    with pytest.raises(UserError, match="run.sentences_per_update=0: expected at least 1"):
        complete(compose("finetuning", [*words, *more, "run.sentences_per_update=0"]))


def test_scores_that_fairseq_cannot_compute_are_refused(words: list[str]) -> None:
    with pytest.raises(UserError, match="^criterion.report_mcc=true: .*'one'"):
        complete(compose("finetuning", [*words, "criterion.report_mcc=true"]))


def test_data_of_another_task_are_refused(words: list[str], task_data: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(task_data, other)
    (other / "manifest.json").write_text('{"task": "qnli", "options": {"max_positions": 32}}')
    with pytest.raises(UserError, match="task=sst2.* qnli; .*task.data"):
        complete(compose("finetuning", [*words, f"task.data={other}"]))
    assert complete(compose("finetuning", [*words, f"task.data={other}", "task=qnli"])).run.task == "qnli"


def test_a_folder_without_a_checkpoint_is_refused(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^pretrained={tmp_path}: a folder without a checkpoint"):
        complete(compose("finetuning", [*words, f"pretrained={tmp_path}"]))


def test_a_file_that_is_no_checkpoint_is_refused(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "some.pt").write_text("text")
    with pytest.raises(UserError, match="some.pt: cannot be read as a checkpoint"):
        complete(compose("finetuning", [*words, f"pretrained={tmp_path / 'some.pt'}"]))

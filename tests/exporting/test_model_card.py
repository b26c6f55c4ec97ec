"""Model cards: metadata that the hub reads, and nothing that the files do not say."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from omegaconf import OmegaConf

from data_prep import prepare_pretraining
from linformer_fairseq import cli
from linformer_fairseq.checkpoints.dictionaries import digests
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.checkpoints.releasing import release
from linformer_fairseq.exporting.model_card import architecture, model_card, training
from linformer_fairseq.exporting.model_card.data import Data, read_data
from linformer_fairseq.exporting.model_card.front_matter import split
from linformer_fairseq.exporting.model_card.history import Run, Settings, Stage, read_history
from linformer_fairseq.exporting.trained import CheckpointModel, read_model
from linformer_fairseq.files.dictionary import embedding_rows
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import write_json
from linformer_fairseq.files.run_record import read_record
from linformer_fairseq.files.shipped import shipped_folder
from linformer_fairseq.results.run_row import LOG, read_run
from linformer_fairseq.results.training_log import read_log
from tests.adapter.building import directly
from tests.conversion.sources import make_fairseq
from tests.core.cases import EVERY_CASE
from tests.data_prep.documents import make_documents, write
from tests.messages import says
from tests.models import write_checkpoint
from tests.prepared_task import qqp
from tests.results.examples import attempt, run_folder, validation
from tests.results.examples import training as logged

SIZES = ("--max-positions", "128", "--tokens-per-sample", "128")


def options_of(case: str) -> dict[str, Any]:
    names = {"embed_dim": "encoder_embed_dim", "num_heads": "encoder_attention_heads", "num_layers": "encoder_layers"}
    return {names.get(name, name): value for name, value in EVERY_CASE[case].items()} | {"encoder_ffn_embed_dim": 32}


def trained(path: Path, data: Path, updates: int, *flags: str, **more: Any) -> Path:
    """A checkpoint that records so many updates."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_checkpoint(data, path, *flags, **more)
    state = torch.load(path, weights_only=False)
    state["optimizer_history"][-1]["num_updates"] = updates
    torch.save(state, path)
    return path


def run_of(folder: Path, data: Path, *log: str, **changes: Any) -> Path:
    """run.json and a log; the sizes of its model are not those of the checkpoint beside it."""
    return run_folder(folder, list(log), data=str(data), overrides=[f"task.data={data}", "run_config=cpu"], **changes)


def card_of(path: Path, **more: Any) -> ModelCard:
    """The card as huggingface_hub reads it, which refuses metadata that are none."""
    return ModelCard(model_card(read_model(str(path)), **more), ignore_metadata_errors=False)


def table(card: ModelCard, title: str) -> dict[str, str]:
    """The rows of the table in a section."""
    section = card.text.split(f"\n{title}", 1)[1].split("\n#", 1)[0]
    return dict(re.findall(r"^\| ([^|]*[^| ]) \| (.*) \|$", section, re.MULTILINE))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data for pretraining, of which the licence of one file is known."""
    folder = tmp_path_factory.mktemp("prepared")
    sources = [write(folder / f"{name}.txt", make_documents(150, seed)) for seed, name in enumerate(("free", "other"))]
    words = ["--out", str(folder), "--vocab-size", "420", "--valid-share", "0.1", "--workers", "1"]
    prepare_pretraining.main([*words, f"{sources[0]},license=cc0-1.0", str(sources[1])])
    return folder / "bin"


@pytest.fixture(scope="module")
def pretrained(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The best checkpoint of a run, which is not the last."""
    folder = tmp_path_factory.mktemp("runs") / "tiny_s1"
    log = (logged(10), validation(10, ppl=60.5), logged(20), validation(20, ppl=70.25))
    run_of(folder, prepared, *log)
    return trained(folder / "checkpoint_best.pt", prepared, 10, *SIZES, task="masked_lm")


@pytest.fixture(scope="module")
def task(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return qqp(tmp_path_factory.mktemp("qqp"), prepared)


@pytest.fixture
def finetuned(task: Path, pretrained: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "tiny_s1" / "qqp_lr1e-05_s1"
    run_of(
        folder,
        task,
        validation(20, accuracy=81.2, f1=75.5),
        stage="finetuning",
        name="tiny_s1/qqp_lr1e-05_s1",
        task="qqp",
        pretrained=str(pretrained),
    )
    return trained(folder / "checkpoint_best.pt", task, 20, "--max-positions", "128")


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("case", EVERY_CASE)
def test_parameters_are_counted_as_torch_counts_them(case: str, frozen: bool) -> None:
    options = options_of(case) | {"untie_weights_roberta": frozen}
    if frozen and not options["projection"].endswith("pool"):
        options |= {"freeze_projection": True, "projection_step": 1.0}
    built = directly(options["max_positions"], **options)
    built.register_classification_head("head", num_classes=3)
    model = CheckpointModel(Path("x"), {"model": built.state_dict()}, built.args, "head", False)
    sizes = {name: parameter.numel() for name, parameter in built.named_parameters()}
    assert architecture.count_parameters(model) == sum(sizes.values())
    head = sum(size for name, size in sizes.items() if name.startswith("encoder.lm_head."))
    assert architecture.count_parameters(model, exported=True) == sum(sizes.values()) - head
    assert architecture.count_parameters(replace(model, head=None), exported=True) == sum(sizes.values())


def test_the_card_of_a_run(pretrained: Path) -> None:
    card = card_of(pretrained)
    data = card.data.to_dict()
    assert (data["library_name"], data["pipeline_tag"]) == ("fairseq", "fill-mask")
    assert "license" not in data and "base_model" not in data and "datasets" not in data
    (result,) = card.data.eval_results
    assert (result.metric_type, result.metric_value, result.dataset_split) == ("perplexity", 60.5, "valid")
    assert result.dataset_name == "free.txt, other.txt"
    shape = table(card, "## Architecture")
    assert shape["n, the maximum input length in tokens"] == "128" and shape["layers"] == "2"
    assert shape["k, the rows that keys and values are projected to"].startswith("8 ")
    sources = re.findall(r"^\| (\w+\.txt) \| (.*?) documents \| (.*?) \|", card.text, re.MULTILINE)
    assert sources == [("free.txt", "150", "cc0-1.0"), ("other.txt", "150", "not recorded")]
    done = table(card, "### Pretraining: tiny_s1")
    assert done["updates"].startswith("10, of a run with 20 of 20") and done["commit"] == "abcdef123456"
    assert done["tokens"].startswith("5,120 ") and done["precision"] == "fp32"
    assert done["command"] == "`linformer pretrain task.data=bin run_config=cpu`"
    metric = card.text.split("## Metrics")[1].split("##")[0]
    assert "60.50" in metric and "70.25" not in metric and "the best of 2 validations" in metric
    assert "abcdef123456" in metric and "AMD EPYC" in metric
    assert str(pretrained.parents[2]) not in card.content and "secret-host" not in card.content


def test_a_score_is_that_of_the_checkpoint_s_own_update(pretrained: Path, prepared: Path, tmp_path: Path) -> None:
    folder = run_of(tmp_path / "run", prepared, validation(10, ppl=60.5), validation(20, ppl=70.25))
    path = trained(folder / "checkpoint_last.pt", prepared, 20, *SIZES, task="masked_lm")
    (result,) = card_of(path).data.eval_results
    assert result.metric_value == 70.25 and "the best of" not in card_of(path).text
    folder = run_of(tmp_path / "other_split", prepared, validation(20, ppl=50).replace("valid_", "test_"))
    (result,) = card_of(path.rename(folder / path.name)).data.eval_results
    assert (result.metric_value, result.dataset_split) == (50, "test")
    path = trained(folder / "other.pt", prepared, 15, *SIZES, task="masked_lm")
    assert card_of(path).data.eval_results is None


def test_a_score_names_the_machine_of_its_own_start_and_what_it_was_measured_on(
    pretrained: Path, prepared: Path, tmp_path: Path
) -> None:
    starts = [
        attempt(updates_at_end=end, hardware={"processor": name, "accelerator": "none", "hosts": ["x"]})
        for name, end in (("Early", 10), ("Late", 20))
    ]
    run_of(tmp_path, prepared, validation(10, ppl=60.5), validation(20, ppl=70.25), attempts=starts)
    path = shutil.copy(pretrained, tmp_path / "checkpoint_best.pt")
    metric = card_of(path).text.split("## Metrics")[1].split("##")[0]
    assert "Early" in metric and "Late" not in metric and "on at most" not in metric
    state = torch.load(path, weights_only=False)
    state["cfg"]["dataset"]["max_valid_steps"] = 4  # fairseq stops after one more
    torch.save(state, path)
    assert "validation on at most 5 batches in" in card_of(path).text


@pytest.mark.parametrize("count", [1, 2])
def test_a_score_is_of_a_data_set_of_the_hub_only_if_there_is_no_other_source(
    count: int, prepared: Path, tmp_path: Path
) -> None:
    data = shutil.copytree(prepared, tmp_path / "data")
    sources = [{"name": f"hub:owner/{n}", "units": [{"repository": f"owner/{n}"}]} for n in range(count)]
    write_json(data / "manifest.json", {"splits": {}, "corpus": {"manifest.json": {"sources": sources}}})
    run_of(tmp_path / "run", data, validation(20, ppl=60.5))
    path = trained(tmp_path / "run" / "checkpoint_best.pt", data, 20, *SIZES, task="masked_lm")
    (result,) = card_of(path).data.eval_results
    assert result.dataset_type == ("owner/0" if count == 1 else "hub:owner/0, hub:owner/1")


def test_without_a_run_folder_the_score_is_that_in_the_checkpoint(prepared: Path, tmp_path: Path) -> None:
    path = trained(tmp_path / "alone.pt", prepared, 20, *SIZES, task="masked_lm")
    state = torch.load(path, weights_only=False)
    state["extra_state"]["val_loss"] = 5.0  # in bits
    torch.save(state, path)
    card = card_of(path)
    (result,) = card.data.eval_results
    assert (result.metric_type, result.metric_value) == ("perplexity", 32.0)
    assert card.text.startswith("\n# alone\n")
    state["cfg"]["dataset"]["valid_subset"] = "test,valid"
    torch.save(state, path)
    assert (result.dataset_split, card_of(path).data.eval_results[0].dataset_split) == ("valid", "test")
    assert card_of(path.rename(tmp_path / "checkpoint_best.pt")).text.startswith(f"\n# {tmp_path.name}\n")
    old = read_model(str(tmp_path / "checkpoint_best.pt"))  # its options do not say what the score is of
    old = replace(old, state={**old.state, "args": Namespace(task="masked_lm", data=str(prepared))})
    assert ModelCard(model_card(old)).data.eval_results is None


def test_the_card_of_a_finetuning_has_the_pretraining_too(finetuned: Path) -> None:
    card = card_of(finetuned)
    assert card.data.to_dict()["pipeline_tag"] == "text-classification"
    values = {result.metric_type: result.metric_value for result in card.data.eval_results}
    assert values == {"accuracy": 0.812, "f1": 0.755}
    assert table(card, "## Architecture")["output"] == "2 classes: 0, 1"
    assert table(card, "### Finetuning")["started from"] == "`tiny_s1/checkpoint_best.pt`"
    assert table(card, "### Pretraining")["lowest perplexity in validation"] == "60.50, after update 10"
    assert "cc0-1.0" in card.text and "train: 20 examples (0: 13, 1: 7)" in card.text


def test_the_card_of_a_model_that_predicts_numbers_has_no_classes(task: Path, tmp_path: Path) -> None:
    path = write_checkpoint(task, tmp_path / "numbers.pt", "--max-positions", "128", "--regression-target", classes=2)
    card = card_of(path)
    summary, use = card.text.split("\n## Use")[0], card.text.split("\n## Use")[1].split("\n##")[0]
    assert "predicts numbers" in summary and "classifier" not in summary
    assert "return_logits=True" in use and "linformer embed" in use
    assert "classify" not in use and "linformer predict" not in use
    output = table(card, "## Architecture")["output"]
    assert output.startswith("2 numbers") and "0, 1" not in output
    assert table(card, "### Training")["objective"] == "prediction of numbers from texts"


@pytest.mark.parametrize("recorded", ["folder", "manifest"])
@pytest.mark.parametrize("numbers", [False, True], ids=["classes", "numbers"])
def test_the_code_for_a_model_of_pairs_takes_pairs(
    numbers: bool, recorded: str, task: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shutil.copytree(task, tmp_path / "data")
    if recorded == "folder":  # of another program
        (data / "manifest.json").unlink()
    flags = ["--regression-target"] if numbers else []
    checkpoint = write_checkpoint(data, tmp_path / "model.pt", "--max-positions", "128", *flags)
    release(checkpoint, data, tmp_path / "pairs")
    if recorded == "manifest":
        shutil.rmtree(data)
    used = card_of(tmp_path / "pairs", data=data if recorded == "folder" else None).text
    used = used.split("\n## Use")[1].split("\n##")[0]
    code, commands = re.findall(r"```(?:python|bash)\n(.*?)```", used, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "card", "exec"), {})
    assert "the other text of the pair" in code and not re.search("\\bone text.*another one", code)
    (tmp_path / "pairs.tsv").write_text("one text\tthe other\nanother one\tand its other\n")
    note, command = commands.splitlines()
    assert note == "# each line: a text, a tab, the other text"
    assert cli.main(shlex.split(command)[1:]) == 0


def test_a_model_that_was_converted_names_its_source(finetuned: Path, pretrained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "converted"
    folder.mkdir()
    record = {
        "source": {"name": "OWNER/roberta", "kind": "Hugging Face RoBERTa", "max_positions": 64, "symbols": 9},
        "choices": {"start": "dct", "seed": 3},
        "position_embeddings": "the source's 64",
        "notes": [],
        "comparison": {"text": "a.txt", "perplexity": [{"length": 64, "blocks": 2, "source": 4.0, "result": 6.25}]},
        "date": "2026-11-20 10:00 UTC",
        "versions": {"torch": "2.13.0"},
    }
    write_json(folder / "conversion.json", record)
    run = json.loads((finetuned.parent / "run.json").read_text())
    write_json(finetuned.parent / "run.json", run | {"pretrained": str(folder)})
    model = folder / "model.safetensors"
    model.write_bytes(b"")  # is not opened
    assert [stage.checkpoint for stage in read_history(read_model(str(finetuned)), None)] == [finetuned, model]
    card = card_of(finetuned)
    assert card.data.to_dict()["base_model"] == "OWNER/roberta"
    assert table(card, "### Conversion")["E and F start as"] == "`dct`, seed 3"
    write_json(folder / "conversion.json", {**record, "source": {**record["source"], "name": "model.pt"}})
    assert "base_model" not in card_of(finetuned).data.to_dict(), "the name of a file"
    write_json(folder / "conversion.json", record)
    model.unlink()
    pretrained.rename(folder / "model.pt")
    try:
        (result,) = card_of(folder / "model.pt").data.eval_results
        for lost in ("source", "comparison"):
            write_json(folder / "conversion.json", {name: value for name, value in record.items() if name != lost})
            with pytest.raises(UserError, match=f"conversion.json: .*{lost}"):
                card_of(folder / "model.pt")
    finally:
        (folder / "model.pt").rename(pretrained)
    assert (result.metric_value, result.dataset_name) == (6.25, "a.txt")


def test_scores_of_evaluate(finetuned: Path, task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = tmp_path / "scores.json"
    assert cli.main(["evaluate", str(finetuned), str(task), "--device", "cpu", "--results", str(scores)]) == 0
    said = capsys.readouterr().out
    found = json.loads(scores.read_text())
    assert f"accuracy {found['scores']['accuracy']:.2f} %" in said and f"F1 of 1 {found['scores']['f1']:.2f} %" in said
    assert str(tmp_path) not in scores.read_text()
    words = ["--license", "mit", "--language", "en", "--out", str(tmp_path / "README.md")]
    assert cli.main(["card", str(finetuned.parent), "--results", str(scores), *words]) == 0
    card = ModelCard.load(tmp_path / "README.md")
    assert (card.data.license, card.data.language) == ("mit", "en")
    accuracy, score = card.data.eval_results  # before the same ones of the log
    assert accuracy.metric_value == pytest.approx(found["scores"]["accuracy"] / 100, abs=1e-6)
    assert score.metric_value == pytest.approx(found["scores"]["f1"] / 100, abs=1e-6)
    metrics = card.text.split("## Metrics")[1].split("##")[0]
    assert found["command"] in metrics and found["date"] in metrics and found["commit"] in metrics
    assert found["command"] == f"linformer evaluate {finetuned.name} {task.name} --split valid --device cpu"
    assert "81.20 %" in metrics
    write_json(scores, found | {"sha256": "0" * 64})
    with pytest.raises(UserError, match="another checkpoint"):
        card_of(finetuned, evaluations=[scores])
    for lost in (scores, finetuned, finetuned.parent / "run.json", task / "manifest.json"):
        before = lost.read_bytes()
        assert cli.main(["card", str(finetuned), "--results", str(scores), "--out", str(lost)]) == 1
        assert "this file is read" in capsys.readouterr().err and lost.read_bytes() == before
    assert cli.main(["card", str(finetuned.parent), "--out", str(finetuned)]) == 1
    assert "this file is read" in capsys.readouterr().err
    write_json(scores, {"schema": 1})
    assert cli.main(["card", str(finetuned), "--results", str(scores)]) == 1
    assert "sha256: missing" in capsys.readouterr().err


def test_scores_of_a_split_without_labels_are_refused(
    finetuned: Path, task: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(finetuned), str(task), "--split", "test", "--device", "cpu", "--results", str(tmp_path / "x.json")]
    assert cli.main(["evaluate", *words]) == 1
    assert "no labels" in capsys.readouterr().err and not (tmp_path / "x.json").exists()


def test_a_released_model_knows_little_and_says_so(pretrained: Path, prepared: Path, tmp_path: Path) -> None:
    release(pretrained, prepared, tmp_path / "my_model")
    card = card_of(tmp_path / "my_model")
    assert card.data.eval_results is None and card.text.startswith("\n# my_model\n")
    done = table(card, "### Training: my_model")
    del done["---"]
    assert done == {"name": "`my_model`", "objective": "masked language modelling", "updates": "10"}
    assert "Not recorded: started from, tokens, batch, learning rate," in card.text


def test_the_mean_of_checkpoints_is_called_so(pretrained: Path, prepared: Path, tmp_path: Path) -> None:
    other = trained(tmp_path / "other.pt", prepared, 20, *SIZES, task="masked_lm")
    release(pretrained, prepared, tmp_path / "mean", [other])
    done = table(card_of(tmp_path / "mean"), "### Training: mean")
    assert (done["weights"], done["updates"]) == (
        "the mean of those of 2 checkpoints; what follows is of the first",
        "10",
    )
    release(tmp_path / "mean" / "model.safetensors", prepared, tmp_path / "again")
    assert "2 checkpoints" in table(card_of(tmp_path / "again"), "### Training: again")["weights"]


def test_the_card_of_a_run_in_a_released_folder_has_code_for_that(
    pretrained: Path, prepared: Path, tmp_path: Path
) -> None:
    release(pretrained, prepared, tmp_path / "my_model")
    assert cli.main(["card", str(pretrained), "--out", str(tmp_path / "my_model" / "README.md")]) == 0
    text = (tmp_path / "my_model" / "README.md").read_text()
    assert 'from_pretrained("my_model").eval()' in text and "fill-mask my_model\n" in text
    assert "checkpoint_best.pt" not in text.partition("## Architecture")[0].partition("## Use")[2]
    assert "| updates | 10" in text, "what the run knows"


@pytest.mark.parametrize("argument", [None, "", "."])
def test_data_that_is_not_named_is_unknown(argument: str | None, prepared: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(prepared)
    symbols = embedding_rows(prepared / "dict.txt", linformer=True)
    assert read_data(str(prepared), symbols).sources
    assert read_data(argument, symbols).sources == ()


def test_data_that_has_been_replaced_is_unknown(prepared: Path, tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("a 1\n")
    assert "other data" in str(read_data(str(prepared), 7).unknown)
    assert "no manifest.json" in str(read_data(str(tmp_path), 6).unknown)
    assert "not there" in str(read_data(str(tmp_path / "gone"), 6).unknown)


@pytest.mark.parametrize("changed", ["label/dict.txt", "input0/dict.txt"])
def test_data_that_has_been_replaced_by_as_many_symbols_or_classes_is_unknown(
    changed: str, task: Path, tmp_path: Path
) -> None:
    data = shutil.copytree(task, tmp_path / "data")
    run = run_of(tmp_path / "run", data, stage="finetuning", task="qqp", dictionaries=digests(data))
    path = trained(run / "checkpoint_best.pt", data, 20, "--max-positions", "128")
    assert table(card_of(path), "## Architecture")["output"] == "2 classes: 0, 1"
    assert "train: 20 examples" in card_of(path).text
    first, second, *rest = (data / changed).read_text().splitlines(keepends=True)
    (data / changed).write_text("".join([second, first, *rest]))
    card = card_of(path)
    assert table(card, "## Architecture")["output"] == "2 classes (names not recorded)"
    assert "`data` has other data by now" in card.text and "train: 20 examples" not in card.text
    assert table(card_of(path, data=task), "## Architecture")["output"] == "2 classes: 0, 1"


def test_labels_of_another_number_of_classes_are_not_the_models(task: Path, tmp_path: Path) -> None:
    data = shutil.copytree(task, tmp_path / "data")
    path = write_checkpoint(data, tmp_path / "model.pt", "--max-positions", "128")
    (data / "label" / "dict.txt").write_text("a 1\nb 1\nc 1\n")
    assert table(card_of(path), "## Architecture")["output"] == "2 classes (names not recorded)"


def test_shards_have_one_manifest(prepared: Path, tmp_path: Path) -> None:
    for shard in ("0", "1"):
        (tmp_path / shard).mkdir()
        (tmp_path / shard / "dict.txt").write_text((prepared / "dict.txt").read_text())
    (tmp_path / "manifest.json").write_text((prepared / "manifest.json").read_text())
    symbols = embedding_rows(prepared / "dict.txt", linformer=True)
    found = read_data(f"{tmp_path / '0'}:{tmp_path / '1'}", symbols)
    assert found == read_data(str(prepared), symbols) and found.sources[0].license == "cc0-1.0"


def test_data_sets_of_the_hub(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("a 1\n")
    unit = {"repository": "owner/books", "revision": "abc", "license": "mit"}
    source = {"name": "hub:owner/books,weight=2", "weight": 2, "documents": 5, "units": [unit, unit]}
    content = {"splits": {}, "corpus": {"manifest.json": {"sources": [source]}}}
    write_json(tmp_path / "manifest.json", content)
    (found,) = read_data(str(tmp_path), 6).sources
    assert (found.name, found.amount, found.license) == ("hub:owner/books", "5 documents, weight 2", "mit")
    assert (found.repository, found.revision) == ("owner/books", "abc")


@pytest.mark.parametrize(
    "content", [{"task": "x", "source": "abc"}, {"splits": []}, {"task": "x", "source": {}, "splits": {"train": {}}}]
)
def test_a_manifest_of_another_kind_is_named(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("a 1\n")
    write_json(tmp_path / "manifest.json", content)
    with pytest.raises(UserError, match=f"^{tmp_path / 'manifest.json'}: "):
        read_data(str(tmp_path), 6)


@pytest.mark.parametrize(
    "text",
    ["- a", "a: [", "5", "optimization: {lr: []}", "task: ${no}", "{task: {_name: a}, criterion: {label_weight: b}}"],
)
def test_a_config_of_another_kind_is_named(text: str, finetuned: Path, tmp_path: Path) -> None:
    source = tmp_path / "elsewhere" / "model.pt"
    source.parent.mkdir()
    source.write_bytes(b"")  # is not opened
    run = json.loads((finetuned.parent / "run.json").read_text())
    write_json(finetuned.parent / "run.json", run | {"pretrained": str(source)})
    (source.parent / "config.yaml").write_text("optimization: {lr: 1}")
    assert table(card_of(finetuned), "### Training")["learning rate"] == "1"
    (source.parent / "config.yaml").write_text("{task: {_name: sentence_prediction}, criterion: {label_weight: 0.25}}")
    objective = "classification of texts, with soft labels of a teacher (weight of labels 0.25)"
    assert table(card_of(finetuned), "### Training")["objective"] == objective
    (source.parent / "config.yaml").write_text(text)
    with pytest.raises(UserError, match=f"^{source.parent / 'config.yaml'}: ") as caught:
        card_of(finetuned)
    assert "\n" not in str(caught.value)


def test_names_are_quoted_in_code_and_commands(pretrained: Path, prepared: Path, tmp_path: Path) -> None:
    folder = tmp_path / 'with "space" & ü'
    release(pretrained, prepared, folder)
    used = card_of(folder).text.split("\n## Use")[1].split("\n##")[0]
    assert r'from_pretrained("with \"space\" & ü").eval()' in used
    assert f"linformer fill-mask {shlex.quote(folder.name)}\n" in used


def test_options_that_an_old_checkpoint_does_not_have_are_not_fairseqs_defaults() -> None:
    config = OmegaConf.create({"optimization": {"lr": [0.25]}, "common": {"fp16": False}, "task": {"_name": "x"}})
    flat = Settings(Path("model.pt"), config, Namespace(task="masked_lm", warmup_updates=7))
    assert flat.get("optimization.lr") is None and flat.get("lr_scheduler.warmup_updates") == 7
    stage = Stage(Path("model.pt"), flat, Data("x"), None, None, None, None)
    found = dict(training.rows(stage, 0))
    assert found["objective"] == "masked language modelling"
    assert {found[name] for name in ("learning rate", "precision", "updates", "batch")} == {training.NOT_RECORDED}
    found = dict(training.rows(replace(stage, settings=Settings(Path("x"), config)), 3))
    assert (found["learning rate"], found["precision"], found["updates"]) == ("0.25", "fp32", "3")


def run_rows(folder: Path, **changes: Any) -> dict[str, str]:
    """What a card says of a run, without its checkpoint."""
    run_folder(folder, [logged(20)], **changes)
    run = Run(read_record(folder), read_run(folder), read_log(folder / LOG))
    path = folder / "checkpoint_best.pt"
    return dict(training.rows(Stage(path, Settings(path, OmegaConf.create({})), Data("x"), run, None, None, None), 20))


@pytest.mark.parametrize(
    ("max_update", "status", "updates"),
    [(0, "stopped", "20, stopped"), (0, "finished", "20 of 20, finished"), (15, "finished", "20 of 20, finished")],
)
def test_no_run_made_more_updates_than_were_planned(tmp_path: Path, max_update: int, status: str, updates: str) -> None:
    found = run_rows(tmp_path / "run", max_update=max_update, attempts=[attempt(status=status)])
    assert found["updates"] == updates


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("task.data=/secret/bin", "task.data=bin"),
        ("task.data=bin:/secret/bin", "task.data=bin:bin"),
        ('task.data="/secret place/bin"', 'task.data="bin"'),
        ("task.data='/secret place/one:/secret/two'", "task.data='one:two'"),
        ('run.name="a"', 'run.name="a"'),
    ],
)
def test_a_command_names_no_folder_of_the_machine(tmp_path: Path, word: str, shown: str) -> None:
    command = run_rows(tmp_path / "run", overrides=[word])["command"]
    assert shlex.split(command.strip("`")) == ["linformer", "pretrain", shown]


@pytest.mark.parametrize("accumulated", [4, [4]])
def test_a_batch_is_that_of_all_processes(accumulated: Any) -> None:
    config = OmegaConf.create(
        {
            "optimization": {"update_freq": accumulated},
            "distributed_training": {"distributed_world_size": 3},
            "dataset": {"batch_size": 2, "max_tokens": 100},
        }
    )
    found = dict(training.rows(Stage(Path("x"), Settings(Path("x"), config), Data("x"), None, None, None, None), 0))
    assert found["batch"] == "at most 24 examples and 1,200 tokens, with padding, in each update"


def test_the_model_of_the_package_has_the_sections_that_people_wrote() -> None:
    card = card_of(Path("linformer-small"))
    page = (shipped_folder("linformer-small").parent / "README.md").read_text(encoding="utf-8")
    assert (card.data.license, card.data.language) == ("mit", "en") == tuple(split(page)[0].values())
    assert "base_model" not in card.data.to_dict(), "it is not made of itself"
    assert table(card, "## Architecture")["parameters"] == "7,007,810"
    for line in ("| Project Gutenberg | 330 English books |", "* `linformer-small`: `experiment=released/linformer`"):
        assert line in page and line in card.text
    assert not re.search(r"\]\((?!https:)", card.text), "relative links lead nowhere from another folder"
    assert "not recorded" not in card.text.split("\n---\n")[0].lower()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"projection": "linear"}, "also for an input of T < k tokens. An input of T < n tokens uses the first T"),
        ({"projection": "linear", "short_inputs": "stretch"}, "also for an input of T < k tokens. .* uses all n"),
        ({"projection": "convolution"}, "with T <= 10 every token has its own row"),
        ({"kernel_strides": 2}, "tokens around its window, 2 times as many"),
        ({"projection": "mean_pool", "short_inputs": "first_columns"}, r"ceil\(n/k\) tokens at every length"),
        pytest.param(
            {"projected_dim": 20},
            "is not below max_positions",
            marks=pytest.mark.filterwarnings("ignore:projected_dim .* is not below max_positions:UserWarning"),
        ),
    ],
)
def test_limits(options: dict[str, Any], said: str) -> None:
    sizes = {"encoder_layers": 1, "encoder_embed_dim": 16, "encoder_attention_heads": 2, "max_positions": 20}
    built = directly(20, **{**sizes, "projected_dim": 10, **options})
    assert re.search(said, "\n".join(architecture.limits(built.args)))


def test_differences_from_the_paper() -> None:
    sizes = {"encoder_layers": 1, "encoder_embed_dim": 16, "encoder_attention_heads": 2, "projected_dim": 8}
    assert architecture.differences(directly(20, **sizes, projection="linear").args) == []
    found = architecture.differences(directly(20, **sizes, projection="linear", projection_step=0.5).args)
    assert found == ["`projection_step=0.5` (there: `1`)"]
    found = architecture.differences(directly(20, **sizes, projection="linear", encoder_normalize_before=True).args)
    assert found == ["`encoder_normalize_before=true` (there: `false`)"]


@pytest.mark.parametrize(
    ("k", "said"), [([4, 10], "by layer: 4, 10"), ([[4, 10], [2, 5]], "by layer and head: 4, 10; 2, 5")]
)
def test_k_of_layers_and_heads(k: Any, said: str) -> None:
    sizes = {"encoder_layers": 2, "encoder_embed_dim": 16, "encoder_attention_heads": 2}
    built = directly(20, **sizes, projected_dim=k, sharing="none")
    model = CheckpointModel(Path("x"), {"model": built.state_dict()}, built.args, None, False)
    assert dict(architecture.rows(model, []))["k, the rows that keys and values are projected to"] == said


def test_an_export_has_a_card(exported: Path) -> None:
    card = ModelCard.load(exported / "README.md")
    data = card.data.to_dict()
    assert (data["library_name"], data["pipeline_tag"], data["license"]) == ("transformers", "fill-mask", "mit")
    assert "custom_code" in data["tags"]
    assert f'AutoModelForMaskedLM.from_pretrained("{exported.name}", trust_remote_code=True)' in card.text


def test_the_card_of_a_run_in_an_exported_folder_has_code_for_that(exported: Path, tmp_path: Path) -> None:
    for name in ("config.json", "model.safetensors", "modeling_linformer.py"):
        (tmp_path / name).symlink_to(exported / name)
    assert cli.main(["card", "linformer-small", "--license", "cc0-1.0", "--out", str(tmp_path / "README.md")]) == 0
    card = ModelCard.load(tmp_path / "README.md")
    assert (card.data.library_name, card.data.license) == ("transformers", "cc0-1.0")
    assert f'AutoModelForMaskedLM.from_pretrained("{tmp_path.name}", trust_remote_code=True)' in card.text
    (tmp_path / "modeling_linformer.py").unlink()  # a model of transformers' own
    assert cli.main(["card", "linformer-small", "--out", str(tmp_path / "README.md")]) == 0
    assert ModelCard.load(tmp_path / "README.md").data.library_name == "fairseq"


def test_what_it_prints_is_what_it_writes(pretrained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["card", str(pretrained)]) == 0
    printed = capsys.readouterr().out
    assert cli.main(["card", str(pretrained.parent), "--out", str(tmp_path / "card.md")]) == 0
    assert (tmp_path / "card.md").read_text() == printed


def test_data_without_a_dictionary_are_refused(pretrained: Path, tmp_path: Path) -> None:
    (tmp_path / "book.txt").touch()
    for given in (tmp_path, tmp_path / "book.txt", tmp_path / "absent"):
        with pytest.raises(UserError, match=f"^--data {given}: no dictionary"):
            card_of(pretrained, data=given)


def test_what_is_no_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["card", str(tmp_path / "gone")]) == 1
    assert "gone: no such file or folder" in capsys.readouterr().err
    assert cli.main(["card", "linformer-small", "--out", str(tmp_path)]) == 1
    assert f"--out {tmp_path}: is a folder" in capsys.readouterr().err
    for option, value in (("--license", "MIT License"), ("--language", "English")):
        with pytest.raises(SystemExit):
            cli.main(["card", "linformer-small", option, value])
        assert value in capsys.readouterr().err
    make_fairseq(tmp_path / "dense")
    state = read_checkpoint(tmp_path / "dense" / "model.pt")
    options = Namespace(**{**vars(state["cfg"]["model"]), "arch": "roberta_base"})
    torch.save({**state, "args": options, "cfg": None}, tmp_path / "dense" / "model.pt")
    assert cli.main(["card", str(tmp_path / "dense")]) == 1
    assert says(capsys.readouterr().err, tmp_path / "dense" / "model.pt", "linformer convert")
    (tmp_path / "x.pt").write_text("x")
    assert cli.main(["card", str(tmp_path / "x.pt")]) == 1
    assert "x.pt" in capsys.readouterr().err

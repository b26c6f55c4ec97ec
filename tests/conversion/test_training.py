"""A converted model is trained further, finetuned and evaluated as any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from data_prep import binarize, prepare_task
from linformer_fairseq import cli
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.cli.convert import continued
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.launch import complete, compose
from tests.conversion.sources import N, make_huggingface
from tests.data_prep.hub_server import HubServer
from tests.data_prep.small_tokenizers import WORDS, text

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def converted(roberta: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("converted") / "small"
    assert cli.main(["convert", str(roberta), str(out), "--projected-dim", "8", "--sharing", "key_value"]) == 0
    return out


@pytest.fixture(scope="module")
def data(converted: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text in fairseq's format, by the tokenizer of the converted model."""
    folder = tmp_path_factory.mktemp("data")
    for split, documents in (("train", 40), ("valid", 8)):
        (folder / f"{split}.txt").write_text(text(documents, seed=documents), encoding="utf-8")
    words = ["--tokenizer", str(converted), "--out", str(folder / "bin")]
    binarize.main([*words, str(folder / "train.txt"), str(folder / "valid.txt")])
    return folder / "bin"


def test_pretraining_goes_on_from_it(
    converted: Path, data: Path, run_fairseq: Callable[..., str], tmp_path: Path
) -> None:
    words = ["experiment=converted/linformer", f"pretrained={converted}", f"task.data={data}", "run_config=cpu"]
    words += [f"task.tokens_per_sample={N}", "run.tokens_per_update=96", "run.tokens_per_batch=96"]
    words += ["optimization.max_update=2", "lr_scheduler.warmup_updates=1", "optimization.lr=[1e-9]"]
    run_fairseq("linformer", "pretrain", *words, cwd=tmp_path)
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name == "small_s1"
    before = read_checkpoint(converted / "model.safetensors")["model"]
    after = read_checkpoint(folder / "checkpoint_last.pt")
    assert after["optimizer_history"][-1]["num_updates"] == 2
    for name, tensor in before.items():
        torch.testing.assert_close(after["model"][name], tensor, atol=1e-6, rtol=0)


@pytest.mark.parametrize("n", [12, 500, 512, 4096, 30_000, 300_000])
def test_what_convert_proposes_is_accepted(n: int) -> None:
    words = continued(Path("a folder's"), n)
    config = compose("pretraining", [*words, "run_config=gpu"])
    assert config.pretrained == "a folder's" and config.task.tokens_per_sample == n
    batch = config.dataset.batch_size * n
    assert batch == config.run.tokens_per_batch <= max(16384, n)
    assert config.optimization.update_freq == [config.run.tokens_per_update / batch]
    assert config.run.tokens_per_update == batch or abs(config.run.tokens_per_update - 131072) <= batch / 2
    assert (len(words) > 4) == (n in (12, 500, 30_000, 300_000))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("model.projected_dim=4", "model.projected_dim=4.* projected_dim=8"),
        (f"task.tokens_per_sample={N + 1}", f"tokens_per_sample={N + 1}.* n = {N}"),
        ("pretrained=absent", "pretrained=.*absent: no such file"),
    ],
)
def test_a_pretraining_of_another_model_is_refused(converted: Path, data: Path, word: str, message: str) -> None:
    words = ["experiment=converted/linformer", f"pretrained={converted}", f"task.data={data}", "run_config=cpu"]
    words += [f"task.tokens_per_sample={N}", "run.tokens_per_update=600", "run.tokens_per_batch=600"]
    with pytest.raises(UserError, match=message):
        complete(compose("pretraining", [*words, word]))


def test_data_of_another_tokenizer_are_refused(converted: Path, tiny_corpus: Path) -> None:
    words = ["experiment=converted/linformer", f"pretrained={converted}", f"task.data={tiny_corpus}"]
    words += [f"task.tokens_per_sample={N}", "run_config=cpu", "run.tokens_per_update=96", "run.tokens_per_batch=96"]
    with pytest.raises(UserError, match="symbols, but .* makes 65"):
        complete(compose("pretraining", words))


def test_finetuning_and_evaluation(
    converted: Path, run_fairseq: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = tmp_path / "GLUE" / "SST-2"
    tables.mkdir(parents=True)
    for name, count in (("train", 32), ("dev", 8)):
        rows = [f"{WORDS[i % 5]} {WORDS[i % 7]}\t{i % 2}\n" for i in range(count)]
        (tables / f"{name}.tsv").write_text("sentence\tlabel\n" + "".join(rows))
    (tables / "test.tsv").write_text("index\tsentence\n0\tthe value\n")
    words = ["--tokenizer", str(converted), "--out", str(tmp_path / "sst2"), "--max-positions", str(N)]
    prepare_task.main(["sst2", "--from", str(tmp_path / "GLUE"), *words])
    words = ["task=sst2", "task.data=sst2", f"pretrained={converted}", "run_config=cpu"]
    words += ["optimization.max_update=2", "lr_scheduler.warmup_updates=1"]
    run_fairseq("linformer", "finetune", *words, cwd=tmp_path)
    (checkpoint,) = (tmp_path / "runs").rglob("checkpoint_best.pt")
    assert cli.main(["evaluate", str(checkpoint), str(tmp_path / "sst2"), "--device", "cpu"]) == 0
    assert "valid: 8 examples" in capsys.readouterr().out


def test_a_name_on_the_hub(tmp_path: Path, run_fairseq: Callable[..., str]) -> None:
    pytest.importorskip("transformers")
    make_huggingface(tmp_path / "source")
    files = {path.name: path.read_bytes() for path in (tmp_path / "source").iterdir()}
    (tmp_path / "work").mkdir()
    with HubServer({"someone/small-roberta": {**files, "pytorch_model.bin": b"not wanted"}}) as hub:
        words = ["convert", "someone/small-roberta", "out", "--projected-dim", 8]
        environment = hub.environment(tmp_path)
        run_fairseq("linformer", *words, cwd=tmp_path / "work", environment=environment)
        said = run_fairseq(
            "linformer", "convert", "someone/else", "other", "--projected-dim", 8,
            cwd=tmp_path / "work", environment=environment, status=1,
        )  # fmt: skip
        requests = [path for _, path in hub.requests]
    record = json.loads((tmp_path / "work" / "out" / "conversion.json").read_text())
    assert record["source"]["name"] == "someone/small-roberta"
    assert not any("pytorch_model.bin" in path for path in requests)
    assert "someone/else" in said and "no such repository" in said and "Traceback" not in said

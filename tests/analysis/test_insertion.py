"""`linformer analyse insertion`: classes are the model's own, one text at a time; a stopped run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("sentencepiece")

from linformer_fairseq import cli
from linformer_fairseq.analysis import insertion, sums
from linformer_fairseq.evaluation import load_classifier, read_finetuned
from linformer_fairseq.files.task_data import read_task
from tests.data_prep.small_tokenizers import make_sentencepiece
from tests.messages import says
from tests.models import write_checkpoint
from tests.prepared_task import qqp

N = 80
SHIFTS = (1, 6, 20)


def analyse(checkpoint: Path, task: Path, out: Path, *words: object, status: int = 0) -> dict[str, Any]:
    given = ["--device", "cpu", "--out", out, *words]
    assert cli.main(["analyse", "insertion", str(checkpoint), str(task), *map(str, given)]) == status
    if status:
        return {}
    record: dict[str, Any] = json.loads((out / "insertion.json").read_text())
    return record


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 pairs of texts, of which the longest do not fit into N with the most tokens."""
    folder = tmp_path_factory.mktemp("insertion")
    return qqp(folder, make_sentencepiece(folder / "tokenizer"))


@pytest.fixture(scope="module")
def checkpoint(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(data, tmp_path_factory.mktemp("model") / "model.pt", "--max-positions", str(N))


@pytest.mark.slow
def test_every_figure_is_the_models_one_text_at_a_time(data: Path, checkpoint: Path, tmp_path: Path) -> None:
    record = analyse(checkpoint, data, tmp_path, "--shifts", *SHIFTS, "--batch", 7)

    found = load_classifier(read_finetuned(checkpoint), read_task(data), torch.device("cpu"))
    items = [found.task.load_dataset("valid")[number] for number in range(30)]
    texts = [item["net_input.src_tokens"].tolist() for item in items]
    fitting = [number for number, text in enumerate(texts) if len(text) + max(SHIFTS) <= N]
    assert 10 < len(fitting) < 30, "the test would show nothing"
    order = torch.randperm(len(fitting), generator=torch.Generator().manual_seed(1)).tolist()
    chosen = [fitting[place] for place in order]
    chosen.sort(key=lambda number: -len(texts[number]))
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(1)).tolist()

    def words(number: int) -> list[int]:
        return [token for token in texts[chosen[number]] if token > 3]

    @torch.no_grad()
    def predicted(tokens: list[int]) -> int:
        return int(found.model(torch.tensor([tokens]), classification_head_name=found.head)[0].argmax())

    right = dict.fromkeys([0, *((s, place) for s in SHIFTS for place in insertion.PLACES)], 0)
    changed = dict.fromkeys(right, 0)
    for number, example in enumerate(chosen):
        text, label = texts[example], int(items[example]["target"])
        assert (text[0], text[-1]) == (0, 2)
        place = order.index(number)
        others = [token for one in [*order[place + 1 :], *order[:place]] for token in words(one)]
        before = predicted(text)
        right[0] += before == label
        for s in SHIFTS:
            inputs = {"front": [0, *others[:s], *text[1:]], "behind": [*text[:-1], *others[:s], 2]}
            for where, tokens in inputs.items():
                right[s, where] += predicted(tokens) == label
                changed[s, where] += predicted(tokens) != before
    count = len(fitting)
    assert (record["examples"], record["fitting_examples"]) == (count, count)
    assert record["accuracy"] == pytest.approx(right[0] / count, abs=1e-5)
    assert [row["shift"] for row in record["shifts"]] == list(SHIFTS)
    for row in record["shifts"]:
        for where in insertion.PLACES:
            assert row[where]["accuracy"] == pytest.approx(right[row["shift"], where] / count, abs=1e-5)
            assert row[where]["changed"] == pytest.approx(changed[row["shift"], where] / count, abs=1e-5)
    assert any(row["front"]["changed"] for row in record["shifts"]), "this model would show nothing"
    assert record["encoder"] == {
        **{"kind": "Linformer", "is_dense": False, "max_positions": N, "layers": 2, "heads": 2}
    }


@pytest.mark.slow
def test_a_stopped_run_goes_on(
    data: Path,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--shifts", 3, "--examples", 12]
    whole = analyse(checkpoint, data, tmp_path / "whole", *words)
    assert whole["examples"] == 12 < whole["fitting_examples"]
    files = {f"insertion.{kind}" for kind in ("json", "png", "svg")}
    assert {path.name for path in (tmp_path / "whole").iterdir()} == files
    classes, calls = insertion._classes, 0

    def stopping(*given: Any) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 5:  # three inputs of the first batch, and one of the second
            raise KeyboardInterrupt
        return classes(*given)

    monkeypatch.setattr(insertion, "_classes", stopping)
    monkeypatch.setattr(sums, "SECONDS_BETWEEN_WRITES", 0.0)
    out = tmp_path / "out"
    analyse(checkpoint, data, out, *words, "--batch", 4, status=130)
    assert {path.name for path in out.iterdir()} == {"insertion.partial.npz"}
    analyse(checkpoint, data, out, *words, "--seed", 2, status=1)
    assert says(capsys.readouterr().err, "insertion.partial.npz", "seed 1", 2)
    found = analyse(checkpoint, data, out, *words, "--batch", 8)
    assert calls == 5 + 3, "one batch is left"
    assert {**found, "provenance": None} == {**whole, "provenance": None}
    analyse(checkpoint, data, out, *words)  # a finished one is only drawn again
    assert calls == 8
    assert cli.main(["analyse", "report", str(tmp_path / "whole")]) == 0
    page = (tmp_path / "whole" / "README.md").read_text()
    assert "## Inserted tokens: " in page and "](insertion.png)" in page and "| 3 | " in page


def test_the_default_is_up_to_an_eighth_of_n(data: Path, checkpoint: Path, tmp_path: Path) -> None:
    record = analyse(checkpoint, data, tmp_path)
    assert [row["shift"] for row in record["shifts"]] == [1, 2, 4, 8]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--shifts", "0"], ("--shifts 0", "1 to 79")),
        (["--shifts", "80"], ("--shifts 80", "1 to 79")),
        (["--shifts", "79"], ("--shifts 79", "0 of the 30 examples of valid", "n = 80")),
        (["--shifts", "20", "--examples", "1"], ("--shifts 20", "0 words", "--examples")),
        (["--split", "test"], ("no labels", "--split valid")),
        (["--split", "dev"], ("no split 'dev'", "test, train, valid")),
    ],
)
def test_values_out_of_range(
    words: list[str],
    expected: tuple[str, ...],
    data: Path,
    checkpoint: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    analyse(checkpoint, data, tmp_path / "out", *words, status=1)
    assert says(capsys.readouterr().err, *expected)
    assert not (tmp_path / "out").exists()


def test_other_kinds_of_checkpoints_and_folders(
    data: Path, checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pretrained = write_checkpoint(data, tmp_path / "pretrained.pt", task="masked_lm")
    analyse(pretrained, data, tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "pretrained.pt", "no classification head", "linformer finetune")
    analyse(checkpoint, tmp_path, tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "input0/dict.txt", "linformer data task")
    analyse(tmp_path / "no.pt", data, tmp_path / "out", status=1)
    assert says(capsys.readouterr().err, "no.pt", "no such file")

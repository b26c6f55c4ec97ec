"""From a run's folder to its row, and folders that are not as they should be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.results import run_row
from linformer_fairseq.results.rows import Hardware, Pretrained, Score, from_line, to_line
from linformer_fairseq.results.run_row import read_run
from tests.conftest import REPOSITORY
from tests.results.examples import attempt, record, run_folder, training, validation

LOG = [training(10), validation(10, ppl=70.5), training(20), validation(20, ppl=60.25)]


def test_a_run_that_ends_by_its_epochs_wanted_what_it_made(tmp_path: Path) -> None:
    row = read_run(run_folder(tmp_path / "run", LOG, max_update=0))
    assert row.finished and row.updates == row.max_update == row.scale.max_update == 20
    assert ", 20 updates" in row.scale.label


def test_of_an_unfinished_run_that_ends_by_its_epochs_only_what_it_made_is_known(tmp_path: Path) -> None:
    row = read_run(run_folder(tmp_path / "run", LOG, max_update=0, attempts=[attempt(status="stopped")]))
    assert (row.updates, row.max_update, row.scale.label) == (20, 0, "2 layers x 32, 20 updates of 256 tokens")


def test_a_run_whose_end_was_moved_before_what_it_had_made(tmp_path: Path) -> None:
    row = read_run(run_folder(tmp_path / "run", LOG, max_update=15))
    assert (row.updates, row.max_update, row.scale.label) == (20, 20, "2 layers x 32, 20 updates of 256 tokens")


def test_the_layers_are_those_that_are_kept(tmp_path: Path) -> None:
    model = {**record()["model"], "encoder_layers": 4, "encoder_layers_to_keep": "0,2,3"}
    assert read_run(run_folder(tmp_path / "run", LOG, model=model)).model.layers == 3


@pytest.mark.slow
def test_a_real_run(real_run: Path) -> None:
    row = read_run(real_run)
    assert (row.name, row.stage, row.seed, row.task) == ("linformer_base_n32_k8_layerwise_s1", "pretraining", 1, None)
    assert row.figure3 == ["a", "c"] and row.table2 is None and row.lr == 5e-4
    assert (row.model.family, row.model.n, row.model.k, row.model.sharing) == ("linformer", 32, 8, "layerwise")
    assert (row.model.layers, row.model.width, row.model.heads, row.model.projection) == (2, 32, 2, "convolution")
    assert row.model.parameters and row.model.parameters > 10_000
    assert row.finished and row.updates == row.max_update == 20 and row.scale.paper is False
    assert row.scale.label == "2 layers x 32, 20 updates of 256 tokens"
    assert row.curve[-1][0] == 20 and row.perplexity and row.perplexity.final == row.curve[-1][1]
    assert row.tokens and 4000 < row.tokens < 20 * 256
    # In whole seconds, of which such a run may take none.
    assert 0 <= row.wall_seconds < 600 and row.attempts == 1 and row.attempts_without_end == 0
    assert row.versions["torch"] and row.commit != "unknown"
    assert from_line(to_line(row)) == row


def test_the_fields_of_a_row(tmp_path: Path) -> None:
    row = read_run(run_folder(tmp_path / "run", LOG))
    assert (row.experiment, row.figure3, row.table2) == ("tiny", ["a", "c"], "Linformer, 128")
    assert row.curve == [[10, 70.5], [20, 60.25]]
    assert row.perplexity == Score(final=60.25, best=60.25, update=20)
    assert row.tokens == 5120 and row.wall_seconds == 100
    assert row.hardware == [Hardware("AMD EPYC, 2 cores", "none", 1, 1)]
    assert row.versions == {"sentencepiece": "0.2.3", "torch": "2.13.0"}
    assert (row.started, row.ended) == ("2026-11-21T20:00:00+00:00", "2026-11-21T20:01:40+00:00")


def test_processes_of_one_machine_are_not_as_many_machines(tmp_path: Path) -> None:
    hosts = [f"{host} (process {number})" for host in ("a", "b") for number in (7, 8, 9)]
    several = {"processor": "x", "accelerator": None, "hosts": hosts}
    row = read_run(run_folder(tmp_path / "run", LOG, attempts=[attempt(world_size=6, hardware=several)]))
    assert row.hardware == [Hardware("x", "none", processes=6, machines=2)]


def test_rows_name_no_host_and_no_folder(tmp_path: Path) -> None:
    line = to_line(
        read_run(run_folder(tmp_path / "run", LOG, stage="finetuning", pretrained="/secret/p/checkpoint_best.pt"))
    )
    assert "secret" not in line and str(tmp_path) not in line


def test_the_best_is_the_first_of_the_best(tmp_path: Path) -> None:
    log = [validation(5, accuracy=60), validation(10, accuracy=71.5, f1=70.1), validation(15, accuracy=71.5, f1=72)]
    row = read_run(run_folder(tmp_path / "run", [*log, validation(20, accuracy=65)], stage="finetuning", task="qqp"))
    assert row.accuracy == Score(final=65, best=71.5, update=10, f1=70.1)
    row = read_run(
        run_folder(tmp_path / "run", [validation(5, ppl=50), validation(10, ppl="inf"), validation(20, ppl=55)])
    )
    assert row.perplexity == Score(final=55, best=50, update=5)
    assert row.curve == [[5, 50], [10, None], [20, 55]]
    assert '"curve": [[5, 50.0], [10, null], [20, 55.0]]' in to_line(row)
    row = read_run(run_folder(tmp_path / "run", [validation(5, ppl=50), validation(10, ppl="nan")]))
    assert row.perplexity == Score(final=None, best=50, update=5)
    assert read_run(run_folder(tmp_path / "run", [validation(5, ppl="nan")])).perplexity is None


@pytest.mark.parametrize(
    ("size", "updates", "status", "paper", "label"),
    [
        ((12, 768), 250_000, "finished", True, "12 layers x 768, 250,000 updates of 256 tokens"),
        ((12, 768), 249_999, "stopped", False, "12 layers x 768, 249,999 of 250,000 updates of 256 tokens"),
        ((12, 512), 250_000, "finished", False, "12 layers x 512, 250,000 updates of 256 tokens"),
        ((6, 768), 250_000, "finished", False, "6 layers x 768, 250,000 updates of 256 tokens"),
        ((6, 768), 9, "finished", False, "6 layers x 768, 9 of 250,000 updates of 256 tokens"),  # by max_epoch
    ],
)
def test_the_papers_scale(tmp_path: Path, size: tuple, updates: int, status: str, paper: bool, label: str) -> None:
    options = {**record()["model"], "encoder_layers": size[0], "encoder_embed_dim": size[1]}
    attempts = [attempt(updates_at_end=updates, status=status)]
    row = read_run(run_folder(tmp_path / "run", LOG, model=options, max_update=250_000, attempts=attempts))
    assert (row.scale.paper, row.scale.label) == (paper, label)


def test_models(tmp_path: Path) -> None:
    def of(**options: object) -> tuple:
        row = read_run(run_folder(tmp_path / "run", LOG, model={**record()["model"], **options}))
        return row.model.family, row.model.k, row.model.sharing, row.model.projection

    assert of() == ("linformer", 8, "key_value", "linear")
    assert of(projected_dim=[8, 4]) == ("linformer", [8, 4], "key_value", "linear")
    assert of(projected_dim="[8,4]") == ("linformer", [8, 4], "key_value", "linear")
    assert of(projected_dim=[[8, 4], [4, 2]])[1] == [[8, 4], [4, 2]]
    assert of(_name="roberta_base") == ("roberta", None, None, None)
    assert of(_name="roberta")[0] == "roberta"
    assert of(_name="performer_prenorm", features=16)[:2] == ("performer", 16)
    assert of(_name="nystrom_prenorm", landmarks=32)[:2] == ("nystrom", 32)


def test_runs_that_differ_in_an_option_are_told_apart(tmp_path: Path) -> None:
    """Whoever adds an option to models/config.py adds it to results/run_row.py."""
    from linformer_fairseq.models.config import OPTIONS_OF_LINFORMER, Role, with_role

    found = {"projected_dim": 4, "sharing": "none", "projection": "linear", "freeze_projection": True}
    row = read_run(run_folder(tmp_path / "run", LOG, model={**record()["model"], **found}))
    assert row.model.options["freeze_projection"] is True and from_line(to_line(row)) == row
    of_computation = set(OPTIONS_OF_LINFORMER) - with_role(Role.EXECUTION)
    assert of_computation == {"projected_dim", "sharing", "projection", *run_row._OPTIONS}


def test_a_row_that_is_read_and_written_again_stays_as_it_is(tmp_path: Path) -> None:
    overlapping = {**record()["model"], "kernel_strides": 2}
    line = to_line(read_run(run_folder(tmp_path / "run", LOG, model=overlapping)))
    assert to_line(from_line(line)) == line
    assert not {"changed", "label_weight", "windows"} & json.loads(line).keys()


def test_what_a_finetuning_learned_beside_labels(tmp_path: Path) -> None:
    inputs = {"task": "imdb", "max_positions": 64, "cut": "windows"}
    taught = {"stage": "finetuning", "task": "imdb", "label_weight": 0.0, "inputs": inputs}
    row = read_run(run_folder(tmp_path / "run", LOG, **taught))
    assert (row.label_weight, row.windows) == (0.0, True) and from_line(to_line(row)) == row
    row = read_run(run_folder(tmp_path / "other", LOG, **{**taught, "inputs": {**inputs, "cut": "head"}}))
    assert not row.windows


@pytest.mark.parametrize(
    "path", sorted((REPOSITORY / "results").rglob("runs.jsonl")), ids=lambda path: path.parent.name
)
def test_stored_rows_stay_as_they_are(path: Path) -> None:
    with path.open(encoding="utf-8") as lines:
        assert all(to_line(from_line(line)) == line for line in lines)


def test_several_attempts(tmp_path: Path) -> None:
    killed = attempt(end=None, status="failed", updates_at_end=None)
    later = attempt(start="2026-11-22T08:00:00+00:00", end="2026-11-22T08:00:30+00:00", world_size=2)
    row = read_run(run_folder(tmp_path / "run", LOG, attempts=[attempt(status="stopped"), killed, later]))
    assert (row.finished, row.attempts, row.attempts_without_end, row.wall_seconds) == (True, 3, 1, 130)
    assert (row.started, row.ended) == ("2026-11-21T20:00:00+00:00", "2026-11-22T08:00:30+00:00")
    assert [hardware.processes for hardware in row.hardware] == [1, 2], "equal ones once"


def test_settings_that_were_changed_on_the_way_are_named(tmp_path: Path) -> None:
    kept = ["common.log_interval: 5, now 9", "task.data: /a, now /b", "optimization.max_update: 20, now 40"]
    kept += ["model.compile_encoder: False, now True", "dataset.batch_size: 8, now 4"]
    texts = [*kept, "task.mask_prob: 0.15, now 0.3", "optimizer.weight_decay: 0.1, now 0.5"]
    attempts = [attempt(status="stopped"), attempt(changed=texts), attempt(changed=texts[-1:])]
    row = read_run(run_folder(tmp_path / "run", LOG, attempts=attempts))
    assert row.changed == ["optimizer.weight_decay", "task.mask_prob"] and from_line(to_line(row)) == row
    assert read_run(run_folder(tmp_path / "other", LOG, attempts=[attempt(), attempt(changed=kept)])).changed == []
    exchanged = ["optimizer._name: adam, now fused_adamw", "optimizer.tpu: False, now None"]
    # which goes with max_update: the learning rate goes up again
    exchanged += ["lr_scheduler.total_num_update: 20, now 40"]
    row = read_run(run_folder(tmp_path / "third", LOG, attempts=[attempt(), attempt(changed=exchanged)]))
    assert row.changed == ["lr_scheduler.total_num_update", "optimizer._name"]


@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [
        ("2026-11-21T20:00:00+00:00", "2026-11-21T21:00:30+01:00", 30),
        ("2026-11-21T20:00:00", "2026-11-21T20:00:30", 30),
        ("2026-11-21T20:00:00+00:00", "2026-11-21T20:00:30", None),
        ("2026-11-21T20:00:00", "2026-11-21T20:00:30+00:00", None),
    ],
)
def test_the_time_zones_of_an_attempt(tmp_path: Path, start: str, end: str, seconds: int | None) -> None:
    folder = run_folder(tmp_path / "run", LOG, attempts=[attempt(start=start, end=end)])
    if seconds is not None:
        assert read_run(folder).wall_seconds == seconds
        return
    with pytest.raises(UserError, match="time zone") as error:
        read_run(folder)
    assert start in str(error.value) and end in str(error.value) and str(folder) in str(error.value)


def test_an_attempt_that_was_killed_or_goes_on(tmp_path: Path) -> None:
    running = attempt(end=None, status="running", updates_at_end=None)
    row = read_run(run_folder(tmp_path / "run", LOG[:3], attempts=[running], max_update=100))
    assert (row.finished, row.status, row.updates, row.max_update, row.ended) == (False, "running", 20, 100, None)
    assert row.curve == [[10, 70.5]]
    row = read_run(run_folder(tmp_path / "new", None, attempts=[running]))
    assert (row.updates, row.curve, row.tokens, row.perplexity) == (0, [], None, None)


def test_the_identity_stays_while_a_run_goes_on_and_changes_when_it_is_begun_anew(tmp_path: Path) -> None:
    first = read_run(run_folder(tmp_path / "run", LOG))
    more = [attempt(), attempt(start="2026-11-22T08:00:00+00:00")]
    assert read_run(run_folder(tmp_path / "elsewhere", LOG, attempts=more)).key == first.key
    anew = read_run(run_folder(tmp_path / "run", LOG, attempts=more[1:]))
    assert anew.name == first.name and anew.key != first.key


def test_a_finetuning_has_the_scale_of_its_pretraining(tmp_path: Path) -> None:
    pretraining = run_folder(tmp_path / "runs" / "tiny_s1", LOG)
    (pretraining / "checkpoint_best.pt").touch()
    finetuning = {
        "stage": "finetuning",
        "name": "tiny_s1/sst2_lr1e-05_s1",
        "task": "sst2",
        "paper": {},
        "max_update": 9,
    }
    # Found by its checkpoint, or, where that has moved, as the folder above.
    for place, checkpoint in (("elsewhere", pretraining), ("runs/tiny_s1/sst2_lr1e-05_s1", Path("/gone"))):
        folder = run_folder(tmp_path / place, [], **finetuning, pretrained=str(checkpoint / "checkpoint_best.pt"))
        row = read_run(folder)
        assert row.pretrained == Pretrained("tiny_s1", "checkpoint_best.pt")
        assert row.scale == read_run(pretraining).scale and row.scale.max_update == 20
        assert row.table2 == "Linformer, 128", "of its pretraining, for it says none itself"
    row = read_run(run_folder(tmp_path / "lost" / "run", [], **finetuning, pretrained="/gone/checkpoint_best.pt"))
    assert row.pretrained == Pretrained("tiny_s1", "checkpoint_best.pt"), "by its name"
    assert row.scale.label == "2 layers x 32, pretraining unknown" and not row.scale.paper
    named = {**finetuning, "name": "second", "pretrained": "/gone/linformer-small/model.safetensors"}
    row = read_run(run_folder(tmp_path / "lost" / "second", [], **named))
    assert row.pretrained == Pretrained("linformer-small", "model.safetensors"), "by its folder, if run.name is given"


def test_a_pretraining_of_a_converted_model_names_its_folder(tmp_path: Path) -> None:
    row = read_run(run_folder(tmp_path / "run", [], pretrained="/gone/converted/model.safetensors"))
    assert row.stage == "pretraining" and row.pretrained == Pretrained("converted", "model.safetensors")


def test_a_pretraining_that_goes_on_from_another_by_fairseqs_own_option_names_it(tmp_path: Path) -> None:
    row = read_run(run_folder(tmp_path / "run", [], finetune_from_model="/gone/blocks_s1/checkpoint_last.pt"))
    assert row.pretrained == Pretrained("blocks_s1", "checkpoint_last.pt")


def test_a_run_that_names_itself_as_pretrained_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_folder(folder, [], stage="finetuning", pretrained=str(folder / "checkpoint_best.pt"))
    assert read_run(folder).scale.max_update is None


DAMAGED = {
    "empty": ("", "not JSON"),
    "half": (json.dumps(record())[:200], "not JSON"),
    "binary": (b"\xff\xfe\x00", "not JSON"),
    "a list": ("[]", "run.json: expected an object, found list"),
    "another schema": (json.dumps(record(schema=2)), "schema 2; this program knows schema 1"),
    "no schema": (json.dumps({"stage": "pretraining"}), "schema None"),
    "a missing field": (json.dumps({k: v for k, v in record().items() if k != "seed"}), "seed: missing"),
    "a wrong type": (json.dumps(record(max_update="20")), "max_update: expected a whole number, found '20'"),
    "true for a number": (json.dumps(record(seed=True)), "seed: expected a whole number, found True"),
    "a wrong attempt": (json.dumps(record(attempts=[attempt(start=7)])), r"attempts\[0\].start: expected a text"),
    "a wrong model": (json.dumps(record(model={"_name": "x"})), "model.encoder_layers: missing"),
    "an unresolved model": (
        json.dumps(record(model={**record()["model"], "encoder_layers": None})),
        "model.encoder_layers: expected a whole number, found None",
    ),
    "a wrong k": (
        json.dumps(record(model={**record()["model"], "projected_dim": 1.5})),
        "model.projected_dim: expected a whole number or a list or a text or null, found 1.5",
    ),
    "no list in k": (
        json.dumps(record(model={**record()["model"], "projected_dim": "[8"})),
        "projected_dim: expected a number or a list",
    ),
    "no date": (json.dumps(record(attempts=[attempt(end="yesterday")])), "yesterday"),
    "a stage of its own": (
        json.dumps(record(stage="training")),
        "expected pretraining or finetuning, found 'training'",
    ),
    "never started": (json.dumps(record(attempts=[])), "was never started"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_record_is_named(tmp_path: Path, case: str) -> None:
    content, message = DAMAGED[case]
    folder = tmp_path / "the_run"
    folder.mkdir()
    (folder / "run.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UserError, match=message) as error:
        read_run(folder)
    assert str(error.value).startswith(str(folder))

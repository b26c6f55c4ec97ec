"""Training in a bare loop and through fairseq's trainer."""

from __future__ import annotations

import dataclasses
import gc
import importlib.util
import json
import weakref

import pytest
import torch
from torch import nn

from benchmarks.__main__ import main
from benchmarks.efficiency import bare, operations, stretch
from benchmarks.efficiency.models.trainable import build_trainable
from benchmarks.efficiency.sizes import Sizes
from benchmarks.efficiency.training import KEYS
from linformer_fairseq.files.dictionary import PAD
from tests.benchmarks.conftest import TINY

TRAINING = ["training", "--tokens", "64", "--threads", "1", *TINY]
SIZES = Sizes(layers=2, width=16, ffn=64, heads=2, vocabulary=90)
CPU = torch.device("cpu")
JOB = stretch.Job(
    "linformer_core", 4, "bare", 16, 16, 4, False, 0.0, SIZES, "adam", "float32", "cpu", 1, warm_up=1, updates=2
)


@pytest.mark.slow
def test_a_bare_loop_with_torch_alone(tmp_path):
    out = tmp_path / "t.json"
    words = ["--lengths", "16", "32", "--projected-dims", "4", "8", "--dropouts", "0", "0.1", "--out", str(out)]
    words += ["--models", "linformer_core", "roberta_sdpa_core"]
    assert main([*TRAINING, *words]) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [(c["length"], c["dropout"], c["model"], c["k"], c["path"]) for c in cells] == [
        (length, dropout, model, k, "bare")
        for length in (16, 32)
        for dropout in (0.0, 0.1)
        for model, k in (("linformer_core", 4), ("linformer_core", 8), ("roberta_sdpa_core", None))
    ]
    for cell in cells:
        assert tuple(cell) == KEYS and cell["status"] == "ok" and cell["tokens"] == 64
        assert cell["n"] == cell["length"] and cell["vocabulary"] == 90
        assert cell["parameters_dtype"] == cell["optimized_dtype"] == "float32"
        assert len(cell["all_seconds"]) == 5 and [len(turn) for turn in cell["update_seconds"]] == [2] * 5
        masked = len(range(bare.FIRST_MASKED, cell["length"], bare.EVERY))
        assert cell["operations"] == cell["batch"] * operations.training(SIZES, cell["length"], cell["k"], masked)
        assert cell["peak_bytes"] > 0
    assert main([*TRAINING, *words, "--resume"]) == 0
    assert json.loads(out.read_text())["cells"] == cells


@pytest.mark.slow
def test_a_model_for_which_memory_does_not_suffice_is_a_cell_like_others(tmp_path):
    out = tmp_path / "t.json"
    words = ["--lengths", "16", "--projected-dims", "4", "--models", "linformer_core", "--dropouts", "0"]
    assert main([*TRAINING, *words, "--out", str(out), "--vocabulary", "20000000000"]) == 0  # 1.2 TiB of embeddings
    (found,) = json.loads(out.read_text())["cells"]
    assert found["status"] == "out_of_memory" and "can't allocate memory" in found["reason"]


@pytest.mark.slow
def test_a_process_that_dies_is_told_apart():
    class Ends(Sizes):
        """Ends the process that unpickles it."""

        def __reduce__(self):
            return __import__("os")._exit, (3,)

    with pytest.raises(stretch.StretchError, match="ended with status 3") as caught:
        stretch.alone(dataclasses.replace(JOB, sizes=Ends()))
    assert caught.value.status == "failed"


@pytest.mark.slow
def test_on_a_machine_with_a_gpu_no_process_is_forked(monkeypatch):
    """CUDA, which imports initialize, cannot be used in a forked process."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    stretch._context.cache_clear()
    try:
        assert stretch._context().get_start_method() == "spawn"
        assert len(stretch.alone(JOB).seconds) == 2
    finally:
        stretch._context.cache_clear()


def test_on_a_gpu_the_plain_loop_runs_in_this_process_and_leaves_nothing(monkeypatch):
    job, kept = dataclasses.replace(JOB, device="cuda"), []

    def bare_loop(job, device):
        loop = build_trainable(job.model, job.sizes, job.n, job.k, job.dropout, torch.device("cpu"))
        kept.append(weakref.ref(loop))
        if job.padded:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return stretch.Done([0.1, 0.2], 1, 90, "float32", "float32")

    monkeypatch.setitem(stretch._LOOPS, "bare", bare_loop)
    monkeypatch.setattr(stretch.memory, "release", lambda device: gc.collect())
    assert stretch.alone(job).seconds == [0.1, 0.2]
    with pytest.raises(stretch.StretchError) as caught:
        stretch.alone(dataclasses.replace(job, padded=True))
    assert caught.value.status == "out_of_memory"
    assert [one() for one in kept] == [None, None]


@pytest.mark.usefixtures("fairseq")
def test_an_update_that_fairseq_would_skip_for_lack_of_memory_has_no_time(monkeypatch):
    from fairseq.models.roberta import RobertaModel

    def forward(self, *args, **more):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(RobertaModel, "forward", forward)
    with pytest.raises(stretch.StretchError) as caught:
        stretch._ran(dataclasses.replace(JOB, model="roberta_fairseq", k=None, path="trainer"))
    assert caught.value.status == "out_of_memory"


@pytest.mark.slow
def test_short_inputs_of_a_larger_model_are_padded(tmp_path):
    out = tmp_path / "t.json"
    words = ["--lengths", "12", "--positions", "16", "--projected-dims", "8", "--padded", "--dropouts", "0"]
    assert main([*TRAINING, *words, "--models", "linformer_core", "--out", str(out)]) == 0
    (cell,) = json.loads(out.read_text())["cells"]
    batch = bare.batch_of(5, 12, 90, padded=True)
    assert (cell["n"], cell["length"], cell["padded"], cell["batch"]) == (16, 12, True, 5)
    assert cell["tokens"] == int(batch.tokens.ne(PAD).sum()) < 60


def test_padding_is_on_the_right_and_never_masked():
    batch = bare.batch_of(50, 17, 90, padded=True)
    lengths = batch.tokens.ne(PAD).sum(1)
    assert lengths[0] == 17 and lengths.min() >= 9 and len(lengths.unique()) > 4
    assert torch.equal(batch.tokens.ne(PAD), torch.arange(17) < lengths[:, None])
    assert not (batch.masked & batch.tokens.eq(PAD)).any() and (batch.tokens[batch.masked] == 89).all()
    assert all(map(torch.equal, batch, bare.batch_of(50, 17, 90, padded=True)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["linformer_core", "roberta_materialised", "linformer"])
def test_the_loop_learns(name, dtype):
    model = build_trainable(name, SIZES, 16, None if name.startswith("roberta") else 4, 0.0, CPU)
    loop = bare.BareLoop(model, bare.batch_of(4, 16, 90, padded=False), "fused_adamw", dtype, CPU)
    for group in loop.optimizer.param_groups:
        group["lr"] = 1e-2
    losses = [float(loop.update()) for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert {p.dtype for p in model.parameters()} == {dtype}
    assert all(p.dtype == torch.float32 for p in loop.optimized)
    for parameter, copy in zip(loop.parameters, loop.optimized, strict=True):
        torch.testing.assert_close(parameter, copy.to(dtype), rtol=0, atol=0)


def test_only_the_recomputing_model_recomputes_and_its_gradients_are_the_same():
    batch, gradients = bare.batch_of(4, 16, 90, padded=False), []
    for name in ("linformer", "linformer_recomputed"):
        model = build_trainable(name, SIZES, 16, 4, 0.0, CPU)
        layers = model.model.encoder.sentence_encoder.layers
        assert [layer.recompute for layer in layers] == [name == "linformer_recomputed"] * SIZES.layers
        generator = torch.Generator().manual_seed(1)
        for parameter in model.parameters():  # large: gradients of the attention must be above the tolerance
            torch.nn.init.normal_(parameter, std=0.3, generator=generator)
        model(batch.tokens, batch.masked).square().mean().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(
    "name", ["linformer_core", "roberta_sdpa_core", "roberta_sdpa_core_blocks", "roberta_materialised"]
)
def test_models_of_torch_alone_drop_what_fairseqs_drop(name, monkeypatch):
    """Embeddings, and in each layer attention probabilities, attention output and feed-forward output."""
    dropped = []
    attention, dropout = nn.functional.scaled_dot_product_attention, nn.functional.dropout

    def see_attention(*args, dropout_p=0.0, **more):
        dropped.append(dropout_p)
        return attention(*args, dropout_p=dropout_p, **more)

    def see_dropout(x, p=0.5, training=True, inplace=False):
        dropped.append(p if training else 0.0)
        return dropout(x, p, training, inplace)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", see_attention)
    monkeypatch.setattr(nn.functional, "dropout", see_dropout)
    model = build_trainable(name, SIZES, 16, None if name.startswith("roberta") else 4, 0.25, CPU)
    batch = bare.batch_of(2, 16, 90, padded=False)
    model(batch.tokens, batch.masked)
    assert dropped == [0.25] * (1 + 3 * SIZES.layers)


def test_mistakes_are_said_in_one_line(refused):
    assert "is for inference only" in refused(*TRAINING, "--models", "lucidrains") or not importlib.util.find_spec(
        "linformer"
    )
    core = ["--models", "linformer_core", "--projected-dims", "4"]
    assert "k < n" in refused(*TRAINING, *core, "--lengths", "8", "4")
    assert "--positions is 8, but --lengths has 16" in refused(*TRAINING, *core, "--lengths", "16", "--positions", "8")
    assert "5 rounds and 10 updates" in refused(*TRAINING, *core, "--lengths", "16", "--updates", "1")
    assert "5 rounds and 10 updates" in refused(*TRAINING, *core, "--lengths", "16", "--rounds", "2", "--updates", "9")
    assert "trains none of linformer_core; add bare" in refused(
        *TRAINING, *core, "--lengths", "16", "--paths", "trainer"
    )
    assert "--dropouts names something twice" in refused(*TRAINING, *core, "--lengths", "16", "--dropouts", "0", "0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("models", "more"),
    [
        (["linformer", "roberta_sdpa_core", "roberta_fairseq"], []),
        (["linformer"], ["--dtype", "bfloat16", "--optimizer", "fused_adamw"]),
    ],
    ids=str,
)
def test_both_ways_with_fairseq(tmp_path, models, more):
    out = tmp_path / "t.json"
    words = ["--lengths", "16", "--projected-dims", "4", "--padded", "--positions", "20", "--dropouts", "0.1"]
    words += ["--models", *models, "--out", str(out), *more]
    assert main([*TRAINING, *words]) == 0
    cells = json.loads(out.read_text())["cells"]
    assert [(cell["model"], cell["path"], cell["status"]) for cell in cells] == [
        (model, path, "ok")
        for model in models
        for path in ("bare", "trainer")
        if (model, path) != ("roberta_sdpa_core", "trainer")  # without fairseq
    ]
    for cell in cells:
        assert len(cell["all_seconds"]) == 5
        assert (cell["times_bare"] is not None) == (cell["path"] == "trainer")
        assert cell["vocabulary"] == 90, "fairseq's own dummy task pads its dictionary"
        assert cell["parameters_dtype"] == ("bfloat16" if more else "float32")
        assert cell["optimized_dtype"] == "float32"

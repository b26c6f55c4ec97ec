"""transformers loads an exported folder by itself: in processes that cannot import this package or fairseq."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from linformer_fairseq.exporting.hugging_face import export_folder
from linformer_fairseq.models import LinformerRobertaModel
from tests.data_prep.small_tokenizers import make_sentencepiece
from tests.models import write_checkpoint
from tests.prepared_task import qqp

TEXTS = ["He opened the <mask> and walked into the room.", "A <mask>."]

_BEGINNING = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("fairseq", "linformer_fairseq", "omegaconf"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer
from transformers import pipeline
out, work = sys.argv[1:]
torch.manual_seed(0)
trusted = {"trust_remote_code": True}
"""

Run = Callable[[str, Path], str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a program after `_BEGINNING`, with the exported folder as ``out`` and a folder of its own as ``work``."""

    def program(text: str, folder: Path) -> str:
        environment = os.environ | {"HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1", "PYTHONPATH": ""}
        words = [sys.executable, "-c", _BEGINNING + text, str(folder), str(tmp_path)]
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return program


@pytest.mark.slow
@torch.no_grad()
def test_models_and_pipeline(exported: Path, hub: Any, run: Run, tmp_path: Path) -> None:
    warned = run(
        f"""
tokenizer = AutoTokenizer.from_pretrained(out, **trusted)
batch = tokenizer({TEXTS}, padding=True, return_tensors="pt")
masked, loading = AutoModelForMaskedLM.from_pretrained(out, output_loading_info=True, **trusted)
assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), loading
features, loading = AutoModel.from_pretrained(out, output_loading_info=True, **trusted)
assert not any(loading[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), loading
fill = pipeline("fill-mask", model=masked, tokenizer=tokenizer)
with torch.no_grad():
    found = {{"ids": batch["input_ids"], "logits": masked.eval()(**batch).logits}}
    found["features"] = features.eval()(**batch).last_hidden_state
found["filled"] = [(guess["token_str"], guess["score"]) for guess in fill({TEXTS[0]!r}, top_k=3)]
masked.save_pretrained(work + "/saved")
tokenizer.save_pretrained(work + "/saved")
again = AutoModelForMaskedLM.from_pretrained(work + "/saved", **trusted).eval()
tokens = AutoTokenizer.from_pretrained(work + "/saved", **trusted)({TEXTS}, padding=True, return_tensors="pt")
assert torch.equal(tokens["input_ids"], batch["input_ids"])
with torch.no_grad():
    assert torch.equal(again(**tokens).logits, found["logits"])
torch.save(found, work + "/found.pt")
try:
    AutoModel.from_pretrained(out, short_inputs="first_columns", **trusted)
except ValueError as error:
    assert "short_inputs=stretch" in str(error) and "short_inputs=first_columns" in str(error), error
else:
    raise AssertionError
""",
        exported,
    )
    assert "warn" not in warned.lower(), warned
    found = torch.load(tmp_path / "found.pt")
    tokens, real = found["ids"], found["ids"] != 1
    assert not real.all()  # the batch is padded
    torch.testing.assert_close(found["logits"][real], hub.model(tokens)[0][real], atol=1e-5, rtol=0)
    torch.testing.assert_close(found["features"][real], hub.extract_features(tokens)[real], atol=1e-5, rtol=0)
    expected = [(token.strip(), score) for _, score, token in hub.fill_mask(TEXTS[0], topk=3)]
    assert [token.strip() for token, _ in found["filled"]] == [token for token, _ in expected]
    assert [score for _, score in found["filled"]] == pytest.approx([score for _, score in expected], abs=1e-5)
    files = {path.name for path in (tmp_path / "saved").iterdir()}
    assert {"modeling_linformer.py", "attention.py", "windows.py", "convolution.py", "model.safetensors"} <= files


@pytest.mark.slow
def test_code_is_not_run_without_consent(exported: Path, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(exported, folder)
    ran = tmp_path / "ran"
    for name in ("configuration_linformer.py", "modeling_linformer.py"):
        with (folder / name).open("a") as file:
            file.write(f"\nopen({str(ran)!r}, 'w')\n")
    refused = """
try:
    AutoModelForMaskedLM.from_pretrained(out, trust_remote_code=False)
except ValueError as error:
    assert "trust_remote_code" in str(error)
else:
    raise AssertionError
"""
    run(refused, folder)
    assert not ran.exists()
    from linformer_fairseq.exporting.hugging_face import import_folder

    import_folder(folder, tmp_path / "back")
    assert not ran.exists()


@pytest.mark.slow
def test_training_and_classification(exported: Path, run: Run) -> None:
    pytest.importorskip("accelerate")
    run(
        """
tokenizer = AutoTokenizer.from_pretrained(out, **trusted)
from transformers import DataCollatorWithPadding, Trainer, TrainingArguments
model = AutoModelForSequenceClassification.from_pretrained(
    out, num_labels=3, id2label={0: "a", 1: "b", 2: "c"}, label2id={"a": 0, "b": 1, "c": 2}, **trusted
)
rows = [{**tokenizer("word " * (130 + number % 7)), "labels": number % 3} for number in range(16)]
before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
arguments = TrainingArguments(
    work + "/run", max_steps=2, per_device_train_batch_size=4, gradient_accumulation_steps=2,
    activation_checkpointing=True, report_to=[], use_cpu=True, learning_rate=1e-3, save_steps=2,
)
trainer = Trainer(model, arguments, DataCollatorWithPadding(tokenizer), train_dataset=rows, processing_class=tokenizer)
trainer.train()
assert not trainer.model_accepts_loss_kwargs  # or it would not divide by the accumulated batches
moved = {name for name, tensor in model.state_dict().items() if not torch.equal(tensor, before[name])}
kernel = "linformer.layers.5.self_attn.proj_k.weight"  # of the smallest k: the inputs are longer
assert {"classifier.out_proj.weight", kernel, "linformer.embed_tokens.weight"} <= moved
trainer.save_model(work + "/trained")
model = AutoModelForSequenceClassification.from_pretrained(work + "/trained", **trusted)
guess = pipeline("text-classification", model=model, tokenizer=tokenizer)(["word word", "word"], batch_size=2)
assert {one["label"] for one in guess} <= {"a", "b", "c"}
""",
        exported,
    )


@pytest.mark.slow
@pytest.mark.skipif(" " in sys.prefix, reason="torch cannot compile in an environment whose path has a blank")
def test_compiled_models_compute_the_same(exported: Path, run: Run) -> None:
    run(
        """
tokenizer = AutoTokenizer.from_pretrained(out, **trusted)
model = AutoModelForMaskedLM.from_pretrained(out, **trusted).eval()
compiled = torch.compile(model, fullgraph=True, dynamic=True)
for texts in (["one", "another one, which is longer"], ["a b c d e f g h", "i", "j k"]):
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        torch.testing.assert_close(compiled(**batch).logits[real], model(**batch).logits[real], atol=1e-4, rtol=1e-4)
""",
        exported,
    )


@pytest.mark.slow
def test_the_card_of_a_classifier_of_pairs_has_code_for_pairs(run: Run, tmp_path: Path) -> None:
    task = qqp(tmp_path, make_sentencepiece(tmp_path / "tokenizer"))
    export_folder(str(write_checkpoint(task, tmp_path / "model.pt")), tmp_path / "pairs", task)
    (code,) = re.findall("```python\n(.*?)```", (tmp_path / "pairs" / "README.md").read_text(), re.DOTALL)
    hub: Any = LinformerRobertaModel.from_pretrained(tmp_path, "model.pt", task)
    (expected,) = hub.eval().classify([("one text", "the other text of the pair")])
    score = f"assert abs(found[0]['score'] - {expected.probability}) < 1e-4, found"
    run(code.replace("pipeline(", "found = pipeline(") + score, tmp_path / "pairs")

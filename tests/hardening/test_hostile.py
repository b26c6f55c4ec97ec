"""Files that somebody wrote with intent: no code of them runs, nothing is written elsewhere, memory stays bounded.

Pickles that would execute something are in tests/checkpoints/test_reading.py.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import struct
import tarfile
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import torch
from omegaconf import OmegaConf

from data_prep.sources import parse_source
from data_prep.support.step import Step
from data_prep.tasks.definitions import TASKS
from data_prep.tasks.glue import GlueSource
from data_prep.tasks.imdb import ImdbSource
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.checkpoints.released_file import released
from linformer_fairseq.checkpoints.writing import write_checkpoint
from linformer_fairseq.conversion.fairseq_source import read_fairseq
from linformer_fairseq.evaluation import load_classifier, read_finetuned
from linformer_fairseq.exporting.trained import read_trained
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import parse
from linformer_fairseq.files.mmap_dataset import idx_of, open_dataset
from linformer_fairseq.files.task_data import read_task
from linformer_fairseq.launch.compose import compose
from linformer_fairseq.launch.pretrained import read_pretrained
from linformer_fairseq.models import LinformerRobertaModel
from linformer_fairseq.models.stored import check_sizes
from linformer_fairseq.prediction.parquet import open_parquet
from tests.archives import tarred
from tests.binarised import write_items
from tests.checkpoint_files import make_state
from tests.data_prep.small_tokenizers import make_gpt2
from tests.hardening import outcomes
from tests.hardening.outcomes import bounded
from tests.hardening.readers import REVIEWS, configs, exported, huggingface, import_, sharded, to_linformer
from tests.models import write_checkpoint as write_model

Load = Callable[[Path, Path], object]
"""Loads a checkpoint, with the folder of its data."""


def code(flag: Path) -> str:
    """Python that makes a file."""
    return f"open({str(flag)!r}, 'w')"


# --- a checkpoint's options, of which fairseq runs some as Python


LOADERS: dict[str, Load] = {
    "from_pretrained": lambda path, data: LinformerRobertaModel.from_pretrained(path.parent, path.name, data, bpe=None),
    "evaluate": lambda path, data: load_classifier(read_finetuned(path), read_task(data), torch.device("cpu")),
    "convert": lambda path, data: read_fairseq(path, path.parent, path.parent.parent),
    "export": read_trained,
    "finetune": lambda path, data: read_pretrained(path),
}


@pytest.fixture(scope="module")
def state(task_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A finetuned classifier of ``task_data``, as a checkpoint has it, with plain options."""
    path = write_model(task_data, tmp_path_factory.mktemp("state") / "model.pt", classes=3)
    found = read_checkpoint(path)
    if OmegaConf.is_config(found["cfg"]):
        found["cfg"] = OmegaConf.to_container(found["cfg"], resolve=True, enum_to_str=True)
    model = found["cfg"]["model"]
    found["cfg"]["model"] = dict(vars(model)) if isinstance(model, Namespace) else dict(model)
    return found


def with_options(state: dict[str, Any], part: str = "model", **options: Any) -> dict[str, Any]:
    """The checkpoint with other options of its model or task."""
    cfg = {**state["cfg"], part: {**state["cfg"][part], **options}}
    return {**state, "cfg": cfg, "model": dict(state["model"])}


@pytest.fixture
def folder(task_data: Path, tmp_path: Path) -> Path:
    """Where checkpoints are put, with a tokenizer, as `linformer convert` and `export` look for one."""
    make_gpt2(tmp_path / "folder")
    return tmp_path / "folder"


EVALUATED: dict[str, dict[str, Any]] = {
    "another model": {"_name": "fconv", "arch": "fconv", "encoder_layers": "CODE", "decoder_layers": "CODE"},
    "RoBERTa's attention": {"_name": "roberta", "arch": "roberta", "encoder_xformers_att_config": "CODE"},
    "in a part": {"_name": "roberta", "arch": "roberta", "encoder": {"xformers_att_config": "CODE"}},
    "ours": {"encoder_xformers_att_config": "CODE"},
}


@pytest.mark.parametrize("options", EVALUATED.values(), ids=EVALUATED)
@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_options_are_not_executed(
    load: Load, options: dict[str, Any], state: dict[str, Any], folder: Path, task_data: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "flag"
    options = json.loads(json.dumps(options).replace("CODE", code(flag)))
    path = folder / "model.pt"
    write_checkpoint(with_options(state, **options), path)
    # else `evaluate` refuses the dictionary, before it looks at the options
    (folder / "dict.txt").write_bytes((task_data / "input0" / "dict.txt").read_bytes())
    with pytest.raises((UserError, ValueError)) as caught:
        load(path, task_data)
    assert str(path) in str(caught.value)
    assert not flag.exists()


def test_options_of_a_released_model_are_not_executed(state: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    flag, path = tmp_path / "flag", folder / "model.safetensors"
    path.write_bytes(released(with_options(state, _name="fconv", encoder_layers=code(flag))))
    with pytest.raises(ValueError, match="fconv") as caught:
        LinformerRobertaModel.from_pretrained(folder)
    assert str(path) in str(caught.value) and not flag.exists()


def test_a_task_of_another_kind_is_not_built(state: dict[str, Any], folder: Path, task_data: Path) -> None:
    write_checkpoint(with_options(state, "task", _name="translation"), folder / "model.pt")
    with pytest.raises(ValueError, match="translation"):
        LOADERS["from_pretrained"](folder / "model.pt", task_data)


def test_the_good_one_is_loaded(state: dict[str, Any], folder: Path, task_data: Path) -> None:
    write_checkpoint(with_options(state), folder / "model.pt")
    (folder / "dict.txt").write_bytes((task_data / "input0" / "dict.txt").read_bytes())
    LOADERS["from_pretrained"](folder / "model.pt", task_data)
    LOADERS["evaluate"](folder / "model.pt", task_data)
    LOADERS["finetune"](folder / "model.pt", task_data)


SIZES = ("encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_layers", "max_positions", "projected_dim")


@pytest.mark.parametrize(
    ("name", "option"),
    [*(("evaluate", option) for option in SIZES), *zip(LOADERS, SIZES, strict=True)],
)
def test_a_size_beyond_the_weights_takes_no_memory(
    name: str, option: str, state: dict[str, Any], folder: Path, task_data: Path
) -> None:
    path = folder / "model.pt"
    write_checkpoint(with_options(state, **{option: 10**9}), path)
    said = bounded(lambda: LOADERS[name](path, task_data))
    assert str(path) in said and option in said


_E = "encoder.sentence_encoder.proj_k.weight"
_WEIGHTS = {
    "encoder.sentence_encoder.embed_tokens.weight": torch.empty(9, 16),
    "encoder.sentence_encoder.embed_positions.weight": torch.empty(34, 16),
    "encoder.sentence_encoder.layers.0.fc1.weight": torch.empty(24, 16),
    _E: torch.empty(8, 32),
}
_OF_WEIGHTS = {"encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24, "encoder_layers": 1, "max_positions": 32}


def test_sizes_of_the_weights_are_accepted() -> None:
    check_sizes({**_OF_WEIGHTS, "projected_dim": 32}, _WEIGHTS)
    check_sizes({**_OF_WEIGHTS, "encoder_layers": 2, "encoder_layers_to_keep": "1"}, _WEIGHTS)
    check_sizes({"projected_dim": 40, "projection": "max_pool"}, _WEIGHTS)  # no weight has k rows
    check_sizes({"projected_dim": 40}, {**_WEIGHTS, _E: torch.empty(40, 32)})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *((option, size + 1) for option, size in _OF_WEIGHTS.items()),
        *(("projected_dim", 33), ("projected_dim", [8, 33])),
        *(("encoder_embed_dim", value) for value in (0, -1, 8.0, True, "16")),
    ],
)
def test_a_size_beyond_the_weights_is_refused(option: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"its option {option} is "):
        check_sizes({option: value}, _WEIGHTS)
    with pytest.raises(ValueError, match=f"its option {option} is "):
        check_sizes({option: value}, {name: weight for name, weight in _WEIGHTS.items() if name != _E})


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1).expand(10**10),
        torch.empty(10**10, device="meta"),
        torch.sparse_coo_tensor(torch.tensor([[3]]), torch.ones(1), (10**10,), check_invariants=True),
    ],
    ids=["expanded", "meta", "sparse"],
)
def test_a_weight_that_is_not_in_the_file_is_refused(tensor: torch.Tensor, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    write_checkpoint(make_state(1, {"large": tensor}), path)
    said = bounded(lambda: read_checkpoint(path))
    assert str(path) in said and "large" in said


@pytest.mark.parametrize("sign", [False, True])
def test_a_compressed_checkpoint_is_refused(sign: bool, tmp_path: Path) -> None:
    plain, path = tmp_path / "plain.pt", tmp_path / "packed.pt"
    write_checkpoint(make_state(1, {"zeros": torch.zeros(10**6)}), plain)
    with zipfile.ZipFile(plain) as one, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as other:
        for name in one.namelist():
            other.writestr(name, one.read(name))
    if sign:
        _sign(path)
    with pytest.raises(ValueError, match="compressed") as caught:
        read_checkpoint(path)
    assert str(path) in str(caught.value)


def _sign(path: Path) -> None:
    """Give a zip the checksum that checkpoints have."""
    content = path.read_bytes()[:-2] + struct.pack("<H", 24 + 64) + b"linformer-fairseq sha256 "
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


# --- other formats


@pytest.mark.slow
def test_code_in_a_folder_of_transformers_is_not_run(tmp_path: Path) -> None:
    for make, read in ((huggingface, to_linformer), (exported, import_)):
        folder = tmp_path / make.__name__
        folder.mkdir()
        config = make(folder)
        flag = folder / "flag"
        names = dict.fromkeys(("AutoConfig", "AutoModel", "AutoModelForMaskedLM", "AutoTokenizer"), "modeling_x.X")
        config.write_text(json.dumps({**json.loads(config.read_text()), "auto_map": names, "trust_remote_code": True}))
        for name in ("modeling_x", "modeling_linformer", "configuration_linformer", "__init__"):
            config.with_name(f"{name}.py").write_text(code(flag))
        read(config, tmp_path / f"{make.__name__}_out")
        assert not flag.exists()


def test_objects_in_a_config_are_not_made(tmp_path: Path) -> None:
    path, flag = configs(tmp_path), tmp_path / "flag"
    path.write_text(path.read_text() + f"\nx: !!python/object/apply:builtins.open [{flag}, w]\n")
    with pytest.raises(UserError, match="python/object") as caught:
        compose("pretraining", ["task.data=x"], tmp_path)
    assert str(path) in str(caught.value) and not flag.exists()


@pytest.mark.parametrize(
    "name",
    [
        *("../model.safetensors", "/tmp/model.safetensors", "a/b.safetensors", "model.safetensors/..", ".."),
        *("passwd", "", "a\0.safetensors", 3, None),
    ],
)
def test_names_in_an_index_of_weights_stay_in_its_folder(name: object, tmp_path: Path) -> None:
    index = sharded(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(UserError, match="weight_map") as caught:
        to_linformer(index, tmp_path / "out")
    assert str(index) in str(caught.value)


@pytest.mark.parametrize("name", ["../../victim", "/victim", "a/b", "..", ".hidden", "a\0b", "", 3, ["a"]])
def test_the_name_of_a_submission_is_no_path(name: object, task_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "task"
    for part in ("input0", "label"):
        (folder / part).mkdir(parents=True)
        (folder / part / "dict.txt").write_bytes((task_data / part / "dict.txt").read_bytes())
    (folder / "manifest.json").write_text(json.dumps({"submission": name}))
    with pytest.raises(UserError) as caught:
        str(read_task(folder).submission)
    assert str(folder / "manifest.json") in str(caught.value)


@pytest.mark.parametrize("name", ["../victim", "bin/../../victim", "ABSOLUTE", "", "."])
def test_a_manifest_has_nothing_removed_elsewhere(name: str, tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.mkdir()
    with Step(out, {"program": "p"}) as step:
        (step.outputs / "file").write_text("x")
        step.finish({})
    manifest = json.loads((out / "manifest.json").read_text())
    manifest["files"][name.replace("ABSOLUTE", str(victim))] = 1
    (out / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(UserError) as caught, Step(out, {"program": "p"}, redo=True) as step:
        (step.outputs / "file").write_text("y")
        step.finish({})
    assert str(out / "manifest.json") in str(caught.value)
    assert victim.is_dir() and (out / "file").read_text() == "x"


def test_an_archive_is_no_model_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tarred(tmp_path / "model.tar.gz", {"../../escaped": b"x"})
    before = path.read_bytes()
    for place in (path, f"https://127.0.0.1:9/{path.name}"):
        with pytest.raises(FileNotFoundError, match="model.tar.gz"):
            LinformerRobertaModel.from_pretrained(place)
    assert path.read_bytes() == before
    assert [other.name for other in tmp_path.rglob("*")] == ["model.tar.gz"]


KINDS = {"link": tarfile.SYMTYPE, "hard link": tarfile.LNKTYPE, "device": tarfile.CHRTYPE, "pipe": tarfile.FIFOTYPE}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_links_in_a_tar_are_refused(kind: bytes, tmp_path: Path) -> None:
    path = tarred(tmp_path / "aclImdb.tar", REVIEWS)
    with tarfile.open(path, "a") as archive:
        member = tarfile.TarInfo("aclImdb/train/pos/9_9.txt")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(UserError, match="9_9.txt") as caught:
        list(ImdbSource(TASKS["imdb"], path, "strict").rows())
    assert str(path) in str(caught.value)


def test_names_in_archives_are_not_written_to(tmp_path: Path) -> None:
    outside = {f"../../../{name}": content for name, content in REVIEWS.items()}
    path = tarred(tmp_path / "aclImdb.tar", {**REVIEWS, **{f"/tmp/{name}x": b"" for name in REVIEWS}})
    assert len(list(ImdbSource(TASKS["imdb"], path, "strict").rows())) >= len(REVIEWS)
    assert len(list(ImdbSource(TASKS["imdb"], tarred(tmp_path / "b.tar", outside), "strict").rows())) == len(REVIEWS)
    table = "sentence\tlabel\na\t1\n"
    with zipfile.ZipFile(tmp_path / "SST-2.zip", "w") as archive:
        for name in ("train.tsv", "dev.tsv"):
            archive.writestr(f"../../SST-2/{name}", table)
    assert len(list(GlueSource(TASKS["sst2"], tmp_path / "SST-2.zip", "strict").rows())) == 2
    assert {path.name for path in tmp_path.rglob("*")} == {"aclImdb.tar", "b.tar", "SST-2.zip"}


# --- lengths that a file does not have


def _safetensors(length: int, tmp_path: Path) -> Path:
    path = huggingface(tmp_path).with_name("model.safetensors")
    path.write_bytes(struct.pack("<Q", length % 2**64) + path.read_bytes()[8:])
    return path


@pytest.mark.parametrize("length", [2**40, 2**62, 2**63, 2**63 - 1, -1, 0])
def test_a_header_of_safetensors_of_any_length(length: int, tmp_path: Path) -> None:
    path = _safetensors(length, tmp_path)
    said = bounded(lambda: to_linformer(path, tmp_path / "out"))
    assert str(path) in said


@pytest.mark.parametrize("shape", [[2**40], [2**62, 4], [2**63], [-1], [1, 2**64]])
def test_a_tensor_of_safetensors_of_any_shape(shape: list[int], tmp_path: Path) -> None:
    path = huggingface(tmp_path).with_name("model.safetensors")
    header = json.dumps({"x": {"dtype": "F32", "shape": shape, "data_offsets": [0, 8]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
    assert str(path) in bounded(lambda: to_linformer(path, tmp_path / "out"))


@pytest.mark.parametrize("items", [2**31, 2**40, 2**60, 2**63, 2**64 - 1])
def test_an_index_of_any_number_of_items(items: int, tmp_path: Path) -> None:
    write_items(tmp_path / "train", [[5, 2]])
    path = idx_of(tmp_path / "train")
    content = bytearray(path.read_bytes())
    content[18:26] = struct.pack("<Q", items)
    path.write_bytes(content)
    assert str(path) in bounded(lambda: open_dataset(tmp_path / "train").sizes.sum())


def test_a_compressed_text_of_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"x" * (1 << 26)) * 48)
    said = bounded(lambda: [list(unit.documents()) for unit in parse_source(str(path)).units])
    assert str(path) in said


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "module"), [(".bz2", bz2), (".xz", lzma)])
def test_a_few_compressed_bytes_that_make_much(
    ending: str, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "MEMORY", 2**28)
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(module.compress(bytes(2**28)))  # in one member
    said = bounded(lambda: [list(unit.documents()) for unit in parse_source(str(path)).units])
    assert str(path) in said


@pytest.mark.slow
def test_a_text_that_repeats_in_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "MEMORY", 2**28)
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(
        pyarrow.table({"text": ["x" * 900_000] * 512}), path
    )  # 460 MB, of which one row is stored
    (unit,) = parse_source(str(path)).units
    assert bounded(lambda: [len(record.text) for record in unit.documents()]) == ""
    assert bounded(lambda: [item.id for item in open_parquet(path, ["text"]).items]) == ""


@pytest.mark.parametrize(
    "text", ["[" * 10**6, '{"a":' * 10**6, "[" * 60 + "]" * 60, "9" * 5000, '"\\ud800"', '["\\udfff"]']
)
def test_json_that_nothing_could_use(text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_json_of_any_text() -> None:
    assert parse('{"a": ["\\ud83d\\ude00", "[[[[", 1e308]}') == {"a": ["😀", "[" * 4, 1e308]}
    assert parse(json.dumps([[1]] * 100)) == [[1]] * 100


def test_memory_is_bounded() -> None:
    assert "MemoryError" in bounded(lambda: io.BytesIO(bytes(3 * 2**30)))

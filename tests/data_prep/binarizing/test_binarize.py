"""Binarising, read back through fairseq's own loaders and by fairseq-train itself."""

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_prep import build_corpus
from data_prep.binarize import binarize, main
from data_prep.binarizing import inputs, parts, plan
from data_prep.tokenizers import load_tokenizer
from linformer_fairseq.files.dictionary import EOS
from linformer_fairseq.files.errors import UserError
from tests.data_prep.documents import make_documents, write
from tests.data_prep.processes import bytes_of
from tests.data_prep.small_tokenizers import make_gpt2, make_sentencepiece, text


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("tokenizers")
    return {"gpt2": make_gpt2(folder / "gpt2"), "sentencepiece": make_sentencepiece(folder / "spm")}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus folder as build_corpus leaves it: two files of training text, one of validation text, no test."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, documents, seed in (("train/00000", 40, 1), ("train/00001", 9, 2), ("valid/00000", 5, 3)):
        path = folder / f"{name}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text(documents, seed), encoding="utf-8")
    (folder / "manifest.json").write_text('{"made": "by hand"}')
    return folder


def items(prefix: Path) -> list[list[int]]:
    """Read by fairseq."""
    from fairseq.data import data_utils

    dataset = data_utils.load_indexed_dataset(str(prefix))
    assert [len(item) for item in dataset] == dataset.sizes.tolist()
    return [item.tolist() for item in dataset]


def documents(lists: list[list[int]]) -> list[tuple[tuple[int, ...], ...]]:
    """Items between separators."""
    found: list[list[tuple[int, ...]]] = [[]]
    for item in lists:
        if item == [EOS]:
            found.append([])
        else:
            found[-1].append(tuple(item))
    return [tuple(document) for document in found]


def expected_items(corpus: Path, split: str, tokenizer: Path) -> list[list[int]]:
    joined = "\n".join(path.read_text(encoding="utf-8") for path in sorted((corpus / split).iterdir()))
    encoder = load_tokenizer(tokenizer)
    return [[*encoder.encode(line).tolist(), EOS] for line in joined.removesuffix("\n").split("\n")]


@pytest.mark.parametrize("kind", ["gpt2", "sentencepiece"])
def test_a_corpus_becomes_an_item_per_line_in_order(
    corpus: Path, tokenizers: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    from fairseq.data import Dictionary

    out = tmp_path / "bin"
    manifest = binarize([corpus], tokenizers[kind], out, workers=1)
    dictionary = Dictionary.load(str(out / "dict.txt"))
    assert len(dictionary) == len(load_tokenizer(out)) == manifest["tokenizer"]["symbols"]
    for split, count in (("train", 49), ("valid", 5)):
        found = items(out / split)
        assert found == expected_items(corpus, split, tokenizers[kind])
        assert manifest["splits"][split]["documents"] == len(documents(found)) == count
        assert manifest["splits"][split]["items"] == len(found)
        assert manifest["splits"][split]["tokens"] == sum(map(len, found))
        assert manifest["splits"][split]["unknown"] == 0
    assert json.loads((out / "manifest.json").read_text()) == manifest
    assert manifest["corpus"]["manifest.json"] == {"made": "by hand"}
    assert not (out / "test.idx").exists()
    assert sorted(path.name for path in out.iterdir()) == sorted([*manifest["files"], "manifest.json"])


def test_a_line_without_tokens_does_not_end_a_document(tokenizers: dict[str, Path], tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    (corpus / "train").mkdir(parents=True)
    # The sentencepiece model leaves out U+200E, a mark of direction.
    (corpus / "train" / "0.txt").write_text("the first\n\u200e\nthe second\n\nanother\n", encoding="utf-8")
    manifest = binarize([corpus], tokenizers["sentencepiece"], tmp_path / "bin", workers=1)
    sizes = [len(item) > 1 for item in items(tmp_path / "bin" / "train")]
    assert sizes == [True, True, False, True] and manifest["splits"]["train"]["documents"] == 2


def test_a_text_without_tokens_is_named(tokenizers: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("the first\n")
    (tmp_path / "valid.txt").write_text("\u200e\n", encoding="utf-8")
    paths = [tmp_path / "train.txt", tmp_path / "valid.txt"]
    with pytest.raises(UserError, match="valid: the tokenizer makes nothing of its text"):
        binarize(paths, tokenizers["sentencepiece"], tmp_path / "bin", workers=1)
    assert not list((tmp_path / "bin").glob("*.idx"))


@pytest.mark.parametrize("kind", ["gpt2", "sentencepiece"])
@pytest.mark.parametrize("shards", [1, 2])
def test_white_space_around_a_line_is_none_of_its_tokens(
    tokenizers: dict[str, Path], tmp_path: Path, kind: str, shards: int
) -> None:
    """As in fairseq's encoders. WikiText has a blank at both ends of each line, also of those between documents."""
    lines = ["the first value", "the second value", "", "another value"] * 3
    for name, white in (("plain", "{}"), ("blanks", " {} ")):
        path = tmp_path / name / "train.txt"
        path.parent.mkdir()
        path.write_text("".join(white.format(line) + "\n" for line in lines), encoding="utf-8")
        binarize([path], tokenizers[kind], tmp_path / f"{name}.bin", workers=1, shards=shards)
    plain, blanks = (sorted((tmp_path / f"{name}.bin").rglob("train.bin")) for name in ("plain", "blanks"))
    assert len(plain) == shards
    found = [documents(items(path.with_suffix(""))) for path in blanks]
    if shards == 1:
        assert found == [documents(items(path.with_suffix(""))) for path in plain] and len(found[0]) == 4
    assert sum(map(len, found)) == 4


@pytest.mark.slow
def test_workers_do_not_change_a_byte(corpus: Path, tokenizers: dict[str, Path], tmp_path: Path) -> None:
    for workers in (1, 2, 3):
        binarize([corpus], tokenizers["gpt2"], tmp_path / str(workers), workers=workers, shards=2)
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "2") == bytes_of(tmp_path / "3")


@pytest.mark.parametrize("shards", [1, 2])
def test_a_padded_vocabulary_changes_the_dictionary_alone(
    corpus: Path, tokenizers: dict[str, Path], shards: int, tmp_path: Path
) -> None:
    from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

    binarize([corpus], tokenizers["gpt2"], tmp_path / "plain", shards=shards)
    manifest = binarize([corpus], tokenizers["gpt2"], tmp_path / "padded", shards=shards, pad_vocabulary=True)
    assert manifest["pad_vocabulary"]
    plain, padded = bytes_of(tmp_path / "plain"), bytes_of(tmp_path / "padded")
    changed = {name for name in plain if plain[name] != padded[name]}
    folders = ["", "0/", "1/"] if shards == 2 else [""]
    assert changed == {"manifest.json", *(f"{folder}dict.txt" for folder in folders)} and plain.keys() == padded.keys()
    tasks = {
        name: MaskedLMTask.setup_task(MaskedLMConfig(data=str(tmp_path / name), seed=1)) for name in ("plain", "padded")
    }
    assert tasks["padded"].mask_idx == tasks["plain"].mask_idx == len(tasks["plain"].source_dictionary) - 1
    assert len(tasks["padded"].source_dictionary) % 8 == 0 != len(tasks["plain"].source_dictionary) % 8


def test_blocks_of_fairseqs_task_keep_to_a_document(corpus: Path, tokenizers: dict[str, Path], tmp_path: Path) -> None:
    from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

    binarize([corpus], tokenizers["gpt2"], tmp_path / "bin", workers=1)
    config = MaskedLMConfig(
        data=str(tmp_path / "bin"), tokens_per_sample=512, sample_break_mode="complete_doc", mask_prob=1e-9, seed=1
    )
    task = MaskedLMTask.setup_task(config)
    task.load_dataset("train")
    blocks = {tuple(row["net_input.src_tokens"].tolist()[1:]) for row in task.dataset("train")}
    whole = [sum(document, ()) for document in documents(items(tmp_path / "bin" / "train"))]
    short = {document for document in whole if len(document) < 512}
    assert len(short) > 20 and short <= blocks


def test_shards_hold_every_document_once(corpus: Path, tokenizers: dict[str, Path], tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "bin"
    binarize([corpus], tokenizers["gpt2"], whole, workers=1)
    manifest = binarize([corpus], tokenizers["gpt2"], out, workers=1, shards=3)
    shards = [documents(items(out / str(shard) / "train")) for shard in range(3)]
    assert sorted(document for shard in shards for document in shard) == sorted(documents(items(whole / "train")))
    sizes = [count["text_bytes"] for count in manifest["splits"]["train"]["shards"].values()]
    assert max(sizes) < 1.25 * min(sizes)
    assert manifest["splits"]["train"]["documents"] == 49
    for shard in range(3):
        folder = out / str(shard)
        assert items(folder / "valid") == items(whole / "valid")
        assert (folder / "valid.bin").samefile(out / "0" / "valid.bin")
        for name in ("dict.txt", "encoder.json", "vocab.bpe"):
            assert (folder / name).read_bytes() == (out / name).read_bytes() == (whole / name).read_bytes()


def test_shards_on_a_file_system_without_hard_links(
    corpus: Path, tokenizers: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = []

    def link(source: Path, target: Path) -> None:
        refused.append(target.name)
        raise OSError(errno.EPERM, "Operation not permitted")

    binarize([corpus], tokenizers["gpt2"], tmp_path / "linked", workers=1, shards=2)
    monkeypatch.setattr(os, "link", link)
    binarize([corpus], tokenizers["gpt2"], tmp_path / "copied", workers=1, shards=2)
    assert {"valid.bin", "valid.idx"} <= set(refused)
    assert not (tmp_path / "copied/1/valid.bin").samefile(tmp_path / "copied/0/valid.bin")
    assert bytes_of(tmp_path / "copied") == bytes_of(tmp_path / "linked")


def test_line_ends_do_not_matter_for_shards(tokenizers: dict[str, Path], tmp_path: Path) -> None:
    """Of files with as many \\r in each document: the rest of the choice of a shard is a matter of bytes."""
    lines = [f"{number:03} the value is a list" for number in range(120)]
    content = "\n\n".join("\n".join(lines[first : first + 3]) for first in range(0, 120, 3)) + "\n"
    found = {}
    for name, end in (("lf", "\n"), ("crlf", "\r\n")):
        path = tmp_path / name / "train.txt"
        path.parent.mkdir()
        path.write_bytes(content.replace("\n", end).encode())
        binarize([path], tokenizers["gpt2"], tmp_path / f"{name}.bin", workers=1, shards=2)
        found[name] = bytes_of(tmp_path / f"{name}.bin")
        del found[name]["manifest.json"]  # it tells the bytes of the text
    assert found["lf"] == found["crlf"]
    shards = [documents(items(tmp_path / "crlf.bin" / str(shard) / "train")) for shard in range(2)]
    assert [len(shard) for shard in shards] == [20, 20]


@pytest.mark.slow
def test_fairseq_train_reads_a_shard_per_epoch(
    corpus: Path,
    tokenizers: dict[str, Path],
    tiny_settings: dict[str, Any],
    train: Callable[..., str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "bin"
    main([str(corpus), "--tokenizer", str(tokenizers["gpt2"]), "--out", str(out), "--workers", "1", "--shards", "2"])
    argument = re.search(r"data for fairseq-train: (\S+)", capsys.readouterr().out)
    assert argument and argument[1] == f"{out}/0:{out}/1"
    settings = {**tiny_settings, "task.data": argument[1], "optimization.max_epoch": 2, "checkpoint.no_save": True}
    settings["task.sample_break_mode"] = "none"  # paragraphs may be longer than a row
    output = train("fairseq-train", settings, tmp_path / "run")
    loaded = re.findall(r"loaded ([\d,]+) examples from: (\S+)/train\b", output)
    found = [(Path(folder).name, int(count.replace(",", ""))) for count, folder in loaded]
    numbers = {str(shard): len(items(out / str(shard) / "train")) for shard in range(2)}
    # After its last epoch fairseq gets the next one ready, too.
    assert found == [(shard, numbers[shard]) for shard in ("0", "1", "0")]
    assert numbers["0"] != numbers["1"]


def test_a_corpus_that_is_not_whole_is_refused(tokenizers: dict[str, Path], tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", make_documents(200))
    build_corpus.main(["--out", str(tmp_path / "corpus"), "--valid-share", "0.2", str(source)])
    (valid,) = (tmp_path / "corpus" / "valid").iterdir()
    content = valid.read_bytes()
    for damage in (valid.unlink, lambda: valid.write_bytes(content[:-50])):
        damage()
        with pytest.raises(UserError, match=f"{valid}: is missing or has changed"):
            binarize([tmp_path / "corpus"], tokenizers["gpt2"], tmp_path / "bin")
    (tmp_path / "corpus" / "manifest.json").unlink()  # as the message says, for text that is to be so
    binarize([tmp_path / "corpus"], tokenizers["gpt2"], tmp_path / "bin")


def test_a_split_that_cannot_be_read_is_an_error(
    corpus: Path, tokenizers: dict[str, Path], tmp_path: Path, unreadable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(corpus, tmp_path / "corpus")
    unreadable.rename(tmp_path / "corpus" / unreadable.name)
    monkeypatch.setattr(inputs, "NAMES", ("train", "valid", unreadable.name))
    with pytest.raises(PermissionError):
        binarize([tmp_path / "corpus"], tokenizers["gpt2"], tmp_path / "bin")


def test_files_are_splits_called_by_their_names(tokenizers: dict[str, Path], tmp_path: Path) -> None:
    """With a byte order mark, \\r\\n, an empty last line, and no \\n at the end."""
    (tmp_path / "train.txt").write_bytes("\ufeffa list\r\nnaïve\r\n\r\nx\r\n".encode())
    (tmp_path / "held out.txt").write_bytes(b"the value\n\n")
    (tmp_path / "third.txt").write_bytes(b"the value")
    files = [tmp_path / name for name in ("train.txt", "held out.txt", "third.txt")]
    binarize(files, tokenizers["gpt2"] / "dict.txt", tmp_path / "bin", workers=1)
    decode = load_tokenizer(tokenizers["gpt2"]).decode
    read = {path.stem: [decode(item) for item in items(tmp_path / "bin" / path.stem)] for path in files}
    assert read == {"train": ["a list", "naïve", "", "x"], "held out": ["the value", ""], "third": ["the value"]}


@pytest.mark.parametrize(
    ("name", "said"), [("train", "data for fairseq-train: "), ("book", "no split is called train")]
)
def test_what_fairseq_train_takes_is_said(
    tokenizers: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    path = tmp_path / f"{name}.txt"
    path.write_text("the value\n")
    main([str(path), "--tokenizer", str(tokenizers["gpt2"]), "--out", str(tmp_path / "bin"), "--workers", "1"])
    assert capsys.readouterr().out.splitlines()[-1].startswith(said)


def test_much_unknown_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = make_sentencepiece(tmp_path / "tokenizer", byte_fallback=False)
    path = tmp_path / "train.txt"
    path.write_text("the value ☃ is ☃\n" * 9, encoding="utf-8")
    main([str(path), "--tokenizer", str(tokenizer), "--out", str(tmp_path / "bin"), "--workers", "1"])
    unknown = sum(item.count(3) for item in items(tmp_path / "bin" / "train"))
    assert unknown == 18
    assert re.search(r"warning: \d+\.\d% of the train tokens are <unk>", capsys.readouterr().out)


def test_what_cannot_be_binarised_is_refused(tokenizers: dict[str, Path], tmp_path: Path) -> None:
    def refusal(*paths: Path, **options: Any) -> str:
        with pytest.raises(UserError) as caught:
            binarize(list(paths), tokenizers["gpt2"], tmp_path / "bin", **{"workers": 1, **options})
        assert not list((tmp_path / "bin").rglob("*.bin"))
        return str(caught.value)

    good = tmp_path / "train.txt"
    good.write_text("a\n\nb\n\nc\n")
    assert "no such file" in refusal(tmp_path / "absent.txt")
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(good, tmp_path / "pipe")
    (tmp_path / "train.jsonl").write_text('{"text": "a"}')
    assert "linformer data corpus --out DIR" in refusal(tmp_path / "train.jsonl")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "train.txt").write_text("d\n")
    assert "not distinct: train, train" in refusal(good, tmp_path / "other" / "train.txt")
    (tmp_path / "blank.txt").write_text("\n \n\n")
    assert f"{tmp_path}/blank.txt: there is no text in it (4 bytes)" in refusal(good, tmp_path / "blank.txt")
    assert "expected one corpus folder alone" in refusal(good, tmp_path)
    assert "no train/*.txt" in refusal(tmp_path)
    corpus = tmp_path / "corpus"
    (corpus / "train").mkdir(parents=True)
    (corpus / "train" / "00000.jsonl").write_text("{}")
    assert "00000.jsonl: expected nothing but .txt files" in refusal(corpus)
    for shards in (0, 1_000_000):
        assert f"--shards {shards}: expected 1 to 1,000" in refusal(good, shards=shards)
    assert "--workers 0" in refusal(good, workers=0)
    assert "--shards 4: the train text has too few documents" in refusal(good, shards=4)


def test_plan_mixes_sources_into_every_shard(corpus: Path) -> None:
    jobs = plan.make_plan(inputs.find_inputs([corpus]).splits, 2)
    for shard in ("0/train", "1/train"):
        assert {job.part.path.name for job in jobs if job.dataset == shard} == {"00000.txt", "00001.txt"}
    assert {job.dataset for job in jobs} == {"0/train", "1/train", "0/valid"}


def test_a_long_document_stays_in_one_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "DOCUMENT_SEARCH", 100)
    monkeypatch.setattr(parts, "_BLOCK", 64)
    path = tmp_path / "train.txt"
    path.write_bytes(b"first\n\n" + b"line\n" * 1_000 + b"\n" + b"\n".join(b"other\n" * 9 for _ in range(90)))
    jobs = plan.make_plan({"train": (path,)}, 2)
    owner = ""
    for job in jobs:
        if job.part.continues:
            assert job.dataset == owner
        owner = job.dataset
    assert sum(job.part.continues for job in jobs) > 10 and {job.dataset for job in jobs} == {"0/train", "1/train"}

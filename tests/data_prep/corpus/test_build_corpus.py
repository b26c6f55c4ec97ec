"""Sources to a corpus: cleaned, nothing twice, split by each document's own text, all accounted for."""

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_prep import build_corpus
from data_prep.corpus import run as corpus_run
from data_prep.corpus import text_shards
from data_prep.corpus.text_shards import shard_files
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import read_object
from linformer_fairseq.files.progress import Progress
from tests.data_prep.documents import make_documents, read_documents, write
from tests.data_prep.processes import bytes_of
from tests.messages import says


def documents_of(corpus: Path, split: str) -> list[str]:
    return [document for path in shard_files(corpus / split) for document in read_documents(path)]


def run(out: Path, *words: object) -> dict[str, Any]:
    build_corpus.main(["--out", str(out), "--workers", "1", *map(str, words)])
    return read_object(out / "manifest.json")


@pytest.fixture(scope="module")
def documents() -> list[str]:
    return make_documents(900)


def test_every_document_is_in_one_split_in_order(documents: list[str], tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", documents)
    manifest = run(tmp_path / "out", source, "--valid-share", 0.1, "--test-share", 0.05)
    splits = {name: documents_of(tmp_path / "out", name) for name in ("train", "valid", "test")}
    assert sorted(text for found in splits.values() for text in found) == sorted(documents)
    for name, found in splits.items():
        assert found == [document for document in documents if document in set(found)]  # order kept
        count = manifest["splits"][name]
        assert count["documents"] == len(found)
        assert count["paragraphs"] == sum(document.count("\n") + 1 for document in found)
        assert count["words"] == sum(len(document.split()) for document in found)
        assert count["bytes"] == sum(path.stat().st_size for path in shard_files(tmp_path / "out" / name))
    assert 60 <= len(splits["valid"]) <= 120 and 25 <= len(splits["test"]) <= 65


def test_the_split_depends_on_a_documents_own_text_alone(documents: list[str], tmp_path: Path) -> None:
    run(tmp_path / "all", write(tmp_path / "a.txt", documents), "--valid-share", 0.1)
    fewer = random.Random(1).sample(documents, 500)
    run(tmp_path / "fewer", write(tmp_path / "b.txt", fewer), "--valid-share", 0.1)
    run(tmp_path / "more", write(tmp_path / "c.txt", fewer), "--valid-share", 0.2)
    valid = set(documents_of(tmp_path / "all", "valid"))
    assert set(documents_of(tmp_path / "fewer", "valid")) == valid & set(fewer)
    assert set(documents_of(tmp_path / "more", "valid")) > valid & set(fewer)


def test_what_was_counted_is_printed_beside_the_papers_figures(
    documents: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    odd = write(tmp_path / "a.txt", [*documents, documents[0], "x"])
    manifest = run(tmp_path / "out", odd, "--min-characters", 5)
    lines = capsys.readouterr().out.splitlines()
    train, paper, source = (
        next(line for line in lines if line.startswith(name)) for name in ("train", "the paper", str(tmp_path))
    )
    count = manifest["splits"]["train"]
    numbers = [f"{count[key]:,}" for key in ("documents", "paragraphs", "words")]
    assert train.split() == ["train", *numbers, f"{count['bytes'] / 1e6:.1f}"]
    words = sum(split["words"] for split in manifest["splits"].values())
    assert paper.split()[2:] == ["3,300,000,000", "16,000.0", *f"here: {words / 33e6:.2g} % of its words".split()]
    assert says(source, odd, "902 documents", "1 duplicate", "1 too short")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
def test_workers_do_not_change_a_byte(documents: list[str], tmp_path: Path, workers: int) -> None:
    source = write(tmp_path / "a.txt", [*documents, *documents[:50], *make_documents(9000, seed=3)])
    run(tmp_path / "one", source)
    build_corpus.main(["--out", str(tmp_path / "many"), "--workers", str(workers), str(source)])
    assert bytes_of(tmp_path / "one") == bytes_of(tmp_path / "many")


def test_a_document_stays_where_it_occurs_first(documents: list[str], tmp_path: Path) -> None:
    first = write(tmp_path / "a.txt", [*documents[:400], documents[3], documents[5]])
    second = write(tmp_path / "b.txt", [documents[7], *documents[400:]])
    manifest = run(tmp_path / "out", first, second)
    found = documents_of(tmp_path / "out", "train") + documents_of(tmp_path / "out", "valid")
    assert len(found) == 900 and set(found) == set(documents)
    assert [source["duplicates"] for source in manifest["sources"]] == [2, 1]
    assert manifest["totals"] == {"documents": 903, "duplicates": 3}
    kept = run(tmp_path / "kept", first, second, "--deduplicate", "none")
    assert sum(count["documents"] for count in kept["splits"].values()) == 903


def test_paragraphs_are_compared_where_asked(documents: list[str], tmp_path: Path) -> None:
    again = "\n".join([documents[0].split("\n")[0], "a paragraph of its own", "a paragraph of its own"])
    source = write(tmp_path / "a.txt", [*documents, again, documents[1]])
    manifest = run(tmp_path / "out", source, "--deduplicate", "paragraphs")
    lines = [
        line
        for name in ("train", "valid")
        for text in documents_of(tmp_path / "out", name)
        for line in text.split("\n")
    ]
    assert len(lines) == len(set(lines)) and lines.count("a paragraph of its own") == 1
    assert manifest["totals"]["duplicate_paragraphs"] == 2 and manifest["totals"]["duplicates"] == 1


@pytest.mark.parametrize("weight", [0.1, 0.3, 1.0, 2.0, 2.5])
def test_weights_repeat_or_thin_out_train_alone(documents: list[str], tmp_path: Path, weight: float) -> None:
    weighted, plain = documents[:450], documents[450:]
    sources = (f"{write(tmp_path / 'a.txt', weighted)},weight={weight}", write(tmp_path / "b.txt", plain))
    run(tmp_path / "out", *sources, "--valid-share", 0.1)
    train = documents_of(tmp_path / "out", "train")
    counts = [train.count(document) for document in weighted]
    held_out = documents_of(tmp_path / "out", "valid")
    assert sum(counts) / sum(document not in held_out for document in weighted) == pytest.approx(weight, abs=0.07)
    assert max(counts) - min(c for c, d in zip(counts, weighted, strict=True) if d not in held_out) <= 1
    assert all(train.count(document) == 1 for document in plain if document not in held_out)
    assert len(held_out) == len(set(held_out))
    if weight > 1:  # copies are far apart: a block of training text never holds a document twice
        twice = next(document for document in weighted if train.count(document) > 1)
        assert train.index(twice, train.index(twice) + 1) - train.index(twice) > 300


def test_progress_counts_what_is_read_again(
    documents: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    amounts: list[tuple[int | None, int]] = []

    class Counted(Progress):
        def __exit__(self, *error: Any) -> None:
            amounts.append((self._total, self._done))
            super().__exit__(*error)

    monkeypatch.setattr(corpus_run, "Progress", Counted)
    paths = [write(tmp_path / "a.txt", documents[:300]), write(tmp_path / "b.txt", documents[300:])]
    run(tmp_path / "out", f"{paths[0]},weight=2.5", f"{paths[1]},weight=0.5")
    size = 3 * paths[0].stat().st_size + paths[1].stat().st_size
    assert amounts == [(size, size)]


def test_shards_begin_with_documents(documents: list[str], tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", documents)
    run(tmp_path / "whole", source)
    run(tmp_path / "cut", source, "--shard-bytes", 10_000)
    files = shard_files(tmp_path / "cut" / "train")
    assert len(files) > 5 and [path.name for path in files[:2]] == ["00000.txt", "00001.txt"]
    assert all(10_000 <= path.stat().st_size < 12_000 for path in files[:-1])
    assert documents_of(tmp_path / "cut", "train") == documents_of(tmp_path / "whole", "train")
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text.endswith("\n") and not text.endswith("\n\n") and "\n\n\n" not in text and text[0] != "\n"


@pytest.mark.parametrize("count", [2, 3, 5])
def test_a_small_corpus_still_has_something_to_validate_on(tmp_path: Path, count: int) -> None:
    for seed in range(8):
        documents = [f"document {seed} {number}\n" + "words " * 2000 for number in range(count)]
        out = tmp_path / f"out{seed}"
        run(out, write(tmp_path / "a.txt", documents), "--valid-share", 0.001)
        assert len(documents_of(out, "valid")) == 1 and len(documents_of(out, "train")) == count - 1


def test_cleaning_can_be_switched_off(documents: list[str], tmp_path: Path) -> None:
    odd = ["tab\there, no\u00a0break,  two  blanks \x07bell\x85next", "\x07", "   \n\u3000", "\ufeffmark", "x"]
    source = write(tmp_path / "a.txt", [*documents, *odd])

    def last(out: str, *options: object) -> tuple[list[str], dict[str, int]]:
        manifest = run(tmp_path / out, source, "--deduplicate", "none", *options)
        found = {text for name in ("train", "valid") for text in documents_of(tmp_path / out, name)}
        return sorted(found - set(documents)), manifest["totals"]

    assert last("clean") == (
        ["mark", "tab here, no break, two blanks bell next", "x"],
        {"documents": 904, "empty": 1},
    )
    assert last("control", "--no-clean-whitespace")[0] == [
        " mark",
        "tab\there, no\u00a0break,  two  blanks  bell next",
        "x",
    ]
    kept = ["\x07", "tab here, no break, two blanks \x07bell next", "x", "\ufeffmark"]
    assert last("space", "--no-clean-control")[0] == kept
    texts, totals = last("short", "--min-characters", 5)
    assert "x" not in texts and totals["short"] == 2


def test_zero_characters_of_json_are_replaced_or_named(documents: list[str], tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*documents, "a\0b"]))
    run(tmp_path / "clean", source)
    assert "a b" in {text for name in ("train", "valid") for text in documents_of(tmp_path / "clean", name)}
    with pytest.raises(
        UserError, match=f"a.jsonl, line {len(documents) + 1}: has a zero character.*--no-clean-control"
    ):
        run(tmp_path / "kept", source, "--no-clean-control")


def test_what_the_weight_leaves_out_may_come_from_another_source(documents: list[str], tmp_path: Path) -> None:
    first, second = write(tmp_path / "a.txt", documents), write(tmp_path / "b.txt", documents)
    run(tmp_path / "alone", second)
    manifest = run(tmp_path / "both", f"{first},weight=0.1", second)
    assert set(documents_of(tmp_path / "both", "train")) == set(documents_of(tmp_path / "alone", "train"))
    thinned, other = manifest["sources"]
    assert thinned["left_out_by_weight"] > 700
    assert other["duplicates"] == 900 - thinned["left_out_by_weight"]


def test_duplicates_at_the_same_place_of_two_files(documents: list[str], tmp_path: Path) -> None:
    sources = [write(tmp_path / name, documents) for name in ("a.txt", "b.txt")]
    assert run(tmp_path / "out", *sources)["totals"] == {"documents": 1800, "duplicates": 900}


def test_empty_records_do_not_make_a_block_that_never_ends(
    documents: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.dumps({"text": text}) for text in [*documents, *[""] * 20_000]]
    (tmp_path / "a.jsonl").write_text("\n".join(lines) + "\n")
    prepare, longest = corpus_run._prepare, 0

    def measured(block: tuple[object, list[object]], options: object) -> object:
        nonlocal longest
        longest = max(longest, len(block[1]))
        return prepare(block, options)  # type: ignore[arg-type]

    monkeypatch.setattr(corpus_run, "_prepare", measured)
    assert run(tmp_path / "out", tmp_path / "a.jsonl")["totals"] == {"documents": 20_900, "empty": 20_000}
    assert 900 < longest < 10_000


def test_what_is_written_is_not_read(documents: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    write(folder / "a.txt", documents)
    globs = [f"{folder}/{pattern}" for pattern in ("**/*.txt", "**", "*", "[!b]*")] + [f"{tmp_path}/s*"]
    for source in (folder, f"{folder},weight=2", *globs, f"{globs[0]},weight=2"):
        assert "reads what is in there" in _error(folder / "out", source)
    assert not (folder / "out").exists()
    for _ in range(2):  # this does not read it, also when it is there
        run(folder / "out", folder / "*.txt")


def test_a_corpus_is_no_source_but_its_texts_are(documents: list[str], tmp_path: Path) -> None:
    corpus = tmp_path / "corpora" / "first"
    run(corpus, write(tmp_path / "a.txt", documents))
    for source in (corpus, corpus.parent, corpus / "*", f"{corpus},format=text"):
        assert says(_error(tmp_path / "again", source), corpus, "manifest.json", f"{corpus}/**/*.txt")
    run(tmp_path / "again", corpus / "**" / "*.txt")
    (corpus / "manifest.json").write_text("[]")  # of another program
    assert "manifest.json, line 1: expected a JSON object" in _error(tmp_path / "other", corpus)


def test_too_small_shards_are_refused(documents: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_shards, "_MOST", 10)
    with pytest.raises(UserError, match="--shard-bytes 100: makes more than 10 files"):
        run(tmp_path / "out", write(tmp_path / "a.txt", documents), "--shard-bytes", 100)


def test_the_manifest_says_where_everything_came_from(documents: list[str], tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", [*documents, documents[0]])
    manifest = run(tmp_path / "out", f"{source},weight=0.5,license=cc0-1.0", "--valid-share", 0.2)
    (described,) = manifest["sources"]
    assert described["units"][0]["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert described["weight"] == 0.5 and described["name"] == f"{source},weight=0.5,license=cc0-1.0"
    assert described["license"] == "cc0-1.0"
    assert manifest["options"]["shares"] == {"valid": 0.2, "test": 0.0}
    written = sum(count["documents"] for count in manifest["splits"].values())
    assert written + described["duplicates"] + described["left_out_by_weight"] == described["documents"] == 901


@pytest.mark.parametrize("mode", ["documents", "paragraphs", "none"])
def test_no_document_is_in_two_splits(documents: list[str], tmp_path: Path, mode: str) -> None:
    """Also where documents are repeated, as they are, in another order and with other blanks, by two sources."""
    again = [document.replace(" ", "  ") for document in random.Random(2).sample(documents, 600)]
    sources = [f"{write(tmp_path / 'a.txt', documents)},weight=2", write(tmp_path / "b.txt", again)]
    run(tmp_path / "out", *sources, "--deduplicate", mode, "--valid-share", 0.2, "--test-share", 0.2)
    train, valid, test = (set(documents_of(tmp_path / "out", name)) for name in ("train", "valid", "test"))
    assert valid and test and train | valid | test == set(documents)
    assert not (train & valid or train & test or valid & test)


def test_invalid_utf8_is_an_error_or_replaced(documents: list[str], tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", documents)
    source.write_bytes(source.read_bytes() + b"\nb\xe9te\n")
    assert f"byte 0xe9 at offset {source.stat().st_size - 4:,}" in _error(tmp_path / "out", source)
    manifest = run(tmp_path / "out", source, "--errors", "replace")  # the same folder: nothing was written to it
    assert manifest["totals"]["replaced"] == 1
    assert "b\ufffdte" in documents_of(tmp_path / "out", "train") + documents_of(tmp_path / "out", "valid")


def test_what_was_finished_before_bytes_are_replaced_is_kept(
    documents: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "a.txt", documents)
    strict = run(tmp_path / "out", source)
    assert run(tmp_path / "out", source, "--errors", "replace") == strict
    bad = tmp_path / "b.txt"
    bad.write_bytes(source.read_bytes() + b"\nb\xe9te\n")
    _error(tmp_path / "two", source, bad)
    capsys.readouterr()
    found = run(tmp_path / "two", source, bad, "--errors", "replace")
    assert found["totals"]["replaced"] == 1
    assert "afresh" not in capsys.readouterr().out


def _error(out: Path, *words: object) -> str:
    with pytest.raises(UserError) as caught:
        run(out, *words)
    assert not {path.name for path in out.glob("*")} - {".unfinished"}
    return str(caught.value)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, "no such file"),
        (b"", "empty"),
        (b" \n\n", "nothing but blank lines"),
        (b"short\n\ntext\n", "too little text: 11 bytes"),
        (b"one block " * 4000, "no document fell to valid, of 1"),
        (b"a\n\n" + b"x" * 1_000_001, "1,000,001 characters without white space"),
        (b"\x00\x01\x02binary", "a zero byte"),
    ],
)
def test_bad_text_is_refused_and_the_same_command_works_once_mended(
    documents: list[str], tmp_path: Path, content: bytes | None, expected: str
) -> None:
    path = tmp_path / "in put.txt"
    if content is not None:
        path.write_bytes(content)
    assert expected in _error(tmp_path / "out", path)
    run(tmp_path / "out", write(path, documents))
    assert len(documents_of(tmp_path / "out", "train")) > 800


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--valid-share", 1.5), "--valid-share 1.5"),
        (("--valid-share", 0.6, "--test-share", 0.5), "leave nothing to train on"),
        (("--workers", 0), "--workers 0"),
    ],
)
def test_bad_options_are_refused(
    documents: list[str], tmp_path: Path, words: tuple[object, ...], expected: str
) -> None:
    assert expected in _error(tmp_path / "out", write(tmp_path / "a.txt", documents), *words)


@pytest.mark.slow
def test_a_document_of_50_mb_on_one_line(tmp_path: Path) -> None:
    source = tmp_path / "long.txt"
    source.write_bytes(b"other text\n\n" + b"word " * 10_000_000 + b"\n")
    assert "long.txt, line 3" in _error(tmp_path / "out", source)
    manifest = run(tmp_path / "out", source, "--max-document-bytes", 64 << 20, "--valid-share", 0.5)
    assert manifest["totals"] == {"documents": 2}


def test_finished_is_finished(documents: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write(tmp_path / "a.txt", documents)
    first = run(tmp_path / "out", source)
    monkeypatch.setattr(build_corpus, "Run", None)  # nothing is read again
    assert run(tmp_path / "out", source) == first
    with pytest.raises(UserError, match="other inputs or options"):
        run(tmp_path / "out", source, "--valid-share", 0.3)
    (tmp_path / "out" / "train" / "00000.txt").write_text("cut")
    with pytest.raises(UserError, match="has changed since it was written"):
        run(tmp_path / "out", source)


# With the smaller share nothing falls to valid at first, and the corpus is made a second time.
@pytest.mark.slow
@pytest.mark.parametrize(("share", "last"), [(0.1, 400), (0.0001, 800)])
def test_one_place_of_stopping_is_as_good_as_another(
    documents: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, last: int
) -> None:
    """Killed after each document in turn, with everything saved so far or not."""
    few = [*documents[:120], documents[4]]
    sources = (f"{write(tmp_path / 'a.txt', few)},weight=1.5", write(tmp_path / "b.txt", documents[100:200]))
    options = ("--valid-share", share, "--shard-bytes", 3000)
    run(tmp_path / "whole", *sources, *options)
    take: Callable[..., int] = corpus_run.Run._take
    monkeypatch.setattr(corpus_run, "_BLOCK_CHARACTERS", 500)
    monkeypatch.setattr(corpus_run, "_SAVE_CHARACTERS", 3000)
    for limit in range(1, last, last // 12):
        taken = 0

        def stop(self: corpus_run.Run, place: object, document: object, limit: int = limit) -> int:
            nonlocal taken
            taken += 1
            if taken == limit:
                raise KeyboardInterrupt
            return take(self, place, document)

        monkeypatch.setattr(corpus_run.Run, "_take", stop)
        try:
            run(tmp_path / f"out{limit}", *sources, *options)
        except KeyboardInterrupt:
            monkeypatch.setattr(corpus_run.Run, "_take", take)
            run(tmp_path / f"out{limit}", *sources, *options)
        assert bytes_of(tmp_path / f"out{limit}") == bytes_of(tmp_path / "whole")

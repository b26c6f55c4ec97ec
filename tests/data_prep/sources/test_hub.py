"""Data sets of the hub, through `datasets` and `huggingface_hub` as they are, from a server on localhost.

Both libraries take their endpoint from the environment when they are imported and take seconds for that, so each
program below is one subprocess that tries many sources.
"""

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from data_prep.sources.hub import _joined
from data_prep.sources.lines import Limits
from data_prep.sources.source import Record
from linformer_fairseq.files.errors import UserError
from tests.data_prep.hub_server import HubServer, closed_port_endpoint, hub_environment, parquet_bytes

pytest.importorskip("datasets")

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).resolve().parents[3]
WIKIPEDIA = "datasets/wikimedia/wikipedia@b04c8d1ceb2f5cd4588862100d08de323dccfbaa"
BOOKS = "datasets/bookcorpus/bookcorpus@refs/convert/parquet"
ARTICLES = [f"Article {n}.\n\nSecond naïve paragraph." for n in range(2500)]
SENTENCES = [f"sentence {n} ." for n in range(1000)]

_CARD = "---\nlicense:\n- cc-by-sa-3.0\n- gfdl\nconfigs:\n" + "".join(
    f"- config_name: 20231101.{language}\n  data_files:\n  - split: train\n    path: 20231101.{language}/*\n"
    for language in ("de", "en")
)
_WIKIPEDIA_FILES = {
    "README.md": (_CARD + "---\n").encode(),
    "20231101.de/train-00000-of-00001.parquet": parquet_bytes({"text": ["Ein Artikel."]}),
    "20231101.en/train-00000-of-00002.parquet": parquet_bytes({"id": [*"ab"] * 1000, "text": ARTICLES[:2000]}, 300),
    "20231101.en/train-00001-of-00002.parquet": parquet_bytes({"id": [*"ab"] * 250, "text": ARTICLES[2000:]}),
}
_REPOSITORIES = {
    WIKIPEDIA: _WIKIPEDIA_FILES,
    "datasets/bookcorpus/bookcorpus": {"README.md": b"", "bookcorpus.py": b"a loading script, which nobody runs"},
    BOOKS: {
        "plain_text/train/0000.parquet": parquet_bytes({"text": SENTENCES}),
        "other/train/0000.parquet": parquet_bytes({"text": ["of another config"]}),
    },
    "datasets/me/records": {
        "train.jsonl": b'{"body": "one"}\n{"body": "two"}\n',
        "test.jsonl": b'{"body": "three"}\n',
    },
    "datasets/me/broken": {"train.parquet": parquet_bytes({"text": SENTENCES})[:-50]},
    "datasets/me/text": {"train.txt": b"First line.\nsecond line.\n\n \nNext document.\n\nThird.\n"},
    "datasets/me/script": {"README.md": b"", "script.py": b"a loading script, which nobody runs"},
    "datasets/me/bad": {"train.jsonl": b'{"text": "one"}\n{"text": \n'},
    "datasets/me/nulls": {"train.parquet": parquet_bytes({"text": ["a", None]})},
}

_PROGRAM = """
import json, sys
from linformer_fairseq.files.errors import UserError
from data_prep.sources import parse_source
for spec, skip in json.loads(sys.argv[1]):
    result = {"units": [], "said": ""}
    try:
        for unit in parse_source(spec).units:
            records = [list(record) for record in unit.documents(skip=skip)]
            found = {"name": unit.name, "records": records, "size": unit.size, "position": unit.position()}
            result["units"].append({**found, "identity": unit.identity(), "provenance": unit.provenance()})
    except UserError as error:
        result["said"] = str(error)
    print(json.dumps(result))
"""


def run(environment: dict[str, str], *sources: tuple[str, int]) -> dict[tuple[str, int], Any]:
    """What reading each (source, documents to skip) gives: its units, or what the error says."""
    command = [sys.executable, "-c", _PROGRAM, json.dumps(sources)]
    done = subprocess.run(command, env=environment, cwd=REPOSITORY, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(zip(sources, map(json.loads, done.stdout.splitlines()), strict=True))


ASKED = (
    ("hub:wikipedia", 0),
    ("hub:wikipedia", 1999),
    ("hub:wikimedia/wikipedia,revision=b04c8d1ceb2f5cd4588862100d08de323dccfbaa,config=20231101.de", 0),
    ("hub:bookcorpus", 0),
    ("hub:bookcorpus", 15),
    ("hub:bookcorpus,group=3,lines=join,weight=2", 0),
    ("hub:me/records,field=body", 1),
    ("hub:me/records,field=body,split=test", 0),
    ("hub:me/records", 0),
    ("hub:me/records,split=dev", 0),
    ("hub:me/broken", 0),
    ("hub:me/nulls", 0),
    ("hub:me/text", 0),
    ("hub:me/text", 2),
    ("hub:me/bad", 0),
    ("hub:me/script", 0),
    ("hub:nobody/nothing", 0),
    ("hub:wikipedia,revision=v9", 0),
    ("hub:wikipedia,config=20231101.xx", 0),
    ("hub:wikipedia,format=text", 0),
    ("hub:wiki", 0),
)


@pytest.fixture(scope="module")
def hub() -> Iterator[HubServer]:
    with HubServer(_REPOSITORIES) as server:
        yield server


@pytest.fixture(scope="module")
def read(hub: HubServer, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Any]:
    """Everything asked for above, read in one process."""
    caches = tmp_path_factory.mktemp("caches")
    found = run(hub.environment(caches), *ASKED)
    assert any(caches.iterdir())  # HF_HOME is where the libraries keep what they keep
    return found


def texts(result: Any) -> list[list[str]]:
    return [[record[0] for record in unit["records"]] for unit in result["units"]]


def test_wikipedia_is_read_file_by_file_from_the_pinned_commit(read: Any) -> None:
    result = read["hub:wikipedia", 0]
    assert texts(result) == [ARTICLES[:2000], ARTICLES[2000:]]
    for unit, path in zip(result["units"], list(_WIKIPEDIA_FILES)[2:], strict=True):
        data = _WIKIPEDIA_FILES[path]
        identity = {"repository": "wikimedia/wikipedia", "revision": WIKIPEDIA.partition("@")[2], "file": path}
        assert unit["identity"] == identity
        digest = hashlib.sha256(data).hexdigest()
        assert unit["provenance"] == {**identity, "size": len(data), "sha256": digest, "license": "cc-by-sa-3.0, gfdl"}
        assert unit["position"] == unit["size"] == len(data)
        assert unit["records"][1][1:] == [f"hub:wikimedia/wikipedia/{path}, row 2", False]


def test_a_resumed_reading_repeats_nothing(read: Any) -> None:
    assert texts(read["hub:wikipedia", 1999]) == [ARTICLES[1999:2000], []]
    assert texts(read["hub:bookcorpus", 15]) == [texts(read["hub:bookcorpus", 0])[0][15:]]


def test_a_config_of_one_s_own(read: Any) -> None:
    assert texts(read[ASKED[2]]) == [["Ein Artikel."]]


def test_bookcorpus_comes_from_the_conversion_and_its_commit_is_recorded(read: Any, hub: HubServer) -> None:
    (unit,) = read["hub:bookcorpus", 0]["units"]
    groups = ["\n".join(SENTENCES[start : start + 64]) for start in range(0, 1000, 64)]
    assert [record[0] for record in unit["records"]] == groups
    assert unit["records"][1][1].endswith("plain_text/train/0000.parquet, row 65")
    assert "license" not in unit["provenance"]  # nobody states it
    assert unit["identity"]["revision"] == hub.commit(BOOKS) != "refs/convert/parquet"
    assert not [path for _, path in hub.requests if "/resolve/refs" in path]  # all is read of that commit
    assert texts(read[ASKED[5]])[0][0] == "sentence 0 . sentence 1 . sentence 2 ."


def test_other_formats_and_splits(read: Any) -> None:
    assert texts(read["hub:me/records,field=body", 1]) == [["two"]]
    assert texts(read["hub:me/records,field=body,split=test", 0]) == [["three"]]
    assert texts(read["hub:me/text", 0]) == [["First line.\nsecond line.", "Next document.", "Third."]]
    assert texts(read["hub:me/text", 2]) == [["Third."]]


def test_lines_that_make_a_document_of_exactly_the_limit() -> None:
    lines = [Record("first", "row 1"), Record("next", "row 2"), Record("", "row 3"), Record("more", "row 4")]
    assert [record.text for record in _joined(iter(lines), Limits(10))] == ["first\nnext", "more"]
    with pytest.raises(UserError, match="^row 1: the document that begins here is longer than 9 bytes"):
        list(_joined(iter(lines), Limits(9)))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("hub:me/records", "hub:me/records/train.jsonl: no column 'text'; it has: body; name the column: field="),
        ("hub:me/records,split=dev", "no split 'dev'; it has ['test', 'train']; name one: split=NAME"),
        ("hub:me/broken", "its data are damaged, or not what they are named as (ArrowInvalid: Parquet magic bytes"),
        ("hub:me/bad", "its data are damaged, or not what they are named as (ArrowInvalid: JSON parse error"),
        ("hub:me/script", "no longer supported, but found script.py; for many data sets, the hub has parquet files: "),
        ("hub:me/nulls", "hub:me/nulls/train.parquet, row 2: 'text' is null"),
        ("hub:nobody/nothing", "no such repository, or a private one; check OWNER/NAME"),
        ("hub:wikipedia,revision=v9", "it has no revision 'v9'"),
        ("hub:wikipedia,config=20231101.xx", "'20231101.xx' not found. Available: ['20231101.de', '20231101.en']"),
        ("hub:wikipedia,format=text", "unknown key format=; known here: weight=, field=, lines=, group=, config="),
        ("hub:wiki", "expected hub:OWNER/NAME or one of hub:wikipedia, hub:bookcorpus"),
    ],
)
def test_what_is_not_there_is_named(spec: str, said: str, read: Any) -> None:
    assert said in read[spec, 0]["said"]
    assert "\n" not in read[spec, 0]["said"]


def test_a_hub_out_of_reach_is_told_at_once_with_what_to_do(tmp_path: Path) -> None:
    found = run(hub_environment(closed_port_endpoint(), tmp_path), ("hub:wikipedia", 0), ("hub:bookcorpus", 0))
    said = found["hub:bookcorpus", 0]["said"]
    assert "bookcorpus/bookcorpus at http://127.0.0.1:" in said
    assert "--revision refs/convert/parquet --include 'plain_text/train/*.parquet' --local-dir FOLDER" in said
    assert "'FOLDER/plain_text/train,group=64' in place of 'hub:bookcorpus'" in said
    assert "'FOLDER/20231101.en' in place of 'hub:wikipedia'" in found["hub:wikipedia", 0]["said"]


def test_the_files_fetched_by_hand_give_the_same_documents(read: Any, tmp_path: Path) -> None:
    for path, data in _REPOSITORIES[BOOKS].items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(data)
    (tmp_path / ".cache").mkdir()  # as `hf download --local-dir` leaves it
    from data_prep.sources import parse_source

    (unit,) = parse_source(f"{tmp_path}/plain_text/train,group=64").units
    assert [record.text for record in unit.documents()] == texts(read["hub:bookcorpus", 0])[0]

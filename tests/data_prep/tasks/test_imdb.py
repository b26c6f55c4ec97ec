"""IMDB's reviews: folder and tars, line breaks, and tars that are cut off, damaged or hostile."""

import bz2
import gzip
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_prep.tasks import imdb
from data_prep.tasks import tar as tar_module
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_inputs import without_breaks
from tests.archives import tar_of, zipped
from tests.data_prep.processes import manifest

Prepare = Callable[..., Path]

_REVIEWS = {
    "train/pos/2_9.txt": "good film<br /><br />the list",
    "train/pos/10_8.txt": "good, good",
    "train/neg/0_1.txt": "bad film \x85 why\x85the end",
    "train/neg/1_2.txt": "na\u00efve\tbad",
    "train/unsup/0_0.txt": "what is it",
    "test/pos/0_10.txt": "good list",
    "test/neg/0_3.txt": "bad list",
}
_OTHERS = {"README": "read me", "train/labeledBow.feat": "0:1 2:3", "test/urls_pos.txt": "http"}


def _zstandard(data: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".tar": bytes,
    ".tar.gz": gzip.compress,
    ".tar.bz2": bz2.compress,
    ".tar.xz": lzma.compress,
    ".tar.zst": _zstandard,
}


def tar_bytes(files: dict[str, str | bytes], *more: tarfile.TarInfo) -> bytes:
    """A tar of aclImdb with ``files``, and ``more`` members without content at its end."""
    return tar_of({f"aclImdb/{name}": content for name, content in files.items()}, *more)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """aclImdb as it is unpacked."""
    for name, text in {**_REVIEWS, **_OTHERS}.items():
        path = tmp_path / "data" / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return tmp_path / "data"


def test_fairseq_reads_the_reviews(
    prepare: Prepare,
    folder: Path,
    read_back: Callable[..., list[dict[str, Any]]],
    encode: Callable[[str], list[int]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    task = prepare("imdb", folder)
    texts = [
        ("bad film \x85 why\x85the end", 0),
        ("na\u00efve\tbad", 0),
        ("good film the list", 1),
        ("good, good", 1),
    ]
    assert read_back(task, "train") == [{"tokens": [0, *encode(text)], "label": label} for text, label in texts]
    assert [row["label"] for row in read_back(task, "valid")] == [0, 1]
    assert (task / "ids" / "train.txt").read_text() == "neg/0_1\nneg/1_2\npos/2_9\npos/10_8\n"
    assert (task / "label" / "dict.txt").read_text() == "neg 2\npos 2\n"
    said = capsys.readouterr().out
    assert "1 reviews without a label (unsup) are left out" in said
    assert "valid is the test set: IMDB has no dev set" in said
    assert "1 with C1 control characters, kept" in said
    assert "the official files have 25,000: 24,996 fewer here" in said


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_tar_gives_what_the_folder_gives(prepare: Prepare, folder: Path, tmp_path: Path, ending: str) -> None:
    shuffled = dict(reversed({**_OTHERS, **_REVIEWS}.items()))  # a tar may hold them in any order
    path = tmp_path / f"aclImdb{ending}"
    path.write_bytes(COMPRESSIONS[ending](tar_bytes({**shuffled})))
    one = manifest(prepare("imdb", folder))
    two = manifest(prepare("imdb", path, out=tmp_path / "two"))
    assert one["sha256"] == two["sha256"] and one["splits"] == two["splits"]


@pytest.mark.parametrize("ending", COMPRESSIONS)
def test_a_truncated_tar(prepare: Prepare, tmp_path: Path, ending: str) -> None:
    whole = COMPRESSIONS[ending](tar_bytes({**_REVIEWS, "test/pos/7_7.txt": "good " * 5000}))
    path = tmp_path / f"aclImdb{ending}"
    # In a plain tar also between two members, and in the middle of the end mark.
    cuts = [1, 512, 1024, 1024 * 7, 1024 * 7 + 100] if ending == ".tar" else [3, len(whole) // 2, len(whole) - 1]
    for keep in cuts:
        path.write_bytes(whole[:keep])
        with pytest.raises(UserError, match="aclImdb.tar") as caught:
            prepare("imdb", path)
        assert "\n" not in str(caught.value)
        assert {entry.name for entry in tmp_path.iterdir()} == {path.name}
    path.write_bytes(whole)
    prepare("imdb", path)


@pytest.mark.parametrize("name", ["aclImdb.zip", "aclImdb.tar", "aclImdb.tar.gz"])
def test_an_archive_that_is_no_tar(prepare: Prepare, tmp_path: Path, name: str) -> None:
    path = zipped(tmp_path / name, {f"aclImdb/{review}": text for review, text in _REVIEWS.items()})
    expected = f"{name}: is zip; expected aclImdb as a folder or as a tar .*; unpack it and give the folder"
    with pytest.raises(UserError, match=expected):
        prepare("imdb", path)
    path.write_bytes(b"%PDF-1.4")
    with pytest.raises(UserError, match=f"{name}: is PDF; expected aclImdb as a folder or as a tar"):
        prepare("imdb", path)


def test_a_damaged_tar(prepare: Prepare, tmp_path: Path) -> None:
    data = bytearray(tar_bytes({**_REVIEWS}))
    data[1024 * 3 + 10] ^= 0xFF  # in the fourth header: tarfile alone would take it for the end
    (tmp_path / "aclImdb.tar").write_bytes(data)
    with pytest.raises(UserError, match="aclImdb.tar: is damaged; fetch it again"):
        prepare("imdb", tmp_path / "aclImdb.tar")
    (tmp_path / "aclImdb.tar.gz").write_bytes(data)
    with pytest.raises(UserError, match="gzip.*content"):
        prepare("imdb", tmp_path / "aclImdb.tar.gz")
    (tmp_path / "junk.tar").write_bytes(b"junk" * 1000)
    with pytest.raises(UserError, match="junk.tar: truncated, damaged, or no tar"):
        prepare("imdb", tmp_path / "junk.tar")
    (tmp_path / "empty.tar").write_bytes(b"")
    with pytest.raises(UserError, match="empty.tar: the file is empty"):
        prepare("imdb", tmp_path / "empty.tar")


@pytest.mark.parametrize(
    ("kind", "target"), [(tarfile.SYMTYPE, "/etc/passwd"), (tarfile.LNKTYPE, "../x"), (tarfile.FIFOTYPE, "")]
)
def test_members_that_are_refused(prepare: Prepare, tmp_path: Path, kind: bytes, target: str) -> None:
    path, member = tmp_path / "aclImdb.tar.gz", tarfile.TarInfo("aclImdb/train/pos/5_9.txt")
    member.type, member.linkname = kind, target
    path.write_bytes(gzip.compress(tar_bytes({**_REVIEWS}, member)))
    with pytest.raises(UserError) as caught:
        prepare("imdb", path)
    assert "is neither a file nor a folder" in str(caught.value) and "it is refused" in str(caught.value)
    assert {entry.name for entry in tmp_path.iterdir()} == {path.name}


@pytest.mark.slow
def test_bombs(prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "aclImdb.tar.gz"
    big = {**_REVIEWS, "train/unsup/9_0.txt": bytes(3 * 2**20)}
    path.write_bytes(gzip.compress(tar_bytes({**big, "train/pos/9_9.txt": "x" * (2**20 + 1)})))
    task = prepare("imdb", path)  # large, but no more than a member may be
    assert "1,048,577 bytes: no review is that long" in (task / "rejected.tsv").read_text()
    monkeypatch.setattr(tar_module, "MAX_MEMBER", 2**20)
    with pytest.raises(UserError, match="'aclImdb/train/unsup/9_0.txt' would unpack to 3,145,728 bytes"):
        prepare("imdb", path)
    # A header of 3 MB, which tarfile would read into memory before anybody is asked.
    long_name = tarfile.TarInfo("aclImdb/" + "x" * (3 * 2**20))
    path.write_bytes(gzip.compress(tar_bytes({**_REVIEWS}, long_name)))
    with pytest.raises(UserError, match="over 1,048,576 bytes without a new member"):
        prepare("imdb", path)
    # Zeros without end after the end mark.
    path.write_bytes(gzip.compress(tar_bytes({**_REVIEWS}) + bytes(3 * 2**20)))
    with pytest.raises(UserError, match="over 1,048,576 bytes without a new member"):
        prepare("imdb", path)


def test_a_tar_may_be_larger_than_a_member(prepare: Prepare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tar_module, "MAX_MEMBER", 2**16)
    path = tmp_path / "aclImdb.tar"
    many = {f"train/unsup/{number}_0.txt": bytes(2**16) for number in range(1, 18)}
    path.write_bytes(tar_bytes({**_REVIEWS, **many}))
    prepare("imdb", path)


def test_folders_that_are_refused(prepare: Prepare, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="absent: no such file.*aclImdb"):
        prepare("imdb", tmp_path / "absent")
    for path in (folder / "aclImdb" / "test" / "neg").iterdir():
        path.unlink()
    with pytest.raises(UserError, match="no reviews in test/neg"):
        prepare("imdb", folder)


def test_files_that_are_no_reviews(prepare: Prepare, folder: Path) -> None:
    place = folder / "aclImdb" / "train" / "pos"
    (place / "notes.txt").write_text("good")
    (place / "77_9.txt").write_text("<br />\n \t")
    (place / "88_9.txt").mkdir()
    task = prepare("imdb", folder)
    rejected = (task / "rejected.tsv").read_text()
    assert "notes.txt\t1\tno review: expected ID_RATING.txt" in rejected and "77_9.txt\t1\tno text" in rejected
    assert "88_9.txt\t1\t" in rejected
    assert manifest(task)["splits"]["train"]["counts"]["rejected"] == 3
    (place / "5_9.txt").write_bytes(b"good\nfilm \xe9t\xe9")
    with pytest.raises(UserError, match="5_9.txt, line 2: not UTF-8: byte 0xe9 at offset 10"):
        prepare("imdb", folder)


def test_a_file_that_is_too_long_is_no_review(
    prepare: Prepare, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imdb, "MAX_REVIEW", 64)
    more = {"train/pos/5_9.txt": "good".ljust(64, "!"), "train/pos/6_9.txt": "good".ljust(65, "!")}
    for name, text in more.items():
        (folder / "aclImdb" / name).write_text(text)
    tar = tmp_path / "imdb.tar"
    tar.write_bytes(tar_bytes({**_REVIEWS, **more}))
    for number, source in enumerate((folder, tar)):
        task = prepare("imdb", source, out=tmp_path / str(number))
        rejected = (task / "rejected.tsv").read_text()
        assert "6_9.txt\t1\t65 bytes: no review is that long" in rejected and "5_9.txt" not in rejected
        assert (task / "ids" / "train.txt").read_text().split()[-2:] == ["pos/5_9", "pos/10_8"]


def test_a_name_that_is_not_utf8_is_no_review(prepare: Prepare, folder: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (folder / "aclImdb" / "train" / "pos" / name).write_text("good")
    tar = tmp_path / "imdb.tar"
    tar.write_bytes(tar_bytes({**_REVIEWS, f"train/pos/{name}": "good"}))
    for number, source in enumerate((folder, tar)):
        task = prepare("imdb", source, out=tmp_path / str(number))
        assert r"train/pos/caf\\xe9.txt" in (task / "rejected.tsv").read_text()


def test_a_member_that_occurs_twice(prepare: Prepare, tmp_path: Path) -> None:
    path = tmp_path / "aclImdb.tar"
    path.write_bytes(tar_bytes({**_REVIEWS, "./train/pos/2_9.txt": "again"}))
    with pytest.raises(UserError, match="2_9.txt: this member occurs twice"):
        prepare("imdb", path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a<br />b", "a b"),
        ("a<br /><br />b", "a b"),
        ("a <BR> <br/>\r\n b", "a b"),
        ("a  b\x85c\u2028d", "a  b\x85c\u2028d"),
        ("a < br b", "a < br b"),
        ("<br />", ""),
    ],
)
def test_without_breaks(text: str, line: str) -> None:
    assert without_breaks(text) == line

"""SST-2, QNLI and QQP: what is read, what is refused, and what is said."""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_prep.tasks import glue as glue_module
from data_prep.tasks.definitions import TASKS
from data_prep.tasks.glue import GlueSource
from data_prep.tasks.prepare import open_source
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.task_inputs import TaskInputs
from linformer_fairseq.launch import data as launch
from tests.archives import zipped
from tests.data_prep.processes import manifest
from tests.messages import says

Prepare = Callable[..., Path]
ReadBack = Callable[..., list[dict[str, Any]]]
Encode = Callable[[str], list[int]]

_QNLI = "index\tquestion\tsentence\tlabel\n"
_QQP = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"


def test_fairseq_reads_what_the_tables_say(prepare: Prepare, sst2: Path, read_back: ReadBack, encode: Encode) -> None:
    folder = prepare("sst2", sst2)
    texts = [("the film is good", 1), ('why "oh why', 0), ("a bad , bad film", 0)]
    assert read_back(folder, "train") == [{"tokens": [0, *encode(text)], "label": label} for text, label in texts]
    assert [row["label"] for row in read_back(folder, "valid")] == [0, 1]
    assert read_back(folder, "test") == [{"tokens": [0, *encode(x)], "label": None} for x in ("what a film", "is it")]
    assert (folder / "ids" / "test.txt").read_text() == "0\n1\n"
    assert (folder / "label" / "dict.txt").read_text() == "0 2\n1 1\n"
    for name in ("dict.txt", "sentencepiece.bpe.model"):
        assert (folder / name).is_file(), "from_pretrained looks for the tokenizer here"


def test_the_folder_itself_is_taken_too(prepare: Prepare, sst2: Path, tmp_path: Path) -> None:
    one, two = prepare("sst2", sst2), prepare("sst2", sst2 / "SST-2", out=tmp_path / "two")
    assert manifest(one)["sha256"] == manifest(two)["sha256"]


def test_a_folder_of_the_hub_s_name_is_taken_by_its_path(
    sst2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hub").symlink_to(sst2)
    assert isinstance(open_source(TASKS["sst2"], ["./hub"], "strict"), GlueSource)


def test_pairs_and_quotes_and_line_ends(
    prepare: Prepare, glue: Callable[..., Path], read_back: ReadBack, encode: Encode
) -> None:
    rows = f'{_QNLI}7\t"why\ta list " of\tnot_entailment\n9\t""what""\tis \u2028\u0085 not\tentailment\n'
    path = glue(
        "QNLI", train=rows.replace("\n", "\r\n"), dev="\ufeff" + rows, test=_QNLI.replace("\tlabel", "") + "3\ta\tb\n"
    )
    folder = prepare("qnli", path)
    expected = [
        {"tokens": [0, *encode('"why'), 2, *encode('a list " of')], "label": 1},
        {"tokens": [0, *encode('""what""'), 2, *encode("is \u2028\u0085 not")], "label": 0},
    ]
    assert read_back(folder, "train") == read_back(folder, "valid") == expected
    assert (folder / "ids" / "train.txt").read_text() == "7\n9\n"
    # The order is the task's, not that of the rows or of the counts.
    assert (folder / "label" / "dict.txt").read_text() == "entailment 1\nnot_entailment 1\n"


def test_columns_are_found_by_name(prepare: Prepare, glue: Callable[..., Path], read_back: ReadBack) -> None:
    train = "is_duplicate\tquestion2\tid\tquestion1\n1\tgood\t5\ta film\n"
    other = f"{_QQP}5\t1\t2\ta film\tgood\t1\n"
    folder = prepare("qqp", glue("QQP", train=train, dev=other))
    assert read_back(folder, "train") == read_back(folder, "valid")
    assert manifest(folder)["positive"] == "1"


def test_a_zip_gives_what_the_folder_gives(prepare: Prepare, sst2: Path, tmp_path: Path) -> None:
    tables = {path.name: path.read_bytes() for path in (sst2 / "SST-2").iterdir()}
    expected = manifest(prepare("sst2", sst2))["sha256"]
    junk = {"__MACOSX/SST-2/train.tsv": b"\0", "SST-2/original/train.tsv": b"x", "CoLA/train.tsv": b"y"}
    for name, prefix in (("SST-2.zip", ""), ("all.zip", "glue_data/")):
        path = zipped(tmp_path / name, {**{f"{prefix}SST-2/{n}": content for n, content in tables.items()}, **junk})
        assert manifest(prepare("sst2", path, out=tmp_path / name.replace(".", "_")))["sha256"] == expected


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ({"train": None}, "there is no SST-2/train.tsv"),
        ({"dev": None}, "there is no SST-2/dev.tsv"),
        ({"train": ""}, "train.tsv: the file is empty"),
        ({"train": "sentence\tlabel\n"}, "train.tsv: nothing follows the header"),
        ({"train": "sentence,label\nx,1\n"}, "train.tsv, line 1: wrong header: expected the columns sentence, label"),
        ({"test": "sentence\tx\nx\t1\n", "dev": "index\tsentence\n0\tx\n"}, "dev.tsv, line 1: wrong header"),
        (
            {"dev": b"sentence\tlabel\ngood\t1\nna\xefve film\t0\n"},
            "dev.tsv, line 3: not UTF-8: byte 0xef at offset 24",
        ),
        ({"dev": b"\xef\xbb\xbfsentence\tlabel\nna\xefve\t0\n"}, "dev.tsv, line 2: not UTF-8: byte 0xef at offset 20"),
        ({"dev": b"\xef\xbb\xbfsent\xe9nce\tlabel\n"}, "dev.tsv, line 1: not UTF-8: byte 0xe9 at offset 7"),
        ({"train": b"sentence\tlabel\ngood\t1\nba\0d\t0\n"}, "train.tsv, line 3: a zero byte at offset 24"),
        ({"train": b"\x89PNG\r\n\x1a\n\0\0\0"}, "train.tsv, line 1: not UTF-8"),
        ({"train": "sentence\tlabel\nx\t5\n"}, "no row of train is an example"),
    ],
)
def test_a_bad_table_is_told_and_nothing_written(
    prepare: Prepare, glue: Callable[..., Path], sst2: Path, tmp_path: Path, tables: dict[str, Any], expected: str
) -> None:
    good = {path.name: path.read_bytes() for path in (sst2 / "SST-2").iterdir()}
    for name, content in tables.items():
        if content is None:
            (sst2 / "SST-2" / f"{name}.tsv").unlink()
        else:
            glue("SST-2", **{name: content})
    with pytest.raises(UserError) as caught:
        prepare("sst2", sst2)
    assert expected in str(caught.value)
    assert {path.name for path in tmp_path.iterdir()} == {"glue"}
    for name, data in good.items():
        (sst2 / "SST-2" / name).write_bytes(data)
    prepare("sst2", sst2)  # the same command after mending


def test_no_such_source(prepare: Prepare, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="absent: no such file.*SST-2.zip"):
        prepare("sst2", tmp_path / "absent")
    with pytest.raises(UserError, match="sst2 is one folder or file, 2 were given"):
        prepare("sst2", tmp_path, tmp_path)


def test_replaced_bytes_are_counted(
    prepare: Prepare, glue: Callable[..., Path], sst2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    glue("SST-2", dev=b"sentence\tlabel\nna\xefve film\t0\n")
    folder = prepare("sst2", sst2, options=("--errors", "replace"))
    assert manifest(folder)["splits"]["valid"]["counts"] == {"with U+FFFD": 1}
    assert "1 with U+FFFD, kept" in capsys.readouterr().out


_BAD_ROWS = "sentence\tlabel\ngood\t1\ntoo few\n\t1\nx\ty\t1\nwhy\tgood\n\ngood\t0\n"  # lines 3 to 7 are no examples


def test_rows_that_are_no_examples(
    prepare: Prepare, glue: Callable[..., Path], sst2: Path, capsys: pytest.CaptureFixture[str], read_back: ReadBack
) -> None:
    glue("SST-2", train=_BAD_ROWS)
    folder = prepare("sst2", sst2)
    file = sst2 / "SST-2" / "train.tsv"
    assert (folder / "rejected.tsv").read_text().split("\n") == [
        "file\tline\treason\trow",
        f"{file}\t3\t1 columns, expected 2\ttoo few",
        f"{file}\t4\tno text\t\\t1",
        f"{file}\t5\t3 columns, expected 2\tx\\ty\\t1",
        f"{file}\t6\tlabel 'good' is none of 0, 1\twhy\\tgood",
        f"{file}\t7\tan empty line\t",
        "",
    ]
    assert [row["label"] for row in read_back(folder, "train")] == [1, 0]
    assert (folder / "ids" / "train.txt").read_text() == "0\n6\n", "numbers of rows, the rejected ones counted"
    said = capsys.readouterr().out
    assert "5 rejected: see rejected.tsv" in said and f"{file}, line 6: label 'good' is none of 0, 1" in said


def test_only_ten_are_shown_and_strict_makes_them_an_error(
    prepare: Prepare, glue: Callable[..., Path], sst2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    glue("SST-2", train=_BAD_ROWS + "x\n" * 8, test="index\tsentence\n0\tgood\n1\n")
    with pytest.raises(UserError) as caught:
        prepare("sst2", sst2, options=("--strict",))
    message = str(caught.value)
    assert message.startswith("rows that are no examples: 14; nothing was written, because --strict")
    assert message.count("train.tsv, line ") == 10 and message.endswith("and 4 more")
    assert {path.name for path in tmp_path.iterdir()} == {"glue"}
    prepare("sst2", sst2)
    said = capsys.readouterr().out
    assert said.count("train.tsv, line ") == 10
    assert "a submission made from this data lacks their predictions" in said


def test_a_row_that_no_tokenizer_takes_is_rejected(
    prepare: Prepare, glue: Callable[..., Path], sst2: Path, read_back: ReadBack
) -> None:
    glue("SST-2", train="sentence\tlabel\ngood\t1\n" + "x" * 1_200_000 + "\t0\nbad\t0\n")
    folder = prepare("sst2", sst2)
    assert len(read_back(folder, "train")) == 2
    assert "characters without a blank" in (folder / "rejected.tsv").read_text()


def test_an_identifier_that_occurs_twice_is_rejected(prepare: Prepare, glue: Callable[..., Path], sst2: Path) -> None:
    """A submission has one label for each; a row that is no example does not count."""
    glue("SST-2", test="index\tsentence\n4\t\n4\tgood\n5\tbad\n4\twhy\n")
    folder = prepare("sst2", sst2)
    assert (folder / "ids" / "test.txt").read_text() == "4\n5\n"
    assert (
        f"\t5\tidentifier '4' occurs twice, first in {sst2 / 'SST-2' / 'test.tsv'}, line 3\t"
        in (folder / "rejected.tsv").read_text()
    )


def test_a_row_without_a_token_is_rejected(prepare: Prepare, glue: Callable[..., Path], sst2: Path) -> None:
    glue("SST-2", train="sentence\tlabel\ngood\t1\n\u200b\t0\nbad\t0\n")
    folder = prepare("sst2", sst2)
    assert (folder / "ids" / "train.txt").read_text() == "0\n2\n"
    assert "\t3\tno token" in (folder / "rejected.tsv").read_text(encoding="utf-8")


def test_an_empty_half_of_a_pair_is_kept(
    prepare: Prepare, glue: Callable[..., Path], read_back: ReadBack, encode: Encode
) -> None:
    table = f"{_QQP}1\t1\t2\tgood\t\t0\n2\t3\t4\t\t\t1\n3\t5\t6\tgood\t\u200b\t0\n"
    folder = prepare("qqp", glue("QQP", train=table, dev=table))
    assert read_back(folder, "train") == [{"tokens": [0, *encode("good"), 2, 2], "label": 0}] * 2
    assert manifest(folder)["splits"]["train"]["counts"] == {"rejected": 1, "with an empty text": 2}


def test_what_is_odd_is_counted_and_kept(
    prepare: Prepare, glue: Callable[..., Path], sst2: Path, capsys: pytest.CaptureFixture[str], read_back: ReadBack
) -> None:
    glue("SST-2", train="sentence\tlabel\ngood\t1\ngood \t1\nbad\t1\nbad\t0\nbad\t0\n", dev="sentence\tlabel\nbad\t0\n")
    folder = prepare("sst2", sst2)
    train, valid = (manifest(folder)["splits"][name] for name in ("train", "valid"))
    assert (train["repeated texts"], train["texts with several labels"]) == (3, 1)
    assert valid["texts also in train"] == 1
    assert len(read_back(folder, "train")) == 5
    said = capsys.readouterr().out
    assert says(said, "train", "5 examples", "0: 2", "1: 3", "67,349", "67,344 fewer")
    assert "1 texts also in train, kept" in said


@pytest.mark.parametrize("keep", [0, 10, 60, -30, -1])
def test_a_truncated_or_foreign_zip(prepare: Prepare, sst2: Path, tmp_path: Path, keep: int) -> None:
    tables = {f"SST-2/{path.name}": path.read_bytes() for path in (sst2 / "SST-2").iterdir()}
    path = zipped(tmp_path / "SST-2.zip", tables)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="SST-2.zip: .*zip file"):
        prepare("sst2", path)


def test_a_damaged_member(prepare: Prepare, sst2: Path, tmp_path: Path) -> None:
    tables = {f"SST-2/{path.name}": path.read_bytes() * 50 for path in (sst2 / "SST-2").iterdir()}
    path = zipped(tmp_path / "SST-2.zip", tables)
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(UserError, match="SST-2.zip: .*damaged"):
        prepare("sst2", path)


def test_a_zip_with_the_tables_at_its_top(prepare: Prepare, sst2: Path, tmp_path: Path) -> None:
    """As a folder of them is taken; those in the task's own folder come first, there as here."""
    tables = {path.name: path.read_bytes() for path in (sst2 / "SST-2").iterdir()}
    expected = manifest(prepare("sst2", sst2))["sha256"]
    top = zipped(tmp_path / "top.zip", {**tables, "__MACOSX/train.tsv": b"\0", "other/dev.tsv": b"x"})
    assert manifest(prepare("sst2", top, out=tmp_path / "top"))["sha256"] == expected
    inner = {f"SST-2/{name}": content for name, content in tables.items()}
    both = zipped(tmp_path / "both.zip", {"train.tsv": b"x", **inner})
    assert manifest(prepare("sst2", both, out=tmp_path / "both"))["sha256"] == expected


def test_zips_that_are_refused(prepare: Prepare, sst2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {f"SST-2/{path.name}": path.read_bytes() for path in (sst2 / "SST-2").iterdir()}
    with pytest.raises(UserError, match="holds SST-2/dev.tsv twice: .*"):
        prepare("sst2", zipped(tmp_path / "two.zip", {**tables, "old/SST-2/dev.tsv": b"x"}))
    with pytest.raises(UserError, match="there is no QNLI/train.tsv in it"):
        prepare("qnli", zipped(tmp_path / "one.zip", tables))
    other = tmp_path / "bzip2.zip"
    with zipfile.ZipFile(other, "w", zipfile.ZIP_BZIP2) as archive:
        for name, content in tables.items():
            archive.writestr(name, content)
    with pytest.raises(UserError, match="SST-2/.*not compressed by deflate.*unpack"):
        prepare("sst2", other)
    monkeypatch.setattr(glue_module, "MAX_MEMBER", 50)
    with pytest.raises(UserError, match="SST-2/train.tsv .*69 bytes"):
        prepare("sst2", zipped(tmp_path / "bomb.zip", tables))


def test_the_launcher_knows_every_task_that_can_be_prepared_but_ones_own() -> None:
    assert {*launch.TASKS, "tsv"} == TASKS.keys()


def test_a_model_knows_by_its_task_whether_it_takes_pairs() -> None:
    found = {name: TaskInputs(name).texts for name in TASKS}
    assert found == {name: len(task.texts) for name, task in TASKS.items()} | {"tsv": None}
    assert TaskInputs().texts is None

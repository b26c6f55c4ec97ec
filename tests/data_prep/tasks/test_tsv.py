"""Labelled text of one's own."""

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from data_prep.tasks import lines
from data_prep.tasks.definitions import TASKS
from data_prep.tasks.prepare import open_source
from linformer_fairseq.files.errors import UserError


def write(folder: Path, **files: str) -> list[Path]:
    for name, content in files.items():
        (folder / f"{name}.tsv").write_text(content, encoding="utf-8")
    return [folder / f"{name}.tsv" for name in files]


def test_labels_are_those_of_the_first_file(
    prepare: Callable[..., Path],
    read_back: Callable[..., list[dict[str, Any]]],
    encode: Callable[[str], list[int]],
    tmp_path: Path,
) -> None:
    files = write(tmp_path, train="b\tthe film\na\tis good\nb\tis bad\n", valid="a\ta list\n", other="b\ta string\n")
    folder = prepare("tsv", *files)
    assert (folder / "label" / "dict.txt").read_text() == "a 1\nb 2\n"
    assert read_back(folder, "train") == [
        {"tokens": [0, *encode(text)], "label": label}
        for label, text in ((1, "the film"), (0, "is good"), (1, "is bad"))
    ]
    assert read_back(folder, "other") == [{"tokens": [0, *encode("a string")], "label": 1}]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_a_line_of_exactly_the_limit_is_read(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 10)
    text = f"0123456789{end}".encode()
    assert list(lines.read_lines(io.BytesIO(b"short\n" + text), "f", "strict")) == [(1, "short"), (2, "0123456789")]
    with pytest.raises(UserError, match="f, line 2: longer than 10 bytes"):
        list(lines.read_lines(io.BytesIO(b"short\nx" + text), "f", "strict"))


def test_a_name_that_is_not_utf8_is_refused_first(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"caf\xe9.tsv")
    with pytest.raises(UserError, match=r"caf\\xe9.tsv: .* not UTF-8"):
        open_source(TASKS["tsv"], [str(path)], "strict")


@pytest.mark.parametrize(
    ("train", "valid", "expected"),
    [
        ("a\tx\nb y\n", "a\tz\n", "train.tsv, line 2: expected a label, one tab and a text: 'b y'"),
        ("a\tx\nb\tx\tb\n", "a\tz\n", "train.tsv, line 2: expected a label, one tab and a text"),
        ("a\tx\na\t \n", "a\tz\n", "train.tsv, line 2: expected a label, one tab and a text"),
        ("a\tx\n \ty\n", "a\tz\n", "train.tsv, line 2: expected a label, one tab and a text"),
        (
            "a\tx\nb c\ty\n",
            "a\tz\n",
            "train.tsv, line 2: label 'b c' has a blank in it, and must not; write it as 'b_c'",
        ),
        (
            "a\tx\na \ty\n",
            "a\tz\n",
            "train.tsv, line 2: label 'a ' has a blank in it, and must not; write it as 'a'",
        ),
        (
            "a\tx\n a\ty\n",
            "a\tz\n",
            "train.tsv, line 2: label ' a' has a blank in it, and must not; write it as 'a'",
        ),
        ("label\ttext\na\tx\n", "a\tz\n", "train.tsv, line 1: 'label' looks like the name of a column"),
        ("Class\tcontent\na\tx\n", "a\tz\n", "train.tsv, line 1: 'Class' looks like the name of a column"),
        ("b c\ty\n", "a\tz\n", "write it as 'b_c', for example: 'b c\\ty'; no other line is an example either"),
        *(
            (f"a\tx\n{label}\ty\n", "a\tz\n", f"train.tsv, line 2: {label!r} is a symbol of fairseq's own")
            for label in ("<s>", "<pad>", "</s>", "<unk>", "<mask>", "madeupword0000")
        ),
        ("a\tx\nb\ty\n", "a\tw\nc\tz\n", "valid.tsv, line 2: label 'c' is none of a, b"),
        *(
            (f"a\t{one}\nb\ty\n", f"a\tz\nb\t{other}\n", "texts in two files: 1;")
            for one, other in (("x", "x"), ("x ", "x"), ("x", " x"))
        ),
        ("a\tx\nb\ty\n", "a\ty\nb\tx\n", "texts in two files: 2;"),
        ("a\tx\nb\ty\n", "a\tz\nb\tx\n", "valid.tsv, line 2, and "),
        ("a\tx\nb\ty\n", "a\tx\nb\tx\n", "texts in two files: 1;"),
        ("\n", "a\tz\n", "expected a label, one tab and a text: ''; no other line is an example either"),
    ],
)
def test_bad_rows_are_refused(
    prepare: Callable[..., Path], tmp_path: Path, train: str, valid: str, expected: str
) -> None:
    with pytest.raises(UserError) as caught:
        prepare("tsv", *write(tmp_path, train=train, valid=valid), options=("--strict",))
    assert expected in str(caught.value)
    assert not (tmp_path / "task").exists()


def test_a_class_with_one_example_may_be_a_header(
    prepare: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = "a\tp\nb\tq\na\tr\nb\ts\n"
    for header, warned in (("topic\ttext\n", True), ("", False)):
        files = write(tmp_path, train=header + train, valid="a\ty\n")
        prepare("tsv", *files, out=tmp_path / f"task_{warned}")
        assert ("train.tsv, line 1 is the only example of the class 'topic'" in capsys.readouterr().out) == warned


def test_scores_are_no_classes(prepare: Callable[..., Path], tmp_path: Path) -> None:
    scores = "".join(f"{score / 8}\ttext {score}\n" for score in range(12))
    with pytest.raises(UserError, match="train.tsv: 12 examples have 12 different labels, which are numbers"):
        prepare("tsv", *write(tmp_path, train=scores, valid="0.5\tz\n"))
    grades = "".join(f"{number % 5}\ttext {number}\n" for number in range(12))
    prepare("tsv", *write(tmp_path, train=grades, valid="0\tz\n"))


def test_a_label_out_of_many(prepare: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = "".join(f"class{number:02}\ttext {number}\n" for number in range(12))
    prepare("tsv", *write(tmp_path, train=train, valid="class00\ty\nother\tz\n"))
    assert "label 'other' is none of class00, class01," in (said := capsys.readouterr().out)
    assert "class09, ..." in said and "class10" not in said.partition("'other'")[2].partition("\n")[0]


def test_utf16_is_named(prepare: Callable[..., Path], tmp_path: Path) -> None:
    files = write(tmp_path, train="a\tx\n", valid="a\tz\n")
    files[0].write_text("a\tx\n", encoding="utf-16")
    with pytest.raises(UserError, match="train.tsv: is UTF-16, expected UTF-8"):
        prepare("tsv", *files)


def test_training_data_of_one_class_is_warned_of(
    prepare: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warning = "warning: every example of train is of the class 'a': a model would learn to answer nothing else"
    prepare("tsv", *write(tmp_path, train="a\tx\na\ty\n", valid="a\tz\n"), options=("--strict",))
    assert capsys.readouterr().out.count(warning) == 1
    prepare("tsv", *write(tmp_path, train="a\tx\nb\ty\n", valid="a\tz\n"))
    assert "warning" not in capsys.readouterr().out


def test_files_that_are_refused(prepare: Callable[..., Path], tmp_path: Path) -> None:
    (train,) = write(tmp_path, train="a\tx\n")
    with pytest.raises(UserError, match="valid.tsv: no such file"):
        prepare("tsv", train, tmp_path / "valid.tsv")
    with pytest.raises(UserError, match="the first file gives the labels and has to be train.tsv"):
        prepare("tsv", tmp_path / "valid.tsv", train)
    with pytest.raises(UserError, match="not distinct"):
        prepare("tsv", train, train)


def test_a_class_may_have_the_name_of_a_column(prepare: Callable[..., Path], tmp_path: Path) -> None:
    files = write(tmp_path, train="class\tthe film\nother\tis good\nclass\tis bad\n", valid="class\ta list\n")
    assert (prepare("tsv", *files) / "label" / "dict.txt").read_text() == "class 2\nother 1\n"

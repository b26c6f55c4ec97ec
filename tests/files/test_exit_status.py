"""How every program ends."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.exit_status import exit_status


def _user_error() -> None:
    raise UserError("k=0: expected at least 1")


def _no_such_file() -> None:
    Path("/no such folder/file").read_bytes()


def _other_error() -> None:
    raise OSError("without a number")


@pytest.mark.parametrize(
    ("work", "status", "said"),
    [
        (lambda: None, 0, ""),
        (lambda: 3, 3, ""),
        (_user_error, 1, "program: k=0: expected at least 1\n"),
        (_no_such_file, 1, "program: /no such folder/file: No such file or directory\n"),
        (_other_error, 1, "program: without a number\n"),
    ],
)
def test_status_and_message(
    work: Callable[[], int | None], status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_status(work, "program: ") == status
    assert capsys.readouterr().err == said


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        exit_status(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("encoding", "text", "printed"),
    [("latin-1", "a \u2030 b", rb"a \u2030 b"), ("utf-8", "bytes of a path: \udcff", rb"bytes of a path: \udcff")],
)
def test_characters_that_the_encoding_lacks(
    encoding: str, text: str, printed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    assert exit_status(lambda: print(text)) == 0
    assert raw.getvalue() == printed + b"\n"

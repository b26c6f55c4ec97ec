"""Cutting files into parts loses nothing, wherever the cuts fall."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_prep.binarizing import parts
from linformer_fairseq.files.errors import UserError

OTHER_BLANKS = ("\u00a0 ", "\u3000", "\f\u2028\x85")


def lines_of(path: Path, wanted: int) -> list[str]:
    """Put together as the datasets are: an empty line between parts, unless one continues the other."""
    content, lines = path.read_bytes(), []
    for part in parts.cut(path, wanted):
        assert part.size > 0
        if lines and not part.continues:
            lines.append(b"")
        lines += content[part.start : part.end].removesuffix(b"\n").split(b"\n")
    return [line.decode().strip() for line in lines]


@settings(deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.sampled_from(["", "", " ", " \t", *OTHER_BLANKS, "a", "bb", "c" * 40, "é", "à"])),
    end=st.sampled_from(["\n", "\r\n"]),
    wanted=st.integers(1, 60),
    block=st.integers(1, 30),
    search=st.integers(1, 30),
    mark=st.booleans(),
)
def test_parts_hold_every_line_once_and_in_order(
    lines: list[str], end: str, wanted: int, block: int, search: int, mark: bool, tmp_path: Path
) -> None:
    path, text = tmp_path / "x.txt", "\n".join(lines)
    path.write_bytes((("\ufeff" if mark else "") + end.join(lines)).encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "_BLOCK", block)
        patch.setattr(parts, "DOCUMENT_SEARCH", search)
        if text.strip():
            assert lines_of(path, wanted) == [line.strip() for line in text.removesuffix("\n").split("\n")]
        else:
            with pytest.raises(UserError, match="no text in it"):
                lines_of(path, wanted)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" \n", b"\t \r\n", "\u00a0\u3000 \u2003\n".encode()])
@pytest.mark.parametrize("block", [1, 2, 3, 100, 1 << 16])
def test_cuts_are_between_documents_where_there_is_one_in_reach(
    end: bytes, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_BLOCK", block)
    path = tmp_path / "x.txt"
    line = b"line" + end
    path.write_bytes(end.join(line * 30 for _ in range(50)))
    found = list(parts.cut(path, 400))
    assert len(found) > 10 and not any(part.continues for part in found)
    assert all(400 <= part.size <= 400 + 30 * len(line) + len(end) for part in found[:-1])


def test_a_long_document_is_cut_at_the_end_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "DOCUMENT_SEARCH", 100)
    monkeypatch.setattr(parts, "_BLOCK", 64)
    path = tmp_path / "x.txt"
    path.write_bytes(b"first\n\n" + b"line\n" * 1000)
    found = list(parts.cut(path, 400))
    assert [part.continues for part in found] == [False] + [True] * (len(found) - 1)
    assert all(400 <= part.size <= 405 for part in found[:-1])

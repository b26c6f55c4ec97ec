"""Whether the processor computes in bfloat16, by what Linux says of it."""

from pathlib import Path

import pytest

from linformer_fairseq.files import processor

X86 = "processor\t: 0\nmodel name\t: Xeon\nflags\t\t: fpu avx512f{more}\n\nprocessor\t: 1\nflags\t\t: amx_bf16\n"
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd{more}\n"


@pytest.fixture(params=[X86, ARM], ids=["x86-64", "Arm"])
def cpuinfo(request: pytest.FixtureRequest) -> str:
    text: str = request.param
    return text


def _says(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path: text)


@pytest.mark.parametrize(
    ("more", "has"), [("", False), (" avx512_bf16", True), (" amx_bf16", True), (" bf16", True), (" bf16x", False)]
)
def test_the_first_processors_flags_tell(monkeypatch: pytest.MonkeyPatch, cpuinfo: str, more: str, has: bool) -> None:
    _says(monkeypatch, cpuinfo.format(more=more))
    assert processor.has_bfloat16() is has


def test_it_is_not_known_of_a_system_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _says(monkeypatch, "processor\t: 0\n")
    assert processor.has_bfloat16() is None

    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    assert processor.processor_fields() == {} and processor.has_bfloat16() is None

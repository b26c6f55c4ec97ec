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
    ("more", "lacks"), [("", True), (" avx512_bf16", False), (" amx_bf16", False), (" bf16", False), (" bf16x", True)]
)
def test_the_first_processors_flags_tell(monkeypatch: pytest.MonkeyPatch, cpuinfo: str, more: str, lacks: bool) -> None:
    _says(monkeypatch, cpuinfo.format(more=more))
    assert processor.lacks_bfloat16() is lacks


def test_a_system_that_says_nothing_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    _says(monkeypatch, "processor\t: 0\n")
    assert processor.processor_flags() == set() and not processor.lacks_bfloat16()

    def missing(path: Path) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    assert processor.processor_fields() == {} and not processor.lacks_bfloat16()

"""What the processor is called, and whether it computes in bfloat16, by what Linux says of it."""

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


def test_a_processor_is_named_by_its_family_too(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = "model name\t: AMD EPYC\ncpu family\t: 26\nmodel\t\t: 2\nflags\t\t: fpu avx512_bf16"
    _says(monkeypatch, fields)
    assert processor.processor_name() == "AMD EPYC (family 26, model 2, no AMX)"
    _says(monkeypatch, f"{fields} amx_bf16")
    assert processor.processor_name() == "AMD EPYC (family 26, model 2, AMX)"


@pytest.mark.parametrize("name", ["aarch64", ""])
def test_a_processor_of_which_linux_says_no_family_is_named_as_platform_does(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    _says(monkeypatch, ARM)
    monkeypatch.setattr(processor.platform, "processor", lambda: name)
    monkeypatch.setattr(processor.platform, "machine", lambda: "arm")
    assert processor.processor_name() == (name or "arm")

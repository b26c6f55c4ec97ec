"""The checks of `linformer doctor`. They use only the standard library, so that they work in any environment.

Versions come from the metadata of installed distributions. Packages are imported, because nothing else shows whether
they work; apex is not, because it may be an unrelated package.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import logging
import platform
import re
import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from linformer_fairseq.files.processor import has_bfloat16


class State(Enum):
    """The state of a component. MISSING and WRONG affect the exit status only if the component is required."""

    OK = "ok"
    MISSING = "missing"
    WARNING = "warning"
    WRONG = "wrong"


class Finding(NamedTuple):
    """The result of checking one component."""

    state: State
    version: str = ""
    note: str = ""


class Component(NamedTuple):
    """A checked component; ``without_it`` says what does not work without it (empty: it is required)."""

    name: str
    examine: Callable[[], Finding]
    without_it: str = ""

    @property
    def required(self) -> bool:
        """Whether Linformer models cannot be trained without it."""
        return not self.without_it


PYTHON_MIN, PYTHON_END = (3, 11), (3, 14)
TORCH_MIN = (2, 6)
INSTALL_FAIRSEQ = "pip install 'linformer-fairseq[fairseq]'"


def release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, for comparing: "2.13.0+cpu" is (2, 13, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def failure(module: str) -> str | None:
    """Import `module`; None if that works, otherwise the exception in one line.

    Any exception counts: upstream fairseq fails with a ValueError, torchaudio with an OSError.
    """
    logging.disable()  # of some packages, for those who debug them
    try:
        importlib.import_module(module)
    except Exception as error:
        first_line = (str(error).strip().splitlines() or [""])[0]
        return f"{type(error).__name__}: {first_line}"
    finally:
        logging.disable(logging.NOTSET)
    return None


def python(version: tuple[int, ...] = sys.version_info[:3]) -> Finding:
    """Whether this version of Python is supported."""
    text = ".".join(map(str, version))
    if PYTHON_MIN <= version < PYTHON_END:
        return Finding(State.OK, text, platform.platform())
    return Finding(State.WRONG, text, "Python 3.11, 3.12 or 3.13 is needed; make a new environment with one of them")


def torch() -> Finding:
    """Whether torch is installed, can be imported and is new enough."""
    version = installed("torch")
    if version is None:
        return Finding(State.MISSING, note="pip install 'torch>=2.6'")
    if release(version) < TORCH_MIN:
        return Finding(State.WRONG, version, "2.6 or newer is needed: pip install --upgrade 'torch>=2.6'")
    if problem := failure("torch"):
        return Finding(State.WRONG, version, f"does not load: {problem}")
    return Finding(State.OK, version)


def cuda() -> Finding:
    """The GPUs that torch can use."""
    if installed("torch") is None or failure("torch"):
        return Finding(State.MISSING, note="needs torch")
    import torch

    if torch.version.cuda is None:
        return Finding(State.MISSING, note="this build of torch is for CPUs only")
    if not torch.cuda.is_available():
        return Finding(State.MISSING, torch.version.cuda, "torch sees no GPU; nvidia-smi tells whether the driver does")
    found, kernels = range(torch.cuda.device_count()), torch.cuda.get_arch_list()
    for i in found:
        major, minor = torch.cuda.get_device_capability(i)
        runs = {f"sm_{major}{older}" for older in range(minor + 1)}
        if not any(kernel in runs or kernel.startswith("compute_") for kernel in kernels):
            note = f"{torch.cuda.get_device_name(i)} is sm_{major}{minor}; this torch has code for {', '.join(kernels)}"
            return Finding(State.WRONG, torch.version.cuda, f"{note}: install another build of it")
    return Finding(State.OK, torch.version.cuda, ", ".join(map(torch.cuda.get_device_name, found)))


def bfloat16() -> Finding:
    """Whether the processor has instructions for bfloat16."""
    found = has_bfloat16()
    if found is None:
        return Finding(State.OK, note="not known; if run.precision=bf16 is slower than fp32, use fp32")
    return Finding(State.OK if found else State.MISSING)


def fairseq() -> Finding:
    """Whether the fairseq that is imported is fairseq-fixed, and works."""
    fixed, upstream = installed("fairseq-fixed"), installed("fairseq")
    if upstream is not None:
        gone = "fairseq fairseq-fixed" if fixed else "fairseq"
        return Finding(
            State.WRONG,
            upstream,
            "this is the distribution `fairseq`, which is not maintained and does not import on Python >= 3.11; "
            f"fairseq-fixed is needed: pip uninstall {gone} && {INSTALL_FAIRSEQ}",
        )
    if fixed is None:
        return Finding(State.MISSING, note=f"only linformer_fairseq.core can be used; {INSTALL_FAIRSEQ}")
    if problem := failure("fairseq"):
        return Finding(State.WRONG, fixed, f"does not import: {problem}")
    return Finding(State.OK, fixed, "fairseq-fixed")


def torchaudio() -> Finding:
    """Whether torchaudio loads. fairseq requires it; nothing that Linformer does imports it."""
    version = installed("torchaudio")
    if version is None:
        return Finding(State.MISSING, note="pip check complains (fairseq-fixed lists it), nothing else does")
    if problem := failure("torchaudio"):
        return Finding(
            State.WARNING,
            version,
            f"does not load beside this torch ({problem}), which breaks `import transformers`: "
            "pip uninstall --yes torchaudio",
        )
    return Finding(State.OK, version)


def apex() -> Finding:
    """Distinguish NVIDIA's apex from PyPI's unrelated package of the same name, without importing either."""
    spec = importlib.util.find_spec("apex")
    version = installed("apex") or ""
    if spec is None:
        return Finding(State.MISSING, version, "built from NVIDIA's repository; `pip install apex` is something else")
    folders = [Path(folder) for folder in spec.submodule_search_locations or []]

    def holds(part: str) -> bool:
        return any((folder / part).is_dir() or (folder / f"{part}.py").is_file() for folder in folders)

    if not (holds("optimizers") and holds("normalization")):
        return Finding(
            State.WARNING,
            version,
            "this is not NVIDIA's apex (no apex.optimizers, no apex.normalization); PyPI's `apex` is an unrelated "
            "web toolkit, and fairseq may fail on it: pip uninstall apex",
        )
    if importlib.util.find_spec("amp_C") is None:
        return Finding(State.WARNING, version, "NVIDIA's, built without its CUDA extensions: fairseq cannot use it")
    return Finding(State.OK, version, "NVIDIA's")


def distribution(
    name: str, fix: str | None = None, module: str | None = None, minimum: str = ""
) -> Callable[[], Finding]:
    """A check that `name` is installed, new enough, and can be imported; `fix` is the command that installs it."""
    fix = fix or f"pip install {name}"

    def examine() -> Finding:
        version = installed(name)
        if version is None:
            return Finding(State.MISSING, note=fix)
        if release(version) < release(minimum):
            return Finding(State.WRONG, version, f"{minimum} or newer is needed: {fix}")
        if problem := failure(module or name):
            return Finding(State.WRONG, version, f"does not load: {problem}")
        return Finding(State.OK, version)

    return examine


COMPONENTS = (
    Component("Python", python),
    Component("torch", torch),
    Component("fairseq", fairseq),
    Component("hydra-core", distribution("hydra-core", INSTALL_FAIRSEQ, "hydra")),
    Component("submitit", distribution("submitit", INSTALL_FAIRSEQ)),
    Component("omegaconf", distribution("omegaconf", INSTALL_FAIRSEQ)),
    Component("numpy", distribution("numpy")),
    Component("CUDA", cuda, "training runs on the CPU, and slowly"),
    Component("bfloat16 on the CPU", bfloat16, "run.precision=bf16 and --bf16 are slower than fp32 on the CPU"),
    Component("sentencepiece", distribution("sentencepiece"), "no sentencepiece vocabulary (the default tokenizer)"),
    Component("tiktoken", distribution("tiktoken"), "no data preparation"),
    Component("datasets", distribution("datasets"), "no corpora or tasks from the Hugging Face hub"),
    Component("pyarrow", distribution("pyarrow"), "no parquet files"),
    Component("zstandard", distribution("zstandard"), "no .zst files"),
    Component("safetensors", distribution("safetensors"), "no models that come with the package, no released ones"),
    Component("matplotlib", distribution("matplotlib"), "no figures"),
    Component("markdown-it-py", distribution("markdown-it-py", module="markdown_it"), "no linformer report"),
    Component("tensorboard", distribution("tensorboard"), "no --tensorboard-logdir"),
    *(
        Component(
            name,
            distribution(name, "pip install '.[hf]' in the repository", module, minimum),
            "no transformers folders",
        )
        for name, module, minimum in (
            ("transformers", None, "5"),
            ("tokenizers", None, "0.21"),
            ("protobuf", "google.protobuf", "5"),
        )
    ),
    *(
        Component(name, distribution(name, "pip install '.[onnx]' in the repository"), "no linformer export onnx")
        for name in ("onnx", "onnxruntime", "onnxscript")
    ),
    Component("apex", apex, "no fused LayerNorm and Adam on GPUs; torch's own are used"),
    Component("torchaudio", torchaudio, "no speech tasks of fairseq; Linformer handles text"),
)


def examine_all() -> list[tuple[Component, Finding]]:
    """Every component with the result of its check."""
    return [(component, component.examine()) for component in COMPONENTS]


def is_fatal(component: Component, finding: Finding) -> bool:
    """Whether this finding means that Linformer models cannot be trained here."""
    return component.required and finding.state in (State.MISSING, State.WRONG)

"""torch.compile where the environment lies in a folder with a blank."""

from __future__ import annotations

import copy
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch.utils import cpp_extension

from linformer_fairseq.core import (
    LinformerEncoderLayer,
    LinformerSettings,
    build_attention_layers,
    build_shared_projection,
    compile_layers,
    compiling,
)
from linformer_fairseq.core.layer import _compiled
from tests.core.cases import settings_of

REPO = Path(__file__).resolve().parents[2]
PROGRAM = """
import torch
from linformer_fairseq.core import LinformerEncoderLayer, LinformerSettings, build_shared_projection, compile_layers
settings = LinformerSettings(24, 3, 1, 20, 6)
layer = LinformerEncoderLayer(settings, 0, build_shared_projection(settings), 32).eval()
x = torch.randn(2, 20, 24)
with torch.no_grad():
    plain = layer(x)
    compile_layers([layer])
    torch.testing.assert_close(layer(x), plain, atol=1e-5, rtol=1e-5)
print(torch.__file__)
"""


def _run(site: Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{REPO}", "TMPDIR": str(temporary)}
    env["TORCHINDUCTOR_CACHE_DIR"] = str(temporary / "cache")  # nothing that was compiled elsewhere is found
    # -S: the packages come from `site` alone.
    return subprocess.run([sys.executable, "-S", "-c", PROGRAM], env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The packages of this environment, by a path with a blank."""
    folder = tmp_path / "with a blank"
    folder.symlink_to(Path(torch.__file__).parents[1])
    return folder


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="code for GPUs needs no compiler for CPUs")
def test_layers_compile_in_a_folder_with_a_blank(site: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    temporary = tmp_path_factory.mktemp("temporary")
    done = _run(site, temporary)
    assert done.returncode == 0, done.stderr
    assert str(site) in done.stdout, "torch must have come by the path with a blank"
    assert len(list(temporary.glob("linformer-torch-*"))) == 1


def test_a_temporary_folder_with_a_blank_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    monkeypatch.setattr(compiling.tempfile, "gettempdir", lambda: str(tmp_path / "a b"))
    with pytest.raises(ValueError, match="TMPDIR"):
        compiling._hide_blanks(tmp_path / "a b")


def test_a_link_that_leads_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiling.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "a b").mkdir()
    monkeypatch.setattr(cpp_extension, "_TORCH_PATH", "before")
    monkeypatch.setattr(cpp_extension, "TORCH_LIB_PATH", "before")
    compiling._hide_blanks(tmp_path / "a b")
    (link,) = tmp_path.glob("linformer-torch-*")
    assert str(link) == cpp_extension._TORCH_PATH
    link.unlink()
    link.symlink_to(tmp_path)
    with pytest.raises(ValueError, match="compile_encoder"):
        compiling._hide_blanks(tmp_path / "a b")


@pytest.mark.skipif(torch.cuda.is_available(), reason="code for GPUs needs no compiler for CPUs")
def test_a_cache_in_a_folder_with_a_blank_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/a b/cache")
    with pytest.raises(ValueError, match="TORCHINDUCTOR_CACHE_DIR, which is '/a b/cache'"):
        compiling.prepare_compiler(1)
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")
    monkeypatch.setattr(compiling.tempfile, "gettempdir", lambda: "/a b")
    with pytest.raises(ValueError, match="TMPDIR, which is '/a b'"):
        compiling.prepare_compiler(1)


@pytest.mark.slow
@torch._dynamo.config.patch(recompile_limit=2)
def test_shapes_beyond_the_limit_of_graphs_run_without_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="eager"))
    monkeypatch.setattr(compiling, "_PROGRAMS", 0)
    _compiled.cache_clear()
    settings = LinformerSettings(24, 3, 1, 20, 5)
    layer = LinformerEncoderLayer(settings, 0, build_shared_projection(settings), 32).eval()
    plain = copy.deepcopy(layer)
    compile_layers([layer])
    try:
        for length in (20, 7, 1, 12):
            x = torch.randn(2, length, 24)
            for mask in (None, torch.arange(length) >= torch.tensor([[length], [1]])):
                for grad in (False, True):
                    with torch.set_grad_enabled(grad):
                        torch.testing.assert_close(layer(x, mask), plain(x, mask))
    finally:
        torch._dynamo.reset()
        _compiled.cache_clear()


def test_modules_without_steps_are_not_taken_for_compiled() -> None:
    attention, _ = build_attention_layers(settings_of("none-linear"))
    with pytest.raises(ValueError, match="^LinformerSelfAttention has no steps"):
        compile_layers(attention)


@torch._dynamo.config.patch(recompile_limit=8, accumulated_recompile_limit=256)
def test_the_limit_of_graphs_is_that_of_all_models_together() -> None:
    for _ in range(2):
        compiling.prepare_compiler(3)
    assert torch._dynamo.config.recompile_limit == 8 + 2 * 3 * compiling._PROGRAMS
    assert torch._dynamo.config.accumulated_recompile_limit == 256 + 2 * 3 * compiling._PROGRAMS

"""Python in the documentation: sessions give what they show, and blocks compile and run."""

from __future__ import annotations

import ast
import doctest
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.docs.pages import Block, blocks

_BLOCKS = blocks("python")


def test_the_page_on_data_is_a_session_that_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    failed, tried = doctest.testfile(
        str(REPOSITORY / "data_prep" / "README.md"), module_relative=False, encoding="utf-8"
    )
    assert tried > 30 and failed == 0


def imports(block: Block) -> set[str]:
    """The modules that a block imports, and `module.name` of what it imports from one."""
    found = set()
    for node in ast.walk(ast.parse(block.text, str(block))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def needs_fairseq(block: Block) -> bool:
    """Whether a block uses more than torch and core."""
    return any(not name.startswith(("torch", "linformer_fairseq.core")) for name in imports(block))


@pytest.mark.parametrize("block", [block for block in _BLOCKS if not needs_fairseq(block)], ids=str)
def test_blocks_on_torch_alone_run(block: Block) -> None:
    exec(compile(block.text, str(block), "exec"), {"__name__": "block"})


@pytest.mark.parametrize("block", [block for block in _BLOCKS if needs_fairseq(block)], ids=str)
def test_what_other_blocks_use_exists(block: Block) -> None:
    """They need a checkpoint; so only names are looked up."""
    from linformer_fairseq.models import LinformerRobertaModel
    from linformer_fairseq.models.hub import LinformerHubInterface

    known = {"LinformerRobertaModel": LinformerRobertaModel, "model": LinformerHubInterface}
    scope: dict[str, object] = {}
    tree = ast.parse(block.text, str(block))
    loaded = ast.Module([node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))], [])
    exec(compile(loaded, str(block), "exec"), scope)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = known.get(node.value.id, scope.get(node.value.id))
            assert hasattr(owner, node.attr), f"{node.value.id} has no {node.attr}"


def test_there_are_blocks_of_both_kinds() -> None:
    assert {needs_fairseq(block) for block in _BLOCKS} == {True, False}

"""The English text in Python's standard library: the manual's topics and the docstrings, in paragraphs.

Modules are parsed, never imported: importing the whole standard library has side effects (``antigravity``
opens a browser) and fails for modules of other systems.
"""

import ast
import hashlib
import re
import sysconfig
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from linformer_fairseq.files.errors import UserError

# Not the library's own text, or only its tests (CPython's test package alone is larger than all the rest).
_SKIPPED = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "pydoc_data"})
_BLANK_LINES = re.compile(r"\n[^\S\n]*\n")
# Rules under and over headings ("=====", "*****"): a line of one repeated mark says nothing.
_RULE = re.compile(r"^\s*([*=\-~^_#\"'+])\1{2,}\s*$", re.MULTILINE)
# C0 and C1 control characters other than tab, newline and carriage return, and the byte order mark.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff]")


@dataclass(frozen=True)
class Docstring:
    """One docstring and where it stands."""

    module: str
    """Dotted module name, such as ``email.message``."""
    name: str
    """Dotted name inside the module; empty for the module's own docstring."""
    text: str

    @property
    def package(self) -> str:
        """The top-level package or module."""
        return self.module.partition(".")[0]


def stdlib_folder() -> Path:
    """Where this Python keeps its standard library."""
    return Path(sysconfig.get_path("stdlib"))


def topics(folder: Path | None = None) -> dict[str, str]:
    """The topics of ``pydoc_data.topics`` (what ``help("FOR")`` shows), by name.

    Raises:
        UserError: this Python was installed without them.
    """
    path = (folder or stdlib_folder()) / "pydoc_data" / "topics.py"
    if not path.exists():
        raise UserError(
            f"{path}: this Python has no pydoc_data.topics (some slim images leave it out); use a complete "
            "CPython, or take text of your own"
        )
    for node in ast.parse(path.read_bytes()).body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            value = ast.literal_eval(node.value)
            return {name: value[name] for name in sorted(value)}
    raise UserError(f"{path}: no dictionary of topics in it")


@cache
def docstrings(folder: Path | None = None) -> tuple[Docstring, ...]:
    """All docstrings of modules, classes and functions of the standard library, in a fixed order; takes seconds."""
    root = folder or stdlib_folder()
    found: list[Docstring] = []
    for path in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).parts):
        parts = path.relative_to(root).with_suffix("").parts
        top = parts[0]
        if _SKIPPED.intersection(parts[:-1]) or "-" in top or top == "__phello__":
            continue
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in somebody's docstring are not our concern
            try:
                tree = ast.parse(path.read_bytes())
            except (SyntaxError, ValueError):
                continue  # a distributor's template or a deliberately broken file
        _collect(tree, module, "", found)
    return tuple(found)


def _collect(node: ast.AST, module: str, name: str, found: list[Docstring]) -> None:
    """Append the docstrings of ``node`` and of what it contains, in source order."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        text = ast.get_docstring(node)
        if text:
            found.append(Docstring(module, name, text))
    for child in ast.iter_child_nodes(node):
        inner = getattr(child, "name", None) if isinstance(child, ast.stmt) else None
        if not isinstance(inner, str):  # the name in `type X = ...` (Python 3.12 and later) is a node
            inner = None
        _collect(child, module, ".".join(filter(None, (name, inner))), found)


def paragraphs(text: str) -> list[str]:
    """Blank-line-separated blocks of ``text``, each on one line with single spaces."""
    text = _CONTROL.sub(" ", text.replace("\r\n", "\n").replace("\r", "\n"))
    blocks = (" ".join(block.split()) for block in _BLANK_LINES.split(_RULE.sub("", text)))
    return [block for block in blocks if block]


def fingerprint(text: str) -> bytes:
    """SHA-256 of ``text`` with case and white space levelled: equal texts to a reader are equal here."""
    return hashlib.sha256(" ".join(text.casefold().split()).encode("utf-8", "surrogatepass")).digest()

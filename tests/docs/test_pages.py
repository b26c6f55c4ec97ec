"""Links and anchors of the documentation resolve, and README stays short."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY
from tests.docs.pages import PAGES, name_of, prose

_LINK = re.compile(r"\]\(([^()\s]+)\)")
_CODE = re.compile(r"`[^`]*`")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ +(.+?) *$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def broken_links(page: Path) -> list[str]:
    """The relative links of a page that lead nowhere."""
    broken = []
    for link in _LINK.findall(_CODE.sub("`code`", prose(page))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_resolve(page: Path) -> None:
    assert broken_links(page) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b`, c!\n## Twice\n## Twice\n[1](page.md#a-b-c) [2](#twice-1) [3](https://example.org/x)\n"
        "[4](#twice-2) [5](missing.md) ![6](page.png) [7](page.md#nothing)\n`[8](code.md)`\n```\n# [9](code.md)\n```\n"
    )
    assert broken_links(page) == ["#twice-2", "missing.md", "page.png", "page.md#nothing"]


def test_readme_is_short() -> None:
    assert len((REPOSITORY / "README.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_readme_links_to_every_page() -> None:
    links = set(_LINK.findall(prose(REPOSITORY / "README.md")))
    assert {name_of(page) for page in REPOSITORY.glob("docs/*.md")} <= links


def test_every_option_of_the_model_is_described() -> None:
    from linformer_fairseq.models.config import OPTIONS_OF_LINFORMER

    page = (REPOSITORY / "docs/options.md").read_text(encoding="utf-8")
    ours = [*OPTIONS_OF_LINFORMER, "checkpoint_activations", "offload_activations"]  # which RoBERTa lacks, too
    assert [name for name in ours if f"\n| `{name}` |" not in page] == []


def test_the_model_card_names_every_model() -> None:
    pytest.importorskip("fairseq")
    from linformer_fairseq.files.shipped import shipped_models

    card = (REPOSITORY / "linformer_fairseq/weights/README.md").read_text(encoding="utf-8")
    assert [name for name in shipped_models() if f"\n| `{name}` |" not in card] == []


def test_the_tests_that_pages_name_are_there() -> None:
    named = {
        match for page in PAGES for match in re.findall(r"`(tests/\S+\.py)::(\w+)`", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    missing = [
        f"{path}::{test}"
        for path, test in sorted(named)
        if f"def {test}(" not in (REPOSITORY / path).read_text(encoding="utf-8")
    ]
    assert missing == []

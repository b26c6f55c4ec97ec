"""Markdown tables: the rule below the head, padding and escaped bars; and links to any file."""

from pathlib import Path
from urllib.parse import unquote

import pytest

from linformer_fairseq.files.markdown import link, markdown_table, picture

ROWS = [["", "A"], ["parameters", "1,000"]]


def test_columns_line_up_where_they_are_padded() -> None:
    assert markdown_table(ROWS, padded=True) == [
        "|            |     A |",
        "|------------|------:|",
        "| parameters | 1,000 |",
    ]
    assert markdown_table(ROWS, left=range(2), padded=True)[1:] == ["|------------|-------|", "| parameters | 1,000 |"]


def test_cells_are_not_padded_otherwise() -> None:
    assert markdown_table(ROWS) == ["|  | A |", "| --- | ---: |", "| parameters | 1,000 |"]
    assert markdown_table(ROWS, left=(), gap="")[1] == "|---:|---:|"


def test_a_bar_in_a_cell_begins_no_column() -> None:
    assert markdown_table([["a"], ["b|c"]])[-1] == r"| b\|c |"
    assert markdown_table([["a"], ["b|c"]], padded=True)[0] == "| a    |"


@pytest.mark.parametrize("name", ["one/a.png", "two words/a.png", "a (1)/b).png", "50 %/ü.png"])
def test_a_link_leads_to_its_file_whatever_the_name(name: str) -> None:
    markdown_it = pytest.importorskip("markdown_it")
    parsed = markdown_it.MarkdownIt().parse(f"{link('page', Path(name))} {picture('figure', Path(name))}")
    targets = [token.attrs.get("href", token.attrs.get("src")) for token in parsed[1].children if token.attrs]
    assert [unquote(target) for target in targets] == [name, name]

"""Markdown tables: the rule below the head, padding and escaped bars."""

from linformer_fairseq.files.markdown import markdown_table

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

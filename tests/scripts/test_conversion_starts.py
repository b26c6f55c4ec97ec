"""The table of conversions in docs/conversion.md: how it is measured, and that it is the stored one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.measuring import said
from linformer_fairseq import cli
from linformer_fairseq.files.json_records import read_object
from scripts.reproduce_tools import conversion_starts, dense_small
from tests.conftest import REPOSITORY
from tests.data_prep.small_tokenizers import text


def test_the_page_has_the_stored_table() -> None:
    result = read_object(REPOSITORY / "results" / "conversion" / "starts.json")
    page = (REPOSITORY / "docs" / "conversion.md").read_text(encoding="utf-8")
    assert "\n".join(conversion_starts.table(result)) in page
    assert f"({said(result['provenance'])})" in page
    assert f"perplexity of {result['source']:.1f}" in page
    assert f"{result['text']['blocks']} blocks of {result['text']['length']} tokens" in page


@pytest.mark.slow
def test_a_row_is_what_the_command_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sample, out = tmp_path / "sample.txt", tmp_path / "starts.json"
    sample.write_text(text(40), encoding="utf-8")
    monkeypatch.setattr(conversion_starts, "DIMS", (16,))
    monkeypatch.setattr(conversion_starts, "WAYS", (("linear", "dct"),))
    conversion_starts.main(["--text", str(sample), "--text-tokens", "512", "--out", str(out)])
    result = json.loads(out.read_text())
    assert capsys.readouterr().out.startswith("\n".join(conversion_starts.table(result)))
    assert result["provenance"]["command"].endswith("--text sample.txt --text-tokens 512 --out " + str(out))
    dense_small.write_dense(tmp_path / "dense")
    words = ["convert", str(tmp_path / "dense"), str(tmp_path / "out"), "--projected-dim", "16", "--start", "dct"]
    assert cli.main([*words, "--text", str(sample), "--text-tokens", "512"]) == 0
    compared = json.loads((tmp_path / "out" / "conversion.json").read_text())["comparison"]
    (row,), (expected,) = result["rows"], compared["perplexity"]
    assert (row["perplexity"], result["source"]) == (expected["result"], expected["source"])
    assert row["errors"] == compared["attention_errors"]

"""`linformer experiments list`."""

from __future__ import annotations

import pytest

from linformer_fairseq.cli import experiments, main
from tests.conftest import REPOSITORY

FEW = {"mini_n64_k8": (64, 8, "none"), "mini_n128_k8": (128, 8, "layerwise"), "mini_n64_k16": (64, 16, "layerwise")}


@pytest.fixture
def configs(tmp_path):
    """Configs with three experiments of small models, so that a test takes no time."""
    for path in (REPOSITORY / "configs").rglob("*.yaml"):
        if "experiment" not in path.parts:
            copy = tmp_path / path.relative_to(REPOSITORY / "configs")
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(path.read_text())
    (tmp_path / "experiment").mkdir()
    for name, (n, k, sharing) in FEW.items():
        (tmp_path / "experiment" / f"{name}.yaml").write_text(
            "# @package _global_\n"
            f"task: {{tokens_per_sample: {n}}}\n"
            f"model: {{_name: linformer_roberta_tiny, projected_dim: {k}, sharing: {sharing}}}\n"
            f"run: {{tokens_per_update: 1048576, paper: {{figure3: [a, d], table2: 'Row {k}'}}}}\n"
        )
    return tmp_path


def test_text(configs, capsys):
    assert main(["experiments", "list", "--config-dir", str(configs)]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    # by n, then k
    assert [line.split()[0] for line in lines] == ["mini_n64_k8", "mini_n64_k16", "mini_n128_k8"]
    first = lines[0].split()
    assert first[1:4] == ["64", "8", "none"]
    assert first[5:8] == ["16,384", "1,048,576", "262,144,000,000"]
    assert lines[0].endswith("a, d      Row 8")
    assert head.index("k  sharing") + 1 == lines[0].index("8  none") + 1


def test_markdown(configs, capsys):
    assert main(["experiments", "list", "--format", "markdown", "--config-dir", str(configs)]) == 0
    head, rule, *lines = capsys.readouterr().out.splitlines()
    assert head.startswith("| experiment | n | k |") and rule.startswith("| --- | ---: | ---: |")
    assert {line.count(" | ") for line in (head, rule, *lines)} == {10}
    assert lines[0].startswith("| `mini_n64_k8` | 64 | 8 | none |") and lines[0].endswith("| a, d | Row 8 |")


def test_roberta_has_no_k(configs, capsys):
    for name in FEW:
        (configs / "experiment" / f"{name}.yaml").unlink()
    (configs / "experiment" / "aa.yaml").write_text(
        "# @package _global_\ndefaults: [override /model: roberta_base]\nmodel: {encoder_layers: 2}\n"
    )
    assert main(["experiments", "list", "--config-dir", str(configs)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:4] == ["aa", "512", "-", "-"]


def test_an_experiment_that_cannot_be_composed_is_named(configs, capsys):
    (configs / "experiment" / "broken.yaml").write_text("# @package _global_\nmodel: {sharing: layers}\n")
    assert main(["experiments", "list", "--config-dir", str(configs)]) == 1
    assert "error: experiment broken: " in (error := capsys.readouterr().err) and "layers" in error
    (configs / "experiment" / "broken.yaml").write_text("# @package _global_\ntask: {token_per_sample: 3}\nx: 1\n")
    assert main(["experiments", "list", "--config-dir", str(configs)]) == 1
    assert "error: experiment broken: " in capsys.readouterr().err


def test_no_experiments(tmp_path, capsys):
    assert main(["experiments", "list", "--config-dir", str(tmp_path)]) == 1
    assert f"{tmp_path / 'experiment'}: no experiments there; expected files NAME.yaml" in capsys.readouterr().err


@pytest.mark.slow
def test_the_table_in_the_docs_is_what_the_command_prints():
    page = (REPOSITORY / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert page.count("<!-- experiments -->") == page.count("<!-- /experiments -->") == 1
    found = page.split("<!-- experiments -->")[1].split("<!-- /experiments -->")[0].strip().splitlines()
    assert found == experiments.markdown(experiments.rows()), (
        "put the output of `linformer experiments list --format markdown` there"
    )

"""`linformer report`: what is on the page, what is named as missing, and what is refused."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")  # what `linformer analyse report` needs

from linformer_fairseq import cli
from linformer_fairseq.cli import report
from linformer_fairseq.report.build import OUTLINE, page
from linformer_fairseq.report.learning import STUDIES
from tests.conftest import REPOSITORY
from tests.messages import says
from tests.report import small_results

RESULTS = REPOSITORY / "results"
ANCHORS = ["table1", "table2", "table3", "figure1", "figure2", "figure3", "theorems", "learning", "limits"]


class Page(HTMLParser):
    """The text and the missing parts of each section, and what the page refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sections: dict[str, str] = {}
        self.missing: dict[str, list[str]] = {}
        self.sources: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self._section = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        if tag not in ("meta", "link", "img", "br"):
            self._open.append(tag)
        if tag == "section":
            self._section = str(given["id"])
            self.sections[self._section], self.missing[self._section] = "", []
        if tag == "blockquote":
            self.missing[self._section].append("")
        if tag == "table":
            assert self._open[-2] == "div", "tables scroll in their own frame"
        self.sources += [str(given[name]) for name in ("src", "href") if name in given]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "well-formed"

    def handle_data(self, data: str) -> None:
        if self._section:
            self.sections[self._section] += data
        if "blockquote" in self._open:
            self.missing[self._section][-1] += data

    @property
    def figures(self) -> list[bytes]:
        return [base64.b64decode(source.partition("base64,")[2]) for source in self.sources if "base64," in source]


@pytest.fixture(scope="module")
def ours() -> Page:
    """The page on the repository's results."""
    return Page(page(RESULTS))


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return small_results.make(tmp_path / "results")


def test_every_section_is_on_the_page_in_order(ours: Page) -> None:
    assert list(ours.sections) == ANCHORS == [*(one.anchor for one in OUTLINE), "limits"]


def test_the_page_needs_nothing_else(ours: Page) -> None:
    assert "script" not in ours.tags
    assert all(source.startswith(("data:", "#")) for source in ours.sources)
    assert {source[1:] for source in ours.sources if source.startswith("#")} == set(ANCHORS)


def test_the_papers_numbers_are_beside_ours(ours: Page) -> None:
    assert "O(n log n)" in ours.sections["table1"]
    assert "92.25" in ours.sections["table2"]
    assert re.search(r"\d \[[\d.]+\] \(8\.6\)", ours.sections["table3"]), "16,384, k = 128"
    assert "ε 0.49" in ours.sections["theorems"] and "194.2 (192.6 to 196.4, 3)" in ours.sections["learning"]


PRESETS = {"table1": "table1", "table3": "table3", "figure2": "figure2", "limits": "short"}
MADE = [
    *((name, path) for name, preset in PRESETS.items()
      for path in sorted(RESULTS.glob(f"efficiency/inference_{preset}*.json"))),
    *(("figure1", path) for path in sorted(RESULTS.rglob("spectrum.json"))),
    *(("theorems", path) for path in sorted(RESULTS.rglob("theory.json"))),
]  # fmt: skip


def test_every_part_of_the_page_has_measurements() -> None:
    assert {section for section, _ in MADE} == {*PRESETS, "figure1", "theorems"}


@pytest.mark.parametrize(("section", "path"), MADE, ids=lambda value: value if isinstance(value, str) else value.stem)
def test_each_measurement_has_its_provenance(section: str, path: Path, ours: Page) -> None:
    found = json.loads(path.read_text())
    for made in [found["provenance"], *found.get("resumed", [])]:
        hardware = made.get("hardware") or made["machine"]
        assert says(ours.sections[section], made["command"], made["date"], made["commit"][:10], hardware)


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ("table2", "small"),
        ("figure3", "small"),
        *(("learning", path.parent.relative_to(RESULTS)) for path in sorted(RESULTS.glob("learning/*/runs.jsonl"))),
    ],
    ids=str,
)
def test_each_file_of_rows_is_named(section: str, name: object, ours: Page) -> None:
    assert f"rows: results/{name}/runs.jsonl" in ours.sections[section].replace("Rows:", "rows:")


def test_no_stored_figure_is_missing(ours: Page) -> None:
    stored = [path for part in ("analysis/*", "small", "learning/*") for path in RESULTS.glob(f"{part}/*.svg")]
    stored += [path for part in ("table1", "figure2") for path in RESULTS.glob(f"efficiency/inference_{part}*.png")]
    stored += [*RESULTS.glob("efficiency/*_ratios.png")]
    assert sorted(ours.figures) == sorted(path.read_bytes() for path in stored)
    assert not any("the figure" in text for texts in ours.missing.values() for text in texts)


def test_what_is_missing_in_the_repository(ours: Page) -> None:
    """Fails when it is made, or when something is lost."""
    assert {name: len(texts) for name, texts in ours.missing.items() if texts} == {
        **{"table2": 1, "table3": 1, "figure1": 2, "figure2": 1, "figure3": 1, "learning": 1}
    }
    assert "linformer pretrain experiment=NAME" in ours.missing["table2"][0]
    assert "4 of 4 in panel a" in ours.missing["figure3"][0], "small runs do not fill it"
    assert "--device cuda" in ours.missing["table3"][0] and "--device cuda" in ours.missing["figure2"][0]
    for texts in ours.missing.values():
        for text in texts:
            what = text.removeprefix("\nMissing: ").partition(".")[0]
            assert what in ours.sections["limits"]


def test_an_empty_folder_has_every_section_with_what_would_fill_it(tmp_path: Path) -> None:
    found = Page(page(tmp_path))
    assert list(found.sections) == ANCHORS and found.figures == []
    assert {name: len(texts) for name, texts in found.missing.items()} == {
        **{"table1": 1, "table2": 2, "table3": 2, "figure1": 2, "figure2": 2, "figure3": 2, "theorems": 1},
        **{"learning": 5, "limits": 3},
    }
    assert "92.25" in found.sections["table2"], "the paper's numbers are there without ours"
    assert "n = 512, 1,024, 2,048" in found.missing["table3"][0]
    assert says(found.missing["table3"][0], "linformer benchmark inference --preset table3 --lengths 512 1024")


def test_commands_that_make_what_is_missing_exist(tmp_path: Path) -> None:
    pytest.importorskip("fairseq")
    from tests.docs.pages import Block
    from tests.docs.test_commands import check, commands_of

    commands = re.findall(r"<blockquote>.*?<code>(.*?)</code>", page(tmp_path), re.DOTALL)
    assert len(commands) == 20
    for text in (text.replace("NAME", "roberta_base_n512") for text in commands):
        for words in commands_of(Block(Path("page"), 1, "bash", unescape(text))):
            check(words)


def test_small_results_are_shown(small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new/page.html"
    assert cli.main(["report", "--results", str(small), "--out", str(out)]) == 0
    assert capsys.readouterr() == (f"{out}\n", f"the page shows {small}\n")
    found = Page(out.read_text())
    assert says(re.sub(r"\n+", "|", found.sections["table1"]), "Transformer|O(n²)|O(1)|Transformer, P stored")
    assert "3 [1] (1.5)" in found.sections["table3"] and "171 (3.00 [1.00])" in found.sections["figure2"]
    assert "55.5 (1, 1e-5)" in found.sections["table2"] and "61.5" in found.sections["figure3"]
    assert says(found.sections["limits"], "25.0 %") and "analysis/three/limits.png" in found.missing["limits"][0]
    assert says(found.sections["limits"], "37.5 %") and "analysis/four/insertion.png" in found.missing["limits"][1]
    assert "195,312" in found.sections["limits"], "J per million tokens"
    assert (
        "0.450 (0.400 to 0.500)" in found.sections["figure1"]
        and "feedbeef0123; a small machine" in found.sections["figure1"]
    )
    assert "21.5 %" in found.sections["theorems"] and "linformer analyse theory" in found.sections["theorems"]
    assert "82.2" in found.sections["learning"] and "61.5" in found.sections["learning"]
    assert says(found.sections["limits"], "0 of our 4 runs")
    assert [path.name for path in out.parent.iterdir()] == ["page.html"], "no temporary file"
    assert page(small) == out.read_text(), "equal results give an equal page"
    assert cli.main(["report", "--results", str(small), "--out", str(out)]) == 0, "an earlier page is replaced"
    out.write_text("mine")
    assert cli.main(["report", "--results", str(small), "--out", str(out)]) == 1
    assert out.read_text() == "mine" and says(capsys.readouterr().err, f"{out}: was not made by this command")


def test_a_figure_that_was_not_drawn_is_missing_with_its_command(small: Path) -> None:
    found = Page(page(small)).missing
    stem = "small/figure3_2x32_20updates_8192tokens"
    assert says(found["figure3"][0], f"the figure {stem}.png")
    assert "linformer results figure3 --runs results/small/runs.jsonl" in found["figure3"][0]
    assert "analysis/one/spectrum_curves.png" in found["figure1"][0]
    assert "linformer analyse spectrum MODEL TEXT --out results/analysis/one" in found["figure1"][0]
    assert "efficiency/inference_figure2.png" in found["figure2"][0]
    assert "linformer benchmark report --results results/efficiency" in found["figure2"][0]
    before = len(found["figure3"])

    (small / f"{stem}.png").write_bytes(small_results.PNG)
    drawn = Page(page(small))
    assert drawn.figures == [small_results.PNG] and len(drawn.missing["figure3"]) == before - 1
    (small / f"{stem}.svg").write_text("<svg/>")
    assert Page(page(small)).figures == [b"<svg/>"], "SVG is sharp at every width"
    (small / "learning/released/perplexity.png").write_bytes(small_results.PNG)
    assert Page(page(small)).figures == [b"<svg/>", small_results.PNG]


def test_a_folder_whose_name_has_spaces_and_brackets(small: Path) -> None:
    (small / "analysis/one").rename(small / "analysis/one (of two)")
    missing = Page(page(small)).missing["figure1"][0]
    assert "the figure analysis/one (of two)/spectrum_curves.png" in missing
    assert "--out 'results/analysis/one (of two)'" in missing
    (small / "analysis/one (of two)/spectrum_curves.png").write_bytes(small_results.PNG)
    assert Page(page(small)).figures == [small_results.PNG]


def test_runs_of_the_papers_scale_are_not_missing(small: Path) -> None:
    (small / "runs.jsonl").write_text("".join(small_results.large()))
    found = Page(page(small))
    assert "39 of 40 accuracies" in found.missing["table2"][0] and "93.7 (1, 1e-5)" in found.sections["table2"]
    left = "".join(found.missing["figure3"])
    assert "3 of 4 in panel a, 3 of 4 in panel b, 4 of 5 in panel c, 3 of 4 in panel d" in left
    assert says(found.sections["limits"], "2 of our 6 runs")


def test_two_files_of_a_table_have_two_titles(small: Path) -> None:
    stored = json.loads((small / "efficiency/inference_table3.json").read_text())
    for cell in stored["cells"]:
        cell.update(n=1024, length=1024)
    (small / "efficiency/inference_table3_1024.json").write_text(json.dumps(stored))
    titles = re.findall("<h4>(.*?)</h4>", page(small).partition('<section id="table3">')[2].partition("</section>")[0])
    assert titles == ["some machine, n = 512", "some machine, n = 1,024"]


def test_several_inputs_of_a_length_are_not_shown_as_one(small: Path) -> None:
    for name in ("table1", "table3", "figure2"):
        path = small / f"efficiency/inference_{name}.json"
        stored = json.loads(path.read_text())
        stored["cells"] += [cell | {"wanted_batch": 8, "batch": 8} for cell in stored["cells"]]
        path.write_text(json.dumps(stored))
    found = Page(page(small))
    assert not any("some machine" in found.sections[name] for name in ("table1", "table3", "figure2"))


def test_a_measurement_on_a_gpu_is_not_missing(small: Path) -> None:
    for name in ("table3", "figure2"):
        path = small / f"efficiency/inference_{name}.json"
        path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    found = Page(page(small)).missing
    assert not any("--device cuda" in text for name in ("table3", "figure2") for text in found[name])
    assert says(found["table3"][1], "n = 1,024, 2,048, 4,096, 8,192, 16,384, 32,768, 65,536")


DAMAGED: list[tuple[str, Callable[[str], str]]] = [
    ("efficiency/inference_table3.json", lambda text: text[:-1]),
    ("efficiency/inference_figure2.json", lambda text: "[]"),
    ("efficiency/inference_short.json", lambda text: text.replace('"tokens"', '"other"')),
    ("efficiency/inference_table3.json", lambda text: text.replace('"all_seconds": [', '"all_seconds": ["x", ')),
    ("efficiency/inference_table3.json", lambda text: '{"kind": "", "settings": [], "provenance": {}, "cells": []}'),
    ("analysis/one/spectrum.json", lambda text: text.replace('"theory"', "").replace('"spectrum"', '"theory"')),
    ("analysis/one/spectrum.json", lambda text: text.replace('"needed"', '"other"')),
    ("analysis/three/limits.json", lambda text: text.replace('"masked"', '"other"')),
    ("analysis/four/insertion.json", lambda text: text.replace('"changed"', '"other"')),
    ("analysis/two/theory.json", lambda text: text.replace('"within_norms": 1.0', '"within_norms": "x"')),
    ("small/runs.jsonl", lambda text: text + "{"),
    ("learning/released/sst2.json", lambda text: "{}"),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGED)
def test_a_damaged_file_is_named_and_the_old_page_kept(
    name: str, damage: Callable[[str], str], small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    out.write_text("old")
    (small / name).write_text(damage((small / name).read_text()))
    assert cli.main(["report", "--results", str(small), "--out", str(out)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"linformer report: error: {small / name}")
    assert out.read_text() == "old" and sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "results"]


def test_names_in_files_are_text_and_read_no_other_file(small: Path) -> None:
    (small.parent / "secret.png").write_bytes(small_results.PNG)
    name = "<script>x</script> ![a](../secret.png) ![b](https://example.org/x.png) ![c](/) ![d]()"
    (small / "analysis/one/spectrum.json").write_text(json.dumps(small_results.spectrum(name)))
    found = Page(page(small))
    assert "script" not in found.tags and "<script>x</script>" in found.sections["figure1"]
    assert found.figures == [] and not any("example.org" in source for source in found.sources)


def test_without_a_folder_of_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in a wheel."""
    monkeypatch.setattr(report, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["report"]) == 1
    assert says(capsys.readouterr().err, "error: there is no clone here", "--results")
    assert cli.main(["report", "--results", "gone"]) == 1
    assert says(capsys.readouterr().err, "error: gone: no such folder")
    assert list(tmp_path.iterdir()) == []
    small_results.make(tmp_path / "results")
    assert cli.main(["report"]) == 0 and Path("report.html").is_file()


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_number_of_runs_is_the_scripts(study) -> None:
    """Counts the runs that the script would start, with everything else left out."""
    text = (REPOSITORY / "scripts/reproduce_learning.sh").read_text()
    functions = re.findall(r"^\w+\(\) \{.*?^\}$", text, re.MULTILINE | re.DOTALL)
    defaults = re.findall(r"^(?:vocab_size|released_updates|plateau_updates)=.*$", text, re.MULTILINE)
    program = "\n".join(
        [
            *defaults,
            *(
                f"{name}() {{ :; }}"
                for name in ("prepare_task", "linformer_data", "linformer", "python", "cmp", "rm", "ln")
            ),
            "fast_precision() { :; }",
            "run_all() { count=$((count + ${#lines[@]})) lines=(); }",
            *functions,
            f"[[ {study.name} != released ]] || seeds=$released_seeds updates=$released_updates",
            f"[[ {study.name} != plateau ]] || seeds=$plateau_seeds updates=$plateau_updates",
            f"count=0 lines=() data=data repo=repo runs=runs schedule= finetuning=; {study.name}; echo $count",
        ]
    )
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, cwd="/")
    assert done.stdout.split() == [str(study.runs)], done.stderr

"""The self-check's two ways, its verdict and its table."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.efficiency import selfcheck
from tests.benchmarks.conftest import TINY

WORDS = ["selfcheck", "--models", "roberta_sdpa_core", "--lengths", "16", "--projected-dim", "4", "--tokens", "64"]
WORDS += ["--rounds", "2", "--threads", "1", *TINY]


class Side:
    """A program that answers at once; the harness takes SLOWER times as long as the plain one."""

    slower = 1.0

    def __init__(self, name, case, environment):
        self.factor = self.slower if name == "harness" else 1.0
        self.environment = environment
        assert case["lengths"][0] == case["n"] and (min(case["lengths"]) < case["n"]) is case["padded"]

    def line(self):
        return "READY"

    def ask(self, what):
        assert (what == "pass") is (self.environment == {}), "times are those of an ordinary process"
        return {"pass": 2.0 * self.factor, "operations": 100.0, "peak": 1000.0}[what]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize(("slower", "status"), [(1.04, 0), (1.06, 1), (0.94, 1)])
def test_a_time_too_far_off_fails(tmp_path, monkeypatch, capsys, slower, status):
    monkeypatch.setattr(selfcheck, "Side", Side)
    monkeypatch.setattr(Side, "slower", slower)
    out = tmp_path / "s.json"
    assert main([*WORDS, "--out", str(out)]) == status
    found = json.loads(out.read_text())
    assert found["kind"] == "selfcheck" and "commit" in found["provenance"]
    assert [(c["n"], c["padded"], c["passed"]) for c in found["cells"]] == [
        (16, padded, not status) for padded in (False, True)
    ]
    assert found["cells"][0]["time_ratio"] == pytest.approx(slower)
    assert "| 4 x 16, padded |" in capsys.readouterr().out
    assert main([*WORDS, "--out", str(out), "--resume"]) == status
    assert json.loads(out.read_text())["cells"] == found["cells"]


def test_mistakes_are_said_in_one_line(refused):
    assert "is not checked" in refused("selfcheck", "--models", "linformer_core")
    assert "k < n" in refused(*WORDS, "--projected-dim", "16")


@pytest.mark.slow
def test_a_program_that_ends_is_said(monkeypatch, tmp_path, refused):
    monkeypatch.setitem(selfcheck.SIDES, "plain", [*selfcheck.SIDES["plain"][:2], str(tmp_path / "none.py")])
    assert "roberta_sdpa_core, plain: its process ended: " in refused(*WORDS, "--out", str(tmp_path / "s.json"))


class Counted(selfcheck.Side):
    """A program that is started only for operations and memory: how long passes take is not tested."""

    def __init__(self, name, case, environment):
        self.started = environment == selfcheck.FREED_AT_ONCE
        if self.started:
            super().__init__(name, case, environment)

    def line(self):
        return super().line() if self.started else "READY"

    def ask(self, what):
        return super().ask(what) if self.started else 1.0

    def __exit__(self, *error):
        if self.started:
            super().__exit__(*error)


@pytest.mark.slow
@pytest.mark.parametrize("name", selfcheck.RIVALS)
def test_both_ways_build_the_same_model(name, tmp_path, monkeypatch):
    if reason := selfcheck.missing(name):
        pytest.skip(reason)
    if name != "roberta_sdpa_core":  # one is timed, too: that which starts fastest
        monkeypatch.setattr(selfcheck, "Side", Counted)
    out = tmp_path / "s.json"
    words = [word if word != "roberta_sdpa_core" else name for word in WORDS]
    main([*words, "--rounds", "1", "--out", str(out)])  # how long they take, and so the status, is not tested
    assert [cell["operations_ratio"] for cell in json.loads(out.read_text())["cells"]] == pytest.approx(
        [1.0] * (2 if name in selfcheck.MASKED else 1)
    )

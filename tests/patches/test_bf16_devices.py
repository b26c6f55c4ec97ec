"""--bf16 does not mean a TPU where there is none."""

from pathlib import Path
from typing import Any

import pytest
from fairseq.distributed import utils

import linformer_fairseq.models  # noqa: F401 (registers the model and installs the patches)
from tests.fairseq_config import parse


def _config(corpus: Path, *flags: str) -> Any:
    words = ["--task", "masked_lm", "--arch", "roberta", "--batch-size", "1"]
    return parse(corpus, *words, "--criterion", "masked_lm", "--optimizer", "adam", *flags)


def _on_tpu(config: Any) -> list[str]:
    """The parts of a config that are told so."""
    return [name for name, part in config.items() if getattr(part, "tpu", False)]


@pytest.mark.parametrize("flag", ["--bf16", "--memory-efficient-bf16"])
def test_bf16_implies_no_tpu_anywhere(tiny_corpus: Path, flag: str) -> None:
    config = _config(tiny_corpus, flag)
    assert {"common", "distributed_training", "criterion", "optimizer"} <= {*_on_tpu(config)}  # fairseq's own doing
    seen = []
    utils.call_main(config, lambda cfg: seen.append((cfg.common.bf16, _on_tpu(cfg))))
    assert seen == [(True, [])]


def test_a_tpu_that_was_asked_for_stays(tiny_corpus: Path) -> None:
    seen = []
    utils.call_main(_config(tiny_corpus, "--tpu"), lambda cfg: seen.append(cfg.common.tpu))
    assert seen == [True]


@pytest.mark.parametrize(
    ("flags", "has", "warned"),
    [(["--bf16"], False, True), (["--bf16"], True, False), (["--bf16"], None, False), ([], False, False)],
)
def test_a_processor_without_bfloat16_is_warned_of(
    tiny_corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    flags: list[str],
    has: bool | None,
    warned: bool,
) -> None:
    monkeypatch.setattr("linformer_fairseq.patches.bf16_devices.has_bfloat16", lambda: has)
    utils.call_main(_config(tiny_corpus, "--cpu", *flags), lambda cfg: None)
    assert any("no instructions" in message for message in caplog.messages) is warned

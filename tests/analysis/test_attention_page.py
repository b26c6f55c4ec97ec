"""The page of `linformer analyse attention` in a headless Chromium: clicking, keys, and what it then shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from linformer_fairseq.analysis import attention
from linformer_fairseq.analysis.attention import probabilities, weights
from linformer_fairseq.analysis.attention_page import write_page
from linformer_fairseq.analysis.fairseq_encoder import load_fairseq
from linformer_fairseq.files.shipped import shipped_folder
from tests.browser import Browser
from tests.models import make_pretrained

pytestmark = pytest.mark.slow

EVIL = 'the </script><img src=x onerror="document.title=1"> <b>a</b>'
SMALL = shipped_folder("linformer-small")
SENTENCE = "She read the letter twice and put it back into the drawer. "


def written(model: Path, weights: str, text: str, out: Path) -> dict[str, Any]:
    encoder = load_fairseq(model / weights, model, torch.device("cpu"))
    record = attention.measure(encoder, attention.Settings("my_model", "0", text), out, "command")
    write_page(record, out)
    return record


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Windows of one token."""
    out = tmp_path_factory.mktemp("short")
    return out, written(SMALL, "model.safetensors", SENTENCE, out)


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Windows of several."""
    out = tmp_path_factory.mktemp("long")
    return out, written(SMALL, "model.safetensors", SENTENCE * 25, out)


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    work = tmp_path_factory.mktemp("linear")
    model = make_pretrained(work, "--projection", "linear", "--sharing", "none")
    return work / "out", written(model, "model.safetensors", EVIL, work / "out")


def opened(browser: Browser, out: Path) -> Browser:
    browser.size(1200, 900)
    browser.open((out / "attention.html").as_uri())
    browser.wait("document.querySelector('#rows button') !== null")
    return browser


def percent(share: float) -> str:
    if share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


def head_button(layer: int, head: int) -> str:
    return f"#heads button[title='layer {layer}, head {head}']"


def token_button(number: int) -> str:
    return f"#tokens button:nth-child({number})"


def rows(browser: Browser) -> list[tuple[str, str]]:
    """The shares and the names in the list."""
    values, names = browser.texts("#rows .value"), browser.texts("#rows .name")
    return list(zip(values, names, strict=True))


def chosen(browser: Browser) -> list[str]:
    """Head, token and row that are chosen."""
    return [browser.texts(f"#{group} [aria-checked=true]")[0] for group in ("tokens", "rows")] + [
        str(browser.value("document.querySelector('#heads [aria-checked=true]').title"))
    ]


def background(browser: Browser, number: int) -> tuple[int, ...]:
    """Red, green, blue of a token."""
    found = browser.value(f"getComputedStyle(document.querySelector('{token_button(number)}')).backgroundColor")
    return tuple(map(int, re.findall(r"\d+", found)[:3]))


def test_layer_head_and_token_by_click(browser: Browser, short: tuple[Path, dict[str, Any]]) -> None:
    out, record = short
    opened(browser, out)
    assert browser.text("h1") == "my_model" and "n = 512" in browser.text("#facts")
    assert len(browser.texts("#heads button")) == 24
    assert browser.texts("#tokens button") == [token.replace(" ", "▁") for token in record["tokens"]]
    browser.click(head_button(3, 2))
    browser.click(token_button(5))
    shares = probabilities(record, 2, 1)[4]
    order = np.argsort(-shares, kind="stable")[:10]
    found = rows(browser)
    assert [value for value, _ in found] == [percent(shares[row]) for row in order]
    token = record["tokens"][order[0]].replace(" ", "▁")
    assert found[0][1] == f"projected row {order[0] + 1} (token {order[0] + 1} “{token}”)"
    assert "token 5 “▁letter” attends to in layer 3, head 2" in browser.text("#rows-title")
    assert browser.text("#map-title") == "P̄ of layer 3, head 2"
    browser.click("#rows button:nth-child(3)")
    assert f"Projected row {order[2] + 1} is made of 1.00 “" in browser.text("#made-of")
    assert chosen(browser)[0] == "▁letter" and chosen(browser)[2] == "layer 3, head 2"
    red, green, blue = background(browser, int(order[2]) + 1)
    assert red > 1.5 * max(green, blue) and background(browser, int(order[0]) + 1) == (255, 255, 255)
    assert browser.problems == []
    browser.picture("attention_short")


def test_windows_of_a_long_text(browser: Browser, long: tuple[Path, dict[str, Any]]) -> None:
    out, record = long
    opened(browser, out)
    total, window = len(record["tokens"]), record["projections"][0]["window"]
    assert total > 3 * 64 and window > 1
    browser.click(token_button(256))  # the last in the heat map, which is scrolled to it
    mark, frame = (f"document.querySelector('{it}').getBoundingClientRect()" for it in (".mark", "#heat-map"))
    assert browser.value(f"{mark}.bottom <= {frame}.bottom && {mark}.top > {frame}.top + 100")
    browser.click(token_button(200))
    assert browser.text("#range") == f"Tokens 193 to 256 of {total}"
    shares = probabilities(record, 0, 0)[199]
    best = int(shares.argmax())
    values = weights(record, 0, 0)
    assert values is not None
    inside = range(best * window, min(total, (best + 1) * window))
    assert f"tokens {inside[0] + 1} to {inside[-1] + 1}" in rows(browser)[0][1]
    for token in inside:
        assert f"{values[best, token]:.2f} “{record['tokens'][token].replace(' ', '▁')}” ({token + 1})" in browser.text(
            "#made-of"
        )
        assert background(browser, token + 1) != (255, 255, 255)
    assert background(browser, inside[-1] + 2 + window) == (255, 255, 255)  # behind the overlap of the windows
    rest = 1 - np.sort(shares)[-10:].sum()
    assert percent(rest) in browser.text("#rest")
    browser.click("#next")
    assert browser.text("#range") == f"Tokens 257 to {min(320, total)} of {total}"
    browser.click("#previous")
    # a click on the heat map chooses a token and a row that is not in the list
    column = int(np.argmin(shares))
    row = 240 - 192
    browser.click(".cells canvas", (column + 0.5) / len(shares), (row + 0.5) / 64)
    assert chosen(browser)[0] == record["tokens"][240].replace(" ", "▁")
    assert f"projected row {column + 1} " in chosen(browser)[1]
    assert browser.text("#cell").endswith(percent(probabilities(record, 0, 0)[240, column]))
    browser.picture("attention_long")
    # and one on E a row
    browser.click("#projection-map", 0.3, 40.5 / len(values))
    assert "Projected row 41 is" in browser.text("#made-of")
    assert browser.problems == []


def test_keys(browser: Browser, short: tuple[Path, dict[str, Any]]) -> None:
    out, record = short
    opened(browser, out)
    browser.value("document.querySelector('#heads [aria-checked=true]').focus()")
    for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"):
        browser.key(key)
    assert chosen(browser)[2] == "layer 2, head 2"
    assert browser.value("document.activeElement.title") == "layer 2, head 2"
    browser.value("document.querySelector('#tokens [aria-checked=true]').focus()")
    browser.key("ArrowRight")
    assert chosen(browser)[0] == record["tokens"][2].replace(" ", "▁")
    browser.value("document.querySelector('#rows [aria-checked=true]').focus()")
    browser.key("ArrowDown")
    order = np.argsort(-probabilities(record, 1, 1)[2], kind="stable")
    assert f"Projected row {order[1] + 1} is" in browser.text("#made-of")
    browser.value("document.querySelector('.cells canvas').focus()")
    browser.key("ArrowDown")
    browser.key("Enter")
    assert chosen(browser)[0] == record["tokens"][3].replace(" ", "▁")
    browser.value("document.querySelector('#projection-map').focus()")
    browser.key("ArrowDown")
    assert f"Projected row {order[1] + 2} is" in browser.text("#made-of")
    # one stop of the tab key for each group
    stops = browser.value("[...document.querySelectorAll('[role=radio]')].filter((x) => x.tabIndex === 0).length")
    assert stops == 3


def test_a_linear_e_and_html_in_the_text(browser: Browser, linear: tuple[Path, dict[str, Any]]) -> None:
    out, record = linear
    opened(browser, out)
    assert "".join(browser.texts("#tokens button")) == f"<s>▁{EVIL.replace(' ', '▁')}</s>"
    assert browser.value("document.querySelectorAll('main img, main b').length") == 0, "text became HTML"
    assert browser.value("document.title").startswith("my_model ")
    assert browser.value("performance.getEntriesByType('resource').length") == 0
    browser.click(head_button(2, 2))
    browser.click(token_button(3))
    shares, values = probabilities(record, 1, 1)[2], weights(record, 1, 1)
    assert values is not None
    best = int(shares.argmax())
    strongest = int(np.abs(values[best]).argmax())
    assert f"({strongest + 1})" in browser.text("#made-of").split(",")[0]
    red, _, blue = background(browser, strongest + 1)
    assert (red > blue) == (values[best, strongest] > 0)
    assert "F, which is not shown" in browser.text("#projection-about")
    assert browser.text("#highest") == f"{np.abs(values).max():.2f}"
    assert browser.problems == []
    browser.picture("attention_linear")


def test_dense_attention(browser: Browser, roberta: Path, tmp_path: Path) -> None:
    record = written(roberta, "model.pt", "the value in a line", tmp_path)
    opened(browser, tmp_path)
    browser.click(token_button(4))
    best = int(probabilities(record, 0, 0)[3].argmax())
    name = record["tokens"][best].replace(" ", "▁")
    assert rows(browser)[0][1] == f"token {best + 1} “{name}”"
    assert browser.text("#map-title") == "P of layer 1, head 1"
    assert not browser.visible("#projection") and browser.text("#made-of") == ""
    assert browser.problems == []
    browser.picture("attention_dense")


def test_phones_and_dark_windows(browser: Browser, long: tuple[Path, dict[str, Any]]) -> None:
    for name, width, height, phone, dark in [
        ("desktop_dark", 1200, 900, False, True),
        ("phone", 390, 844, True, False),
        ("phone_dark", 320, 640, True, True),
    ]:
        opened(browser, long[0])
        browser.size(width, height, phone, dark)
        browser.click(head_button(4, 4))
        browser.click(token_button(3))
        assert browser.value("document.documentElement.scrollWidth") == width, name
        body = browser.value("getComputedStyle(document.body).backgroundColor")
        assert body == ("rgb(18, 22, 29)" if dark else "rgb(255, 255, 255)")
        colours = browser.value(
            "(() => { const c = document.querySelector('#heads canvas'); "
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const s = new Set(); "
            "for (let i = 0; i < d.length; i += 4) s.add(d[i] + 256 * d[i + 1]); return s.size; })()"
        )
        assert colours > 20
        browser.picture(f"attention_{name}")
    assert browser.problems == []

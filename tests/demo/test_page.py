"""The page of the demo in a headless Chromium: typing, clicking, and reading what it shows."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from linformer_fairseq.demo.answers import ROWS, Answers
from linformer_fairseq.demo.server import LARGEST, Server
from linformer_fairseq.files.task_inputs import TaskInputs
from linformer_fairseq.models import LinformerRobertaModel
from tests.browser import Browser
from tests.models import LONG, TEXTS, N, make_classifier, make_pretrained

pytestmark = pytest.mark.slow

EVIL = "<img src=x onerror=\"document.title='hurt'\"> <b>the</b> value"


@contextmanager
def served(answers: Answers) -> Iterator[Server]:
    with Server("127.0.0.1", 0) as server:
        server.values, server.answers = {"/api/model": answers.model()}, answers.routes()
        thread = threading.Thread(target=server.serve)
        thread.start()
        yield server
        server.stop()
        thread.join()


@pytest.fixture(scope="module")
def small() -> Iterator[Server]:
    """The model that comes with the package: its guesses mean something."""
    with served(Answers(LinformerRobertaModel.from_pretrained("linformer-small"), "linformer-small", None)) as server:
        yield server


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Answers]]:
    folder = make_classifier(tmp_path_factory.mktemp("classifier"))
    answers = Answers(LinformerRobertaModel.from_pretrained(folder), "my_model", "sentence_classification_head")
    with served(answers) as server:
        yield server, answers


@pytest.fixture(scope="module")
def linear(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = make_pretrained(tmp_path_factory.mktemp("linear"), "--projection", "linear")
    with served(Answers(LinformerRobertaModel.from_pretrained(folder), "linear", None)) as server:
        yield server


def opened(browser: Browser, server: Server) -> Browser:
    browser.size(1200, 900)
    browser.open(server.url)
    browser.wait("!document.querySelector('#attention').hidden")
    return browser


def colours(browser: Browser) -> int:
    """How many colours the cells of the heat map have."""
    return int(
        browser.value(
            "(() => { const c = document.querySelector('.cells canvas'); "
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; const s = new Set(); "
            "for (let i = 0; i < d.length; i += 4) s.add(d[i] + 256 * d[i + 1] + 65536 * d[i + 2]); return s.size; })()"
        )
    )


def shown(probability: float) -> str:
    """How the page ends its words on a cell."""
    return f": {probability:.4f}" if probability >= 0.0001 else ": below 0.0001"


def width_of_page(browser: Browser) -> int:
    """In CSS pixels; wider than the window if something does not fit."""
    return int(browser.value("document.documentElement.scrollWidth"))


def test_a_mask_is_filled(browser: Browser, small: Server) -> None:
    opened(browser, small)
    assert browser.text("h1") == "linformer-small"
    assert "n = 512" in browser.text("#facts")
    assert browser.visible("#fill-mask") and not browser.visible("#classify")
    assert not browser.visible("#classifier-options")
    browser.type("#text", "The capital of France is ")
    browser.click("#insert-mask")
    assert browser.value("document.querySelector('#text').value") == "The capital of France is <mask>"
    browser.type("#text", "He opened the <mask> and walked into the room.")
    browser.type("#top", "3")
    browser.click("#fill-mask button")
    browser.wait("document.querySelectorAll('#candidates tbody tr').length === 3")
    rows = [row.split("\t") for row in browser.texts("#candidates tbody tr")]
    assert rows[0][0].strip() == "door" and rows[0][2] == "He opened the door and walked into the room."
    shares = [float(row[1].removesuffix(" %")) for row in rows]
    assert shares == sorted(shares, reverse=True) and 20 < shares[0] < 50
    browser.type("#text", "very " * 50 + "long <mask> " + "indeed " * 50)
    browser.click("#fill-mask button")
    browser.wait("document.querySelector('#candidates tbody').innerText.includes('…')")
    context = browser.texts("#candidates tbody tr")[0].split("\t")[2]
    assert "very long" in context and " indeed indeed" in context and len(context) < 150
    assert browser.problems == []
    browser.picture("fill_mask")


def test_the_mask_can_be_taken_back(browser: Browser, small: Server) -> None:
    opened(browser, small)
    browser.type("#text", "one two")
    browser.click("#insert-mask")
    assert browser.value("document.querySelector('#text').value") == "one two<mask>"
    browser.value("document.execCommand('undo')")
    assert browser.value("document.querySelector('#text').value") == "one two"


def test_an_answer_to_another_question_says_so(
    browser: Browser, small: Server, classifier: tuple[Server, Answers], tmp_path: Path
) -> None:
    note = "text or the options have changed"
    opened(browser, small)
    for button, section in (("#fill-mask button", "fill-mask"), ("#attention button[type=submit]", "attention")):
        browser.type("#text", "one <mask> here")
        browser.click(button)
        browser.wait(f"document.querySelector('#{section}-status').textContent === ''")
        assert browser.text(f"#{section}-changed") == ""
        browser.type("#text", "another <mask> here")
        assert note in browser.text(f"#{section}-changed")
    browser.type("#text", "one <mask> here")
    assert browser.text("#fill-mask-changed") == browser.text("#attention-changed") == ""
    browser.type("#text", "no mask")
    browser.click("#fill-mask button")
    browser.wait("document.querySelector('#fill-mask-error').textContent !== ''")
    assert browser.text("#fill-mask-changed") == "", "the answer is gone"

    (tmp_path / "file.txt").write_text("another", encoding="utf-8")
    for change in (
        lambda: browser.choose("#long", "tail"),
        lambda: browser.click("#lines"),
        lambda: browser.type("#second", TEXTS[1]),
        lambda: browser.choose_file("#file", tmp_path / "file.txt"),
    ):
        opened(browser, classifier[0])
        browser.type("#text", TEXTS[0])
        browser.click("#classify button")
        browser.wait("document.querySelectorAll('#classes tbody tr').length === 2")
        assert browser.text("#classify-changed") == ""
        change()
        browser.wait(f"document.querySelector('#classify-changed').textContent.includes('{note}')")
    assert browser.problems == []


def test_bytes_of_a_character_are_named(browser: Browser, small: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = ["\\xd9", " \\xe6\\x9c", "x\\xd9"]
    found = {"candidates": [{"token": token, "probability": 0.5} for token in tokens]}
    monkeypatch.setattr(small, "answers", {**small.answers, "/api/fill-mask": lambda _: found})
    opened(browser, small)
    browser.click("#fill-mask button")
    browser.wait("document.querySelectorAll('#candidates tbody tr').length === 3")
    one, two, text = (row.split("\t") for row in browser.texts("#candidates tbody tr"))
    assert (one[0], one[2]) == ("byte D9 of a character", "")
    assert (two[0], two[2]) == ("bytes E6 9C of a character", "")
    assert text[0] == tokens[2] and tokens[2] in text[2]


def test_texts_from_right_to_left(browser: Browser, small: Server) -> None:
    opened(browser, small)
    browser.type("#text", "שלום <mask>")
    browser.click("#fill-mask button")
    browser.wait("document.querySelectorAll('#candidates tbody tr').length === 5")
    for selector in ("#text", "#candidates td:last-child"):
        assert browser.value(f"getComputedStyle(document.querySelector('{selector}')).direction") == "rtl", selector
    browser.type("#text", "one <mask>")
    assert browser.value("getComputedStyle(document.querySelector('#text')).direction") == "ltr"


def test_errors_are_shown_and_go_away(browser: Browser, small: Server) -> None:
    opened(browser, small)
    browser.type("#text", "no mask here")
    browser.click("#fill-mask button")
    browser.wait("document.querySelector('#fill-mask-error').textContent !== ''")
    assert "found 0" in browser.text("#fill-mask-error")
    assert not browser.visible("#candidates")
    browser.type("#text", "one <mask> here")
    browser.click("#fill-mask button")
    browser.wait("document.querySelectorAll('#candidates tbody tr').length === 5")
    assert browser.text("#fill-mask-error") == ""


def test_the_attention_of_a_short_text(browser: Browser, small: Server) -> None:
    opened(browser, small)
    browser.type("#text", "He opened the <mask> and walked into the room.")
    browser.click("#attention button[type=submit]")
    browser.wait("!document.querySelector('#map').hidden")
    assert "one for each token" in browser.text("#map-about")
    assert colours(browser) > 20
    hub = LinformerRobertaModel.from_pretrained("linformer-small")
    expected = hub.attention("He opened the <mask> and walked into the room.", layer=0, head=0)
    count = len(expected.tokens)
    mask = expected.tokens.index("<mask>")
    browser.hover(*browser.point(".cells canvas", (2.5) / count, (mask + 0.5) / count))
    browser.wait("document.querySelector('#cell').textContent.includes('token')")
    said = browser.text("#cell")
    assert f"token {mask + 1} “<mask>” to projected row 3 (token 3 “{expected.tokens[2].replace(' ', '▁')}”)" in said
    assert said.endswith(shown(expected.probabilities[mask, 2]))
    browser.value("document.querySelector('.cells canvas').focus()")
    browser.key("ArrowDown")
    browser.key("ArrowRight")
    assert browser.text("#cell").endswith(shown(expected.probabilities[mask + 1, 3]))
    browser.picture("attention_short")


def test_layers_heads_and_further_tokens(browser: Browser, small: Server) -> None:
    opened(browser, small)
    text = " ".join(["She read the letter twice and put it back into the drawer."] * 25)
    hub = LinformerRobertaModel.from_pretrained("linformer-small")
    expected = hub.attention(text, layer=1, head=2)
    total, rows = expected.probabilities.shape
    assert total > 3 * ROWS and expected.window is not None and expected.window > 1
    browser.type("#text", text)
    browser.click("#attention button[type=submit]")
    browser.wait("!document.querySelector('#map').hidden")
    assert browser.text("#range") == f"Tokens 1 to {ROWS} of {total}"
    assert f"{expected.window} neighbouring tokens" in browser.text("#map-about")
    before = browser.text("#largest")
    browser.type("#text", "Another text, which is not yet asked about.")
    browser.choose("#layer", "1")
    browser.choose("#head", "2")
    browser.wait(f"document.querySelector('#largest').textContent === '{expected.probabilities.max():.4f}'")
    assert browser.text("#largest") != before
    browser.picture("attention_long")
    browser.click("#next")
    browser.wait(f"document.querySelector('#range').textContent.startsWith('Tokens {ROWS + 1} ')")
    middle = ROWS // 2  # which is in view
    column = int(expected.probabilities[ROWS + middle].argmax())
    browser.hover(*browser.point(".cells canvas", (column + 0.5) / rows, (middle + 0.5) / ROWS))
    browser.wait("document.querySelector('#cell').textContent.includes('to projected row')")
    said = browser.text("#cell")
    assert said.startswith(f"token {ROWS + middle + 1} “")
    assert said.endswith(shown(expected.probabilities[ROWS + middle, column]))
    browser.click("#previous")
    browser.wait("document.querySelector('#previous').disabled")
    assert browser.problems == []


def test_a_linear_projection_has_numbered_rows(browser: Browser, linear: Server) -> None:
    opened(browser, linear)
    browser.type("#text", TEXTS[0][:60])
    browser.click("#attention button[type=submit]")
    browser.wait("!document.querySelector('#map').hidden")
    assert "mixes all tokens" in browser.text("#map-about")
    browser.hover(*browser.point(".cells canvas", 0.99, 0.01))
    browser.wait("document.querySelector('#cell').textContent.includes('to projected row 8: ')")


def test_a_text_is_classified(browser: Browser, classifier: tuple[Server, Answers]) -> None:
    server, answers = classifier
    opened(browser, server)
    assert browser.visible("#classify") and not browser.visible("#fill-mask") and not browser.visible("#insert-mask")
    (expected,) = answers._hub.classify([TEXTS[0]])
    browser.type("#text", TEXTS[0])
    browser.click("#classify button")
    browser.wait("document.querySelectorAll('#classes tbody tr').length === 2")
    best, other = (row.split("\t") for row in browser.texts("#classes tbody tr"))
    assert best == [expected.label, f"{100 * expected.probability:.1f} %"]
    assert other[1] == f"{100 - 100 * expected.probability:.1f} %"
    (pair,) = answers._hub.classify([(TEXTS[0], TEXTS[1])])
    browser.type("#second", TEXTS[1])
    browser.click("#classify button")
    browser.wait(f"document.querySelector('#classes tbody').innerText.includes('{100 * pair.probability:.1f} %')")
    assert browser.problems == []


def test_what_the_model_was_not_finetuned_on_is_said(
    browser: Browser, classifier: tuple[Server, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, answers = classifier
    monkeypatch.setattr(answers._hub, "inputs", TaskInputs(task="sst2"))
    opened(browser, server)
    browser.type("#text", TEXTS[0])
    browser.type("#second", TEXTS[1])
    browser.click("#classify button")
    browser.wait("document.querySelector('#classify-status').textContent.includes('finetuned on single texts')")
    browser.type("#second", "")
    browser.click("#classify button")
    browser.wait("document.querySelector('#classify-status').textContent === ''")


def test_a_long_text_says_what_was_cut(browser: Browser, classifier: tuple[Server, Answers]) -> None:
    server, answers = classifier
    opened(browser, server)
    browser.type("#text", LONG)
    browser.click("#classify button")
    browser.wait("document.querySelector('#classify-status').textContent.includes('keep the beginning')")
    assert f"more than {N} tokens" in browser.text("#classify-status")
    (expected,) = answers._hub.classify([LONG], long="windows")
    browser.choose("#long", "windows")
    browser.click("#classify button")
    browser.wait(f"document.querySelector('#classify-status').textContent.includes('{expected.windows} windows')")
    assert f"{100 * expected.probability:.1f} %" in browser.text("#classes")
    browser.click("#attention button[type=submit]")
    browser.wait(f"document.querySelector('#attention-status').textContent.includes('first of {expected.windows}')")
    browser.picture("classify_long")


def test_texts_are_cut_as_in_training_at_first(
    browser: Browser, classifier: tuple[Server, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, answers = classifier
    monkeypatch.setattr(answers._hub, "inputs", TaskInputs(max_positions=20, cut="tail"))
    monkeypatch.setattr(server, "values", {"/api/model": answers.model()})
    opened(browser, server)
    browser.type("#text", LONG)
    browser.click("#classify button")
    browser.wait("document.querySelector('#classify-status').textContent.includes('keep the end')")
    assert "more than 20 tokens" in browser.text("#classify-status")


def test_lines_of_a_file(browser: Browser, classifier: tuple[Server, Answers], tmp_path: Path) -> None:
    server, answers = classifier
    opened(browser, server)
    texts = [*TEXTS[:6], "", EVIL]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    browser.choose_file("#file", path)
    browser.wait("document.querySelector('#text').value !== ''")
    browser.click("#lines")
    assert not browser.visible("#second")
    browser.click("#classify button")
    browser.wait("document.querySelectorAll('#lines-table tbody tr').length === 8")
    rows = [row.split("\t") for row in browser.texts("#lines-table tbody tr")]
    expected = list(answers._hub.classify([*TEXTS[:6], EVIL]))
    assert [row[1] for row in rows[:6]] == [one.label for one in expected[:6]]
    assert "no text" in rows[6][1] and rows[7][3] == EVIL
    status = browser.text("#classify-status")
    assert status.startswith("8 lines; ") and "without a class: 1" in status
    assert browser.value("document.querySelectorAll('main img, main b').length") == 0, "text became HTML"
    assert "hurt" not in browser.value("document.title")
    assert browser.problems == []
    browser.click("#attention button[type=submit]")
    browser.wait("document.querySelector('#attention-status').textContent.includes('first line')")
    found = answers._hub.attention(texts[0], layer=0, head=0)
    assert browser.text("#largest") == f"{found.probabilities.max():.4f}"
    browser.picture("lines")


def test_a_reply_is_shown_as_it_was_asked_for(
    browser: Browser, classifier: tuple[Server, Answers], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, answers = classifier
    asked, go_on = threading.Event(), threading.Event()

    def slow(value: Any) -> object:
        asked.set()
        assert go_on.wait(20)
        return answers.classify(value)

    monkeypatch.setattr(server, "answers", {**server.answers, "/api/classify": slow})
    opened(browser, server)
    browser.value(f"document.querySelector('#text').value = {json.dumps(LONG + chr(10) + TEXTS[0])}")
    browser.click("#lines")
    browser.click("#classify button")
    assert asked.wait(20)
    browser.click("#lines")
    browser.choose("#long", "tail")
    go_on.set()
    browser.wait("document.querySelectorAll('#lines-table tbody tr').length === 2")
    status = browser.text("#classify-status")
    assert status.startswith("2 lines; ") and "keep the beginning" in status
    assert not browser.visible("#classes")


def test_files_that_cannot_be_read(browser: Browser, classifier: tuple[Server, Answers], tmp_path: Path) -> None:
    opened(browser, classifier[0])
    for name, content, words in [
        ("latin1.txt", "é".encode("latin-1"), "not UTF-8"),
        ("large.txt", b"a" * (LARGEST + 1), f"{LARGEST + 1:,}"),
    ]:
        (tmp_path / name).write_bytes(content)
        browser.choose_file("#file", tmp_path / name)
        browser.wait("document.querySelector('#file-error').textContent !== ''")
        assert name in browser.text("#file-error") and words in browser.text("#file-error")
        assert browser.value("document.querySelector('#text').value") == ""


def test_html_in_a_text_stays_text(browser: Browser, small: Server) -> None:
    opened(browser, small)
    browser.type("#text", EVIL + " <mask>")
    browser.click("#fill-mask button")
    browser.wait("document.querySelectorAll('#candidates tbody tr').length === 5")
    assert all(EVIL[-40:] in row for row in browser.texts("#candidates tbody tr"))
    browser.click("#attention button[type=submit]")
    browser.wait("!document.querySelector('#map').hidden")
    assert browser.value("document.querySelectorAll('main img, main b').length") == 0
    assert browser.problems == []


def test_phones_and_dark_windows(browser: Browser, small: Server) -> None:
    for name, width, height, phone, dark in [
        ("desktop_dark", 1200, 900, False, True),
        ("phone", 390, 844, True, False),
        ("phone_dark", 320, 640, True, True),
    ]:
        opened(browser, small)
        browser.size(width, height, phone, dark)
        browser.click("#fill-mask button")
        browser.wait("document.querySelectorAll('#candidates tbody tr').length === 5")
        browser.click("#attention button[type=submit]")
        browser.wait("!document.querySelector('#map').hidden")
        assert width_of_page(browser) == width, name
        background = browser.value("getComputedStyle(document.body).backgroundColor")
        assert background == ("rgb(18, 22, 29)" if dark else "rgb(255, 255, 255)")
        assert colours(browser) > 20
        browser.picture(name)


def contrast(one: list[float], other: list[float]) -> float:
    """Of two colours, by WCAG 2."""

    def luminance(colour: list[float]) -> float:
        parts = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (c / 255 for c in colour)]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_borders_of_fields_are_seen(browser: Browser, classifier: tuple[Server, Answers], dark: bool) -> None:
    opened(browser, classifier[0])
    browser.size(1200, 900, dark=dark)
    of = "getComputedStyle(document.querySelector('{}')).{}.match(/\\d+/g).map(Number)"
    around = browser.value(of.format("section", "backgroundColor"))
    for field in ("#text", "#second", "#long", "#layer"):
        border, inside = (browser.value(of.format(field, name)) for name in ("borderTopColor", "backgroundColor"))
        assert min(contrast(border, around), contrast(border, inside)) >= 3, field


def test_forced_colours_leave_bars_and_buttons(browser: Browser, small: Server) -> None:
    opened(browser, small)
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "forced-colors", "value": "active"}])
    browser.click("#fill-mask button")
    browser.wait("document.querySelectorAll('#candidates tbody tr').length === 5")
    style = "getComputedStyle(document.querySelector('{}')).{}"
    assert browser.value(style.format(".bar", "backgroundColor")) == "rgb(31, 95, 174)"
    assert browser.value(style.format("#fill-mask button", "borderTopWidth")) == "1px"
    browser.picture("forced_colours")


def test_every_field_has_a_label(browser: Browser, classifier: tuple[Server, Answers]) -> None:
    opened(browser, classifier[0])
    without = browser.value(
        "[...document.querySelectorAll('input, select, textarea')].filter((x) => !x.labels.length).map((x) => x.id)"
    )
    assert without == []


def test_a_server_that_has_ended_is_named(browser: Browser) -> None:
    answers = Answers(LinformerRobertaModel.from_pretrained("linformer-small"), "linformer-small", None)
    with served(answers) as server:
        opened(browser, server)
    browser.click("#fill-mask button")
    browser.wait("document.querySelector('#fill-mask-error').textContent.includes('does not reply')")

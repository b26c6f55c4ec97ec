"""What the page of `linformer demo` asks of a model, and the answers; both become JSON."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from linformer_fairseq.demo.server import LARGEST
from linformer_fairseq.files.cuts import CUTS
from linformer_fairseq.files.dictionary import MASK
from linformer_fairseq.files.json_records import load
from linformer_fairseq.models import LinformerHubInterface, count_parameters
from linformer_fairseq.prediction.inputs import open_source
from linformer_fairseq.prediction.items import Item, Text, one_line, unlike_training

TEXTS = 1000
"""Most texts of a classification."""
CANDIDATES = 100
"""Most candidates for a mask."""
ROWS = 64
"""Tokens of an attention map that are sent at a time: a page of a screen or two."""
_EXCERPT = 100


@dataclass(frozen=True)
class FillMask:
    """Which tokens stand for the mask in a text?"""

    text: str
    top: int = 5


@dataclass(frozen=True)
class Classify:
    """What is the class of a text or pair, or of each line, which is a text, or a pair if there is a tab in it?"""

    text: str
    second: str = ""
    lines: bool = False
    long: str | None = None


@dataclass(frozen=True)
class Attention:
    """What is P of a text or pair, or of the first of ``lines``, from token number ``first`` on?"""

    text: str
    second: str = ""
    lines: bool = False
    long: str | None = None
    layer: int = 0
    head: int = 0
    first: int = 0


class Answers:
    """Answers of a model.

    Args:
        hub: the model.
        name: what the user called it.
        head: the classification head; None for a model that is only pretrained.

    Raises:
        ValueError: the names of the classes are not known (see ``labels`` of the hub interface).
    """

    def __init__(self, hub: LinformerHubInterface, name: str, head: str | None) -> None:
        self._hub = hub
        self._name = name
        self._head = head
        self._labels = [] if head is None else hub.labels(head)

    def routes(self) -> dict[str, Callable[[Any], object]]:
        """The function for each question that makes sense for this model, by its address."""
        found: dict[str, Callable[[Any], object]] = {}
        if self._head is None:
            found["/api/fill-mask"] = self.fill_mask
        else:
            found["/api/classify"] = self.classify
        if self._hub.attention_settings is not None:
            found["/api/attention"] = self.attention
        return found

    def model(self) -> dict[str, object]:
        """What the page shows of the model, and what it has to know for its questions."""
        settings = self._hub.attention_settings
        facts: dict[str, object] = {
            "name": self._name,
            "routes": sorted(self.routes()),
            "labels": self._labels,
            "parameters": count_parameters(self._hub.model),
            "n": int(self._hub.model.max_positions()),
            "longest": self._hub.longest,
            "mask": MASK,
            "long": CUTS,
            "cut": self._hub.inputs.cut,
            "candidates": CANDIDATES,
            "rows": ROWS,
            "largest": LARGEST,
        }
        if settings is not None:
            dims = [k for layer in settings.dims for k in layer]
            facts |= {
                "layers": settings.num_layers,
                "heads": settings.num_heads,
                "k": sorted({min(dims), max(dims)}),
                "sharing": settings.sharing,
                "projection": settings.projection,
                "overlap": settings.kernel_strides > 1,
            }
        return facts

    def fill_mask(self, value: Any) -> object:
        """Candidates for the mask, best first.

        Raises:
            ValueError: ``value`` is no `FillMask`, or the text has not one mask or is too long.
        """
        asked: FillMask = load(FillMask, value)
        if not 1 <= asked.top <= CANDIDATES:
            raise ValueError(f"{asked.top} candidates: expected 1 to {CANDIDATES}")
        text = _text(asked.text)
        assert isinstance(text, str)  # no pair
        (found,) = self._hub.fill_masks([text], topk=asked.top)
        return {"candidates": [{"token": token, "probability": probability} for _, probability, token in found]}

    def classify(self, value: Any) -> object:
        """The class of each text, with the probabilities of all classes in the order of ``labels``, or its error; and a
        remark on texts that are not as those of the training were.

        Raises:
            ValueError: ``value`` is no `Classify`, there is no text, or there are too many.
        """
        asked: Classify = load(Classify, value)
        items = _lines(asked, TEXTS + 1) if asked.lines else [Item("1", _text(asked.text, asked.second), 1)]
        if len(items) > TEXTS:
            raise ValueError(f"more than {TEXTS:,} lines; `linformer predict` takes files of any size")
        results = self._hub.classify([item.text for item in items], head=self._head, long=asked.long, keep_errors=True)
        singles, pairs = (sum(isinstance(item.text, kind) for item in items) for kind in (str, tuple))
        return {
            "texts": [_result(item, found) for item, found in zip(items, results, strict=True)],
            "unlike": unlike_training(len(items), singles, pairs, self._hub.inputs.texts),
        }

    def attention(self, value: Any) -> object:
        """Rows of P, of the tokens from ``first`` on, as many as fit.

        Raises:
            ValueError: ``value`` is no `Attention`, there is no text, layer, head or token of that number, or several
                masks.
        """
        asked: Attention = load(Attention, value)
        text = _lines(asked, 1)[0].text if asked.lines else _text(asked.text, asked.second)
        if isinstance(text, ValueError):
            raise text
        found = self._hub.attention(text, asked.layer, asked.head, asked.long)
        if not 0 <= asked.first < len(found.tokens):
            raise ValueError(f"first={asked.first}: expected the number of a token, 0 to {len(found.tokens) - 1}")
        weights = found.probabilities
        return {
            "tokens": found.tokens,
            "first": asked.first,
            "weights": weights[asked.first : asked.first + ROWS].round(6).tolist(),
            "largest": float(weights.max()),
            "window": found.window,
            "long": found.long,
            "parts": found.parts,
        }


def _text(text: str, second: str = "") -> Text:
    """A text, or a pair, as the model gets it.

    Raises:
        ValueError: there is none.
    """
    return one_line((text, second) if second.strip() else text)


def _lines(asked: Classify | Attention, most: int) -> list[Item]:
    """The first lines as texts or pairs, at most so many.

    Raises:
        ValueError: there is none, or a second text beside them.
    """
    if asked.second.strip():
        raise ValueError("a second text was given for lines; put it behind a tab in the line of the first one")
    items = list(islice(open_source(None, io.BytesIO(asked.text.encode()), "tsv", []).items, most))
    if not items:
        raise ValueError("no text")
    return items


def _result(item: Item, found: Any) -> dict[str, object]:
    text = item.text if isinstance(item.text, str) else ""
    if isinstance(item.text, tuple):
        text = "\t".join(item.text)
    excerpt = text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"
    if isinstance(found, ValueError):
        return {"id": item.id, "text": excerpt, "error": str(found)}
    return {
        "id": item.id,
        "text": excerpt,
        "label": found.label,
        "probability": found.probability,
        "probabilities": found.probabilities.tolist(),
        "long": found.long,
        "windows": found.windows,
    }

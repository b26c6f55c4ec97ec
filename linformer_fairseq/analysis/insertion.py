"""Classes that a finetuned model predicts when s tokens of other examples are inserted in front of a text.

Inserted tokens have a meaning of their own, and make the input longer. So the same tokens are also put behind the text,
which leaves it where it is: what differs between the two places is due to the text's position.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from linformer_fairseq.analysis.blocks import Chosen
from linformer_fairseq.analysis.resuming import measured
from linformer_fairseq.analysis.sums import Sums
from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress

NAME = "insertion.json"
PLACES = ("front", "behind")
_SUMS = "examples"

if TYPE_CHECKING:  # the report does not load fairseq
    from linformer_fairseq.evaluation import Classifier


@dataclass(frozen=True)
class Settings:
    """All that the result depends on."""

    model: str
    sha256: str
    """Of the weights."""
    data: str
    """Name of the task."""
    data_sha256: str
    split: str
    shifts: list[int]
    """s, ascending."""
    examples: int
    """At most."""
    seed: int
    """Of the choice of examples, and of the order in which they give their tokens to others."""


def default_shifts(n: int) -> list[int]:
    """1, 2, 4, ... up to n / 8."""
    return [2**power for power in range(n.bit_length()) if 2**power <= max(1, n // 8)]


def measure(classifier: Classifier, settings: Settings, out: Path, batch: int, command: str) -> dict[str, Any]:
    """Measure how the classes of texts change when tokens are inserted, or go on with a stopped run.

    Only examples that fit into n with the largest s are chosen, so that the figures of all s are of the same ones.

    Args:
        classifier: the model, and the task that reads its data.
        settings: what is measured. With the same ones a finished result is returned as it is.
        out: folder of the result.
        batch: examples at a time; the result does not depend on it, up to rounding.
        command: for the record.

    Returns:
        The record, which is written to `NAME` in ``out``. ``accuracy`` is that of the texts as they are; ``shifts`` has
        a row for each s.

    Raises:
        UserError: ``out`` has results of other settings, the examples have no labels or are too long, or memory is
            lacking.
        OSError: a file cannot be written.
    """
    n = classifier.max_positions
    if wrong := [shift for shift in settings.shifts if not 1 <= shift < n]:
        raise UserError(f"--shifts {wrong[0]:,}: expected 1 to {n - 1:,} tokens, less than this model's n")
    dataset = classifier.task.load_dataset(settings.split)

    def choose() -> Chosen:
        chosen = _choose(np.asarray(dataset.sizes[0]), n, settings)
        examples_of(chosen.rows)  # refuses what cannot be computed before anything is written
        return chosen

    def examples_of(rows: Ids) -> _Examples:
        items, dictionary = [dataset[row] for row in rows.tolist()], classifier.task.source_dictionary
        return _Examples(items, dictionary.bos(), dictionary.nspecial, max(settings.shifts), settings.seed)

    def compute(sums: Sums) -> dict[str, Any]:
        _accumulate(classifier, examples_of(sums.blocks), settings.shifts, sums, batch)
        return _found(classifier, settings, sums)

    return measured("insertion", settings, out, choose, compute, batch, command)


def _choose(sizes: npt.NDArray[Any], n: int, settings: Settings) -> Chosen:
    """Numbers of examples that fit, the longest first, so that a lack of memory is noticed at once."""
    most = max(settings.shifts)
    fitting = np.flatnonzero(sizes + most <= n)
    if len(fitting) < 2:
        raise UserError(
            f"--shifts {most:,}: with so many tokens in front, {len(fitting)} of the {len(sizes):,} examples of "
            f"{settings.split} fit into the model's n = {n:,}; expected at least 2, so ask for fewer tokens"
        )
    order = torch.randperm(len(fitting), generator=torch.Generator().manual_seed(settings.seed)).numpy()
    chosen = fitting[order[: settings.examples]]
    return Chosen(chosen[np.argsort(-sizes[chosen], kind="stable")], len(fitting))


class _Examples:
    """Texts with their labels, and the tokens that they give to each other.

    Args:
        items: of the data set.
        first: the symbol that every text begins with.
        special: how many symbols, the first of the dictionary, are no words.
        most: the largest s.
        seed: of the order.

    Raises:
        UserError: an example has no label, or does not begin as expected; or all have too few words.
    """

    def __init__(self, items: list[dict[str, Any]], first: int, special: int, most: int, seed: int) -> None:
        if not all("target" in item for item in items):
            raise UserError("the split has no labels; expected a development set, such as --split valid")
        self.texts: list[Tensor] = [item["net_input.src_tokens"] for item in items]
        self.labels = torch.stack([item["target"].view(()) for item in items])
        if any(int(text[0]) != first for text in self.texts):
            raise UserError("the model was finetuned without <s> in front of a text; expected --init-token 0")
        words = [text[text >= special] for text in self.texts]
        order = torch.randperm(len(words), generator=torch.Generator().manual_seed(seed)).tolist()
        self._stream = torch.cat([words[number] for number in order])
        ends = np.cumsum([len(words[number]) for number in order]).tolist()
        self._ends = dict(zip(order, ends, strict=True))
        if (others := len(self._stream) - max(map(len, words))) < most:
            raise UserError(
                f"--shifts {most:,}: the other examples have only {others:,} words; ask for more --examples, or for "
                "fewer tokens"
            )

    def inserted(self, number: int, count: int) -> Tensor:
        """The first ``count`` words of the examples that follow one in the random order."""
        return self._stream[(self._ends[number] + torch.arange(count)) % len(self._stream)]

    def changed(self, number: int, shift: int, place: str) -> Tensor:
        """A text with ``shift`` words of others between it and the symbol at its beginning, or at its end."""
        text, words = self.texts[number], self.inserted(number, shift)
        return torch.cat([text[:1], words, text[1:]] if place == "front" else [text[:-1], words, text[-1:]])


def _accumulate(classifier: Classifier, examples: _Examples, shifts: list[int], sums: Sums, batch: int) -> None:
    """Add all examples that are not yet in the sums."""
    total = len(examples.texts)
    with Progress("classes", total, sums.count(_SUMS), "examples") as progress:
        while (start := sums.count(_SUMS)) < total:
            part = range(start, min(start + batch, total))
            labels = examples.labels[start : part.stop]
            plain = _classes(classifier, [examples.texts[number] for number in part])
            right = np.zeros((len(shifts), len(PLACES)))
            changed = np.zeros_like(right)
            for row, shift in enumerate(shifts):
                for column, place in enumerate(PLACES):
                    found = _classes(classifier, [examples.changed(number, shift, place) for number in part])
                    right[row, column] = int((found == labels).sum())
                    changed[row, column] = int((found != plain).sum())
            first = np.array(float((plain == labels).sum()))
            sums.add(_SUMS, {"first": first, "right": right, "changed": changed}, len(part))
            progress.advance(len(part))


def _classes(classifier: Classifier, texts: list[Tensor]) -> Tensor:
    """The class of each text, (B,)."""
    padding = classifier.task.source_dictionary.pad()
    tokens = pad_sequence(texts, batch_first=True, padding_value=padding).to(classifier.device)
    with torch.inference_mode():
        logits, _ = classifier.model(tokens, features_only=True, classification_head_name=classifier.head)
    best: Tensor = logits.argmax(-1).cpu()
    return best


def _found(classifier: Classifier, settings: Settings, sums: Sums) -> dict[str, Any]:
    from linformer_fairseq.models import LinformerRobertaModel

    model: Any = classifier.model
    is_dense = not isinstance(model, LinformerRobertaModel)
    right, changed = sums.mean(_SUMS, "right"), sums.mean(_SUMS, "changed")
    return {
        "encoder": {
            "kind": "fairseq RoBERTa" if is_dense else "Linformer",
            "is_dense": is_dense,
            "max_positions": classifier.max_positions,
            "layers": model.encoder.args.encoder_layers,
            "heads": model.encoder.args.encoder_attention_heads,
        },
        "examples": len(sums.blocks),
        "fitting_examples": sums.about["available"],
        "accuracy": round(float(sums.mean(_SUMS, "first")), 5),
        "shifts": [
            {
                "shift": shift,
                **{
                    place: {
                        "accuracy": round(float(right[row, column]), 5),
                        "changed": round(float(changed[row, column]), 5),
                    }
                    for column, place in enumerate(PLACES)
                },
            }
            for row, shift in enumerate(settings.shifts)
        ],
    }

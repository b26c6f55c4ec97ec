"""Predictions for streams of texts: classes, vectors, and tokens for a mask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from fairseq import utils
from torch import Tensor

from linformer_fairseq.files.cuts import CUTS, WINDOWS
from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.dictionary import MASK, classes_of
from linformer_fairseq.files.task_inputs import TaskInputs
from linformer_fairseq.modules.vocabulary import real_symbols
from linformer_fairseq.prediction.fitting import Fitted, Frame, fit
from linformer_fairseq.prediction.items import one_line
from linformer_fairseq.prediction.options import BATCH_TOKENS, POOLINGS, TOKENS
from linformer_fairseq.prediction.results import Classification, Embedding
from linformer_fairseq.prediction.stream import Batching, compute_in_order

from .encoding import TextEncoder, masked_pieces, piece_of, token_text

Text = str | Sequence[str]
"""A text, or a pair of texts."""
Floats = npt.NDArray[np.float32]

_CHARACTERS = 100
"""More characters per token than any text has."""

E = TypeVar("E")
R = TypeVar("R")


class _Masked(NamedTuple):
    """A text with a mask."""

    rows: list[Ids]
    """Its tokens, as a single row."""
    before: str
    after: str


class TextStreams:
    """``classify``, ``embed`` and ``fill_masks`` of the hub interface.

    Each takes any number of texts, also from a generator, and yields a result for each, in order. Texts of similar
    length are computed together, without dropout and without gradients.
    """

    task: Any
    model: Any
    bpe: Any
    device: torch.device
    inputs: TaskInputs
    """How the training data were prepared; texts are prepared likewise."""
    _stored_heads: frozenset[str]
    """The classification heads that the checkpoint has, which predict the classes of the task."""

    def classify(
        self,
        texts: Iterable[Text | ValueError],
        head: str | None = None,
        long: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        keep_errors: bool = False,
    ) -> Iterator[Any]:
        """Classify texts or pairs of texts.

        Args:
            texts: texts, or pairs of texts.
            head: name of the classification head (default: the only one).
            long: what to do with an input longer than n: truncate it (``head``, ``tail`` or ``head+tail``: keep the
                beginning, the end, or both), or divide it into ``windows``, whose probabilities are averaged; None:
                truncate it as the training data were. The limit is `longest`, which can be below n.
            batch_tokens: number of tokens of a batch, with padding; results do not depend on it, up to rounding.
            keep_errors: yield the error of a text in place of its result, instead of raising it. Errors among the texts
                are passed on likewise.

        Yields:
            A `Classification` for each text, in order.

        Raises:
            ValueError: there is no such head, several and none was named, or it predicts a number; or an option is not
                one of its values.
        """
        name = self._head(head)
        labels = self.labels(name)
        if len(labels) < 2:
            raise ValueError(
                f"the head {name!r} has a single output, which is no class; predict(..., return_logits=True) returns it"
            )

        def classification(fitted: Fitted, found: list[Floats]) -> Classification:
            scores = np.mean(found, axis=0)
            best = int(scores.argmax())
            return Classification(labels[best], float(scores[best]), scores, len(fitted.rows), fitted.long)

        compute = partial(self._probabilities, name)
        entries = compute_in_order(texts, self._fitting(long), compute, Batching(batch_tokens))
        yield from _results(entries, classification, keep_errors)

    def labels(self, head: str) -> list[str]:
        """The names of a head's classes, in the order of its outputs: those of the label dictionary, or numbers for a
        head of another task, or one that was registered later.

        Raises:
            ValueError: the label dictionary has another number of classes.
        """
        classes = int(self.model.classification_heads[head].out_proj.out_features)
        dictionary = getattr(self.task, "label_dictionary", None)
        # A checkpoint may have heads of other tasks, too; the dictionary is that of the head which was trained last.
        trained = getattr(getattr(self.task, "cfg", None), "classification_head_name", head)
        is_stored = head in self._stored_heads and head == trained
        if not is_stored or dictionary is None or dictionary is self.task.source_dictionary:
            return list(map(str, range(classes)))
        labels = classes_of(dictionary.symbols[dictionary.nspecial :])
        if len(labels) != classes:
            raise ValueError(
                f"the head {head!r} has {classes} classes, but the label dictionary {len(labels)} "
                f"({', '.join(labels[:5])}); give the data folder that the model was finetuned on"
            )
        return labels

    def embed(
        self,
        texts: Iterable[Text | ValueError],
        pooling: str = "mean",
        long: str | None = None,
        batch_tokens: int = BATCH_TOKENS,
        keep_errors: bool = False,
    ) -> Iterator[Any]:
        """Vectors of texts from the output of the last layer.

        Args:
            texts: texts, or pairs of texts.
            pooling: ``mean`` or ``max`` over all tokens (special tokens included), ``first`` (the first token, <s>), or
                ``tokens`` (a vector for each token).
            long, batch_tokens, keep_errors: as in `classify`; vectors of windows are averaged. Vectors of tokens cannot
                be had with windows.

        Yields:
            An `Embedding` for each text, in order.

        Raises:
            ValueError: an option is not one of its values.
        """
        if pooling not in POOLINGS:
            raise ValueError(f"pooling={pooling}: expected one of {', '.join(POOLINGS)}")
        tokens = pooling == TOKENS
        if tokens and self.treatment(long) == WINDOWS:
            raise ValueError("pooling=tokens with long=windows: expected another pooling, or a way to truncate")
        # Vectors of all tokens are large.
        batching = Batching(batch_tokens, batches=4) if tokens else Batching(batch_tokens)
        dictionary = self.task.source_dictionary

        def embedding(fitted: Fitted, found: list[Floats]) -> Embedding:
            vectors = found[0] if len(found) == 1 else np.mean(found, axis=0)
            names = [piece_of(i, self.bpe, dictionary) for i in fitted.rows[0]] if tokens else None
            return Embedding(vectors, names, len(fitted.rows), fitted.long)

        entries = compute_in_order(texts, self._fitting(long), partial(self._vectors, pooling), batching)
        yield from _results(entries, embedding, keep_errors)

    def fill_masks(
        self,
        texts: Iterable[str | ValueError],
        topk: int = 5,
        batch_tokens: int = BATCH_TOKENS,
        keep_errors: bool = False,
    ) -> Iterator[Any]:
        """`fill_mask` for a stream of texts.

        Args:
            texts: with one ``<mask>`` each.
            topk: number of candidates.
            batch_tokens, keep_errors: as in `classify`.

        Yields:
            The list of (text, probability, token) for each text, in order.

        Raises:
            ValueError: a text has no ``<mask>`` or several, or is longer than n, or ``topk`` is below 1 or above
                `candidates`.
        """
        if not 1 <= topk <= self.candidates:
            raise ValueError(f"topk={topk}: expected 1 to {self.candidates}, the number of tokens of the model")

        def filled(masked: _Masked, found: list[list[tuple[int, float]]]) -> list[tuple[str, float, str]]:
            (ranked,) = found
            return [self._filled(masked, *candidate) for candidate in ranked]

        entries = compute_in_order(texts, self._masked, partial(self._ranked, topk), Batching(batch_tokens))
        yield from _results(entries, filled, keep_errors)

    @property
    def candidates(self) -> int:
        """The number of tokens that a mask can be filled with: all symbols but the special ones."""
        dictionary = self.task.source_dictionary
        return real_symbols(dictionary) - int(dictionary.nspecial) - 1  # and <mask>

    def treatment(self, long: str | None) -> str:
        """What is done with an input that is too long: ``long``, or what was done in the training."""
        return self.inputs.cut if long is None else long

    @property
    def longest(self) -> int:
        """Tokens of the longest input that `classify` and `embed` make: n, or fewer if the training data had fewer."""
        return self.inputs.limit(self.model.max_positions())

    @property
    def width(self) -> int:
        """C, the size of the vectors."""
        return int(self.model.encoder.sentence_encoder.embed_tokens.embedding_dim)

    def _head(self, name: str | None) -> str:
        heads = list(map(str, self.model.classification_heads))
        if name is None and len(heads) == 1:
            return heads[0]
        if name is None or name not in heads:
            known = f"this model has: {', '.join(heads) or 'none'}"
            raise ValueError(f"there is no classification head {name!r}; {known}" if name else f"name a head; {known}")
        return name

    def _fitting(self, long: str | None) -> Callable[[Text], Fitted]:
        """The function that makes the rows of a text or pair."""
        long = self.treatment(long)
        if long not in CUTS:
            raise ValueError(f"long={long}: expected one of {', '.join(CUTS)}")
        encoder = TextEncoder(self.bpe, self.task.source_dictionary)
        frame, n = self._frame(), self.longest
        at_most = n if long == "head" else None

        def fitted(text: Text) -> Fitted:
            parts = [text] if isinstance(text, str) else text
            if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
                raise ValueError(f"expected a text or a pair of texts, found {parts!r:.60}")
            if not 1 <= len(parts) <= 2:
                raise ValueError(f"expected a text or a pair of texts, found {len(parts)} texts")
            parts = [self.inputs.text(part) for part in parts]
            whole = one_line(parts[0] if len(parts) == 1 else (parts[0], parts[1]))
            parts = [whole] if isinstance(whole, str) else whole
            tokens = [encoder(part, at_most) for part in parts]
            for part, found in zip(parts, tokens, strict=True):
                if not len(found):
                    raise ValueError(f"expected a text, found one without tokens: {part[:60]!r}")
            return fit(tokens, frame, n, long)

        return fitted

    def _frame(self) -> Frame:
        """The special tokens that the model was trained with."""
        cfg, dictionary = self.task.cfg, self.task.source_dictionary
        if hasattr(cfg, "separator_token"):  # sentence_prediction
            return Frame(cfg.init_token, cfg.separator_token)
        return Frame(dictionary.bos(), dictionary.eos())

    def _padded(self, rows: list[Ids]) -> Tensor:
        """Rows of ids as (B, T) on the model's device."""
        padded = np.full((len(rows), max(map(len, rows))), self.task.source_dictionary.pad(), dtype=np.int64)
        for number, row in enumerate(rows):
            padded[number, : len(row)] = row
        return torch.from_numpy(padded).to(self.device)

    def _probabilities(self, head: str, rows: list[Ids]) -> list[Floats]:
        """(classes,) for each row."""
        with torch.inference_mode(), utils.model_eval(self.model):
            logits, _ = self.model(self._padded(rows), classification_head_name=head)
            return list(logits.softmax(dim=-1, dtype=torch.float32).cpu().numpy())

    def _vectors(self, pooling: str, rows: list[Ids]) -> list[Floats]:
        """(C,), or (T, C), for each row."""
        tokens = self._padded(rows)
        with torch.inference_mode(), utils.model_eval(self.model):
            features, _ = self.model(tokens, features_only=True, first_only=pooling == "first")
            features = features.float()
            if pooling == TOKENS:
                whole = features.cpu().numpy()
                return [whole[number, : len(row)].copy() for number, row in enumerate(rows)]
            padding = tokens.eq(self.task.source_dictionary.pad()).unsqueeze(-1)
            if pooling == "first":
                pooled = features[:, 0]
            elif pooling == "max":
                pooled = features.masked_fill(padding, float("-inf")).amax(dim=1)
            else:
                pooled = features.masked_fill(padding, 0.0).sum(dim=1) / (~padding).sum(dim=1)
            return list(pooled.cpu().numpy())

    def _masked(self, text: Text) -> _Masked:
        """The tokens of a text with a mask."""
        n = self.model.max_positions()
        if not isinstance(text, str):
            raise ValueError("expected a text with a mask, found a pair of texts")
        if text.count(MASK) != 1:
            raise ValueError(f"expected exactly one {MASK} in the text, found {text.count(MASK)}: {text[:200]!r}")
        if len(text) > _CHARACTERS * n:  # tokenizing needs memory in proportion
            raise ValueError(f"the text has {len(text):,} characters, but the model takes {n} tokens; shorten it")
        before, after = text.split(MASK)
        dictionary = self.task.source_dictionary
        ids = [dictionary.bos(), *map(dictionary.index, masked_pieces(text, self.bpe, n)), dictionary.eos()]
        if len(ids) > n:
            raise ValueError(f"the text has more tokens than the model was built for, at most {n}; shorten it")
        return _Masked([np.array(ids, dtype=np.int64)], before.rstrip(), after)

    def _ranked(self, topk: int, rows: list[Ids]) -> list[list[tuple[int, float]]]:
        """The best tokens for the mask in each row, with their probabilities."""
        dictionary = self.task.source_dictionary
        mask = dictionary.index(MASK)
        tokens = self._padded(rows)
        with torch.inference_mode(), utils.model_eval(self.model):
            logits, _ = self.model(tokens, masked_tokens=tokens.eq(mask))
            probabilities = logits.softmax(dim=-1, dtype=torch.float32)
            probabilities[:, [*range(dictionary.nspecial), mask]] = -1.0  # no candidates
            best = probabilities.topk(topk)
        return [
            list(zip(ids, values, strict=True))
            for ids, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _filled(self, text: _Masked, symbol: int, probability: float) -> tuple[str, float, str]:
        token = self._token(symbol)
        return (text.before + token).lstrip() + text.after, probability, token

    def _token(self, symbol: int) -> str:
        return token_text(symbol, self.bpe, self.task.source_dictionary)


def _results(
    entries: Iterable[tuple[E, list[R]] | ValueError], result: Callable[[E, list[R]], Any], keep_errors: bool
) -> Iterator[Any]:
    """What ``result`` makes of each text; of an invalid one the error, which is raised unless errors are kept."""
    for entry in entries:
        if not isinstance(entry, ValueError):
            yield result(*entry)
        elif keep_errors:
            yield entry
        else:
            raise entry

"""Two bags of words that learn from the probabilities of two classes, and whose predictions are averaged.

Both are logistic regression (scikit-learn): on tf-idf of one to three words, and on which of them are in the text,
weighted by naive Bayes (Wang and Manning 2012, "Baselines and Bigrams").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

WORD = r"(?u)\b\w[\w']*\b|[!?]"
"""A word, an exclamation mark or a question mark."""
Probabilities = npt.NDArray[np.float64]
"""Of the second class, (examples,)."""
Indices = npt.NDArray[np.intp]


class Bags:
    """The words of some texts, from which classifiers of any of them are fitted.

    Args:
        texts: all texts, those that are learned from and those that are judged.

    Raises:
        ValueError: no word is in several of the texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        words = {"token_pattern": WORD, "ngram_range": (1, 3), "dtype": np.float32}
        self._present: Any = CountVectorizer(**words, min_df=2, binary=True).fit_transform(texts)
        self._weighted: Any = TfidfVectorizer(**words, min_df=3, sublinear_tf=True).fit_transform(texts)

    def judge(self, fitted: Indices, second: Probabilities, others: Indices) -> Probabilities:
        """Probabilities of the second class of some texts, from classifiers that are fitted on others.

        Args:
            fitted: the texts to learn from, in ascending order.
            second: how probable the second class is in each of them: 0 or 1 where the label is known.
            others: the texts to judge.
        """
        # An example of which neither class is certain counts as one of each, with these weights.
        weights = np.stack([1 - second, second], axis=1).ravel()
        counted = weights > 0
        rows = np.repeat(fitted, 2)[counted]
        classes = np.tile([False, True], len(fitted))[counted]
        kinds = [(16.0, self._by_bayes(fitted, second)), (32.0, self._weighted)]
        found = np.zeros(len(others))
        for penalty, x in kinds:
            # dual: the fastest for so many features; it visits the examples in random order
            model = LogisticRegression(C=penalty, solver="liblinear", dual=True, max_iter=200, random_state=0)
            model.fit(x[rows], classes, sample_weight=weights[counted])
            found += model.predict_proba(x[others])[:, 1] / len(kinds)
        return found

    def _by_bayes(self, fitted: Indices, second: Probabilities) -> Any:
        """Weigh each word by the logarithm of how much more probable it is in the second class.

        One more text of each class has all words, so that none is impossible.
        """
        present = self._present[fitted]
        counts = [np.asarray(present.T @ weights).ravel() + 1 for weights in (second, 1 - second)]
        ratio = np.log(counts[0] / counts[0].sum() / (counts[1] / counts[1].sum())).astype(np.float32)
        return normalize(self._present.multiply(ratio).tocsr())

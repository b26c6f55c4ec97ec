"""Runs what is computed about the two theorems and other approximations, over inputs, n and k."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from linformer_fairseq.analysis import proofs
from linformer_fairseq.analysis.approximations import errors_at_equal_cost
from linformer_fairseq.analysis.encoder import Attention, Encoder, Heads
from linformer_fairseq.analysis.record import Record, check_settings, origin, read_record, write_record
from linformer_fairseq.analysis.theorem1 import epsilon_of_paper, product_errors
from linformer_fairseq.analysis.theorem2 import Sample, attention, errors, probabilities, relative_error
from linformer_fairseq.conversion.starts import truncated_dct
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.memory import enough_memory
from linformer_fairseq.files.progress import Progress

NAME = "theory.json"
PARTIAL = "theory.partial.json"
_DIMS = (8, 16, 32, 64, 128, 256)
HEAD_DIM = 64
"""d of inputs that are drawn."""
_FREQUENCIES = 32
"""Of smooth keys and values, for every n."""
_COLUMNS = 16
"""w in Theorem 1."""
_DRAWS = 4
"""Of R in Theorem 1."""
_CHECKS = 5
"""Draws of each check of the proofs."""
_DELTAS = (1.0, 0.1, 0.01, 1 / proofs.LENGTH, 1e-4)


@dataclass(frozen=True)
class Settings:
    """All that the result depends on; the fields of a model are None without one."""

    lengths: list[int]
    """n."""
    projected_dims: list[int]
    """k; only those below an n are used with it."""
    samples: int
    """Inputs, or blocks of text. Half of them is what least squares are fitted to."""
    seed: int
    model: str | None = None
    sha256: str | None = None
    data: str | None = None
    data_sha256: str | None = None

    def check(self, longest: int | None = None) -> None:
        """Raises UserError if a value is out of range; ``longest`` is n of the model."""
        if wrong := [n for n in self.lengths if n < 2 or (longest is not None and n > longest)]:
            expected = "at least 2" if longest is None else f"2 to {longest:,}, which is what this model takes"
            raise UserError(f"--lengths: {', '.join(map(str, wrong))}; expected {expected}")
        if wrong := [k for k in self.projected_dims if not 1 <= k < max(self.lengths)]:
            raise UserError(
                f"--projected-dims: {', '.join(map(str, wrong))}; expected 1 to {max(self.lengths) - 1:,}, "
                "less than the largest of --lengths"
            )
        if self.samples < 2:
            raise UserError(f"--samples {self.samples}: expected at least 2, of which half are for fitting")


def default_dims(longest: int) -> list[int]:
    """8, 16, ... 256, those below the largest n; 1 if there are none."""
    return [k for k in _DIMS if k < longest] or [1]


Compute = Callable[[torch.Generator], dict[str, Any]]
PARTS = ("proofs", "theorem1", "theorem2", "trained", "approximations")
"""Lists of results in a record."""


def read(path: Path) -> Record:
    """A finished or stopped result.

    Raises:
        UserError: the file cannot be read, is none, or is of an older version.
    """
    found = read_record(path, "theory")
    if missing := [part for part in PARTS if part not in found]:
        raise UserError(f"{path}: an older version made it, without {', '.join(missing)}; remove it and run again")
    return found


class Cells:
    """Results of each part, in a file that a stopped run goes on from.

    Args:
        path: the file.
        settings: what the results depend on.

    Raises:
        UserError: the file has other settings, or is damaged.
    """

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path, self._settings = path, settings
        self.parts: dict[str, list[dict[str, Any]]] = {part: [] for part in PARTS}
        if path.exists():
            found = read(path)
            check_settings(path, found["settings"], settings)
            self.parts = {part: found[part] for part in PARTS}
        self._there = {(part, _name(cell)) for part in PARTS for cell in self.parts[part]}

    def compute(self, part: str, label: dict[str, Any], function: Compute) -> None:
        """Compute a cell that is not there; its random numbers depend on the seed and the label alone."""
        name = _name(label)
        if (part, name) in self._there:
            return
        seed = zlib.crc32(f"{self._settings['seed']} {part} {name}".encode())
        self.parts[part].append({**label, **function(torch.Generator().manual_seed(seed))})
        self._there.add((part, name))
        write_record(self._path, {"kind": "theory", "settings": self._settings, **self.parts})


_LABELS = ("check", "draw", "delta", "input", "n", "k")


def _name(cell: dict[str, Any]) -> str:
    """The labels of a cell, of all that it has."""
    return " ".join(f"{label}={cell[label]}" for label in _LABELS if label in cell)


Real = tuple[Encoder, Callable[[], Tensor]]
"""An encoder, and a function that reads blocks of text for it: (samples, longest of the lengths)."""


def compute(settings: Settings, out: Path, command: str, real: Real | None) -> dict[str, Any]:
    """Compute everything, or go on with a stopped run.

    Args:
        settings: what is computed. With the same ones a finished result is returned as it is.
        out: folder of the result.
        command: for the record.
        real: for inputs that are not drawn; the text is read if something is left to compute.

    Returns:
        The record, which is written to `NAME` in ``out``.

    Raises:
        UserError: ``out`` has results of other settings, or memory is lacking.
        OSError: a file cannot be written.
    """
    done, plain = out / NAME, asdict(settings)
    if done.exists():
        found = read(done)
        check_settings(done, found["settings"], plain)
        return found
    cells = Cells(out / PARTIAL, plain)
    with enough_memory("try smaller --lengths or fewer --samples"):
        _fill(cells, settings, real)
    about = {} if real is None else {"encoder": {"kind": real[0].kind, "is_dense": real[0].is_dense}}
    record = {"kind": "theory", "settings": plain, "provenance": origin(command), **about, **cells.parts}
    write_record(done, record)
    (out / PARTIAL).unlink()
    return record


def _fill(cells: Cells, settings: Settings, real: Real | None) -> None:
    """Compute all cells that are not there."""
    _check_proofs(cells)
    pairs = [(n, k) for n, k in itertools.product(settings.lengths, settings.projected_dims) if k < n]
    with Progress("drawn inputs", len(pairs), items="pairs of n and k") as progress:
        for n, k in pairs:
            _drawn(cells, n, k, settings.samples)
            progress.advance(1)
    if real is not None:
        encoder, tokens = real[0], real[1]()
        with Progress("real inputs", len(settings.lengths), items="values of n") as progress:
            for n in settings.lengths:
                _real(cells, encoder, tokens, n, [k for k in settings.projected_dims if k < n])
                progress.advance(1)


def _check_proofs(cells: Cells) -> None:
    checks: list[tuple[dict[str, Any], Compute]] = [
        ({"check": "inner_products"}, proofs.inner_products),
        ({"check": "output_zero"}, proofs.output_zero),
        *(({"check": "small_delta", "delta": delta}, partial(proofs.small_delta, delta)) for delta in _DELTAS),
    ]
    for (label, function), draw in itertools.product(checks, range(_CHECKS)):
        cells.compute("proofs", {**label, "draw": draw}, function)


def _drawn(cells: Cells, n: int, k: int, samples: int) -> None:
    for name, mean in (("drawn, w of mean 0", 0.0), ("drawn, w of mean 1", 1.0)):
        cells.compute("theorem1", {"input": name, "n": n, "k": k}, partial(_product, mean, n, k))
    for name, draw in (("independent positions", _independent), ("smooth in position", _smooth)):
        _approximate(cells, {"input": name, "n": n, "k": k}, partial(draw, samples, n))


def _product(mean: float, n: int, k: int, generator: torch.Generator) -> dict[str, Any]:
    p = torch.randn(n, n, generator=generator).softmax(-1)
    w = torch.randn(n, _COLUMNS, generator=generator) + mean
    return _theorem1(p[None], w[None], k, generator)


def _approximate(cells: Cells, label: dict[str, Any], draw: Callable[[torch.Generator], Sample]) -> None:
    """Theorem 2, and other approximations where these cost no more than exact attention."""
    n, k = label["n"], label["k"]
    cells.compute("theorem2", label, lambda generator: {"errors": errors(draw(generator), k, generator)})
    if 2 * k <= n:
        cells.compute("approximations", label, lambda generator: errors_at_equal_cost(draw(generator), k, generator))


def _independent(samples: int, n: int, generator: torch.Generator) -> Sample:
    return Sample(*(torch.randn(samples, 1, n, HEAD_DIM, generator=generator) for _ in range(3)))


def _smooth(samples: int, n: int, generator: torch.Generator) -> Sample:
    """Keys and values made of the same number of the lowest frequencies for every n, with unit variance."""
    count = min(_FREQUENCIES, n)
    back = truncated_dct(count, n).T * n / count
    query = torch.randn(samples, 1, n, HEAD_DIM, generator=generator)
    key, value = (back @ torch.randn(samples, 1, count, HEAD_DIM, generator=generator) for _ in range(2))
    return Sample(query, key, value)


def _real(cells: Cells, encoder: Encoder, tokens: Tensor, n: int, rows: list[int]) -> None:
    """The same for the layers of an encoder; also for a Linformer's own E and F, where all heads have the same k."""

    def see(layer: int, found: Attention) -> None:
        heads = Heads(*(part.float().cpu() for part in found.heads()))
        sample = Sample(heads.query, heads.key, heads.value)
        p = probabilities(sample.query[0], sample.key[0])
        for k in rows:
            label = {"input": f"layer {layer + 1}", "n": n, "k": k}
            cells.compute("theorem1", label, partial(_theorem1, p, sample.value[0], k))
            _approximate(cells, label, lambda _: sample)
        in_heads = set(found.probabilities.count_nonzero(dim=2).amax(0).count_nonzero(dim=-1).tolist())
        own = in_heads.pop()
        if not in_heads and own < n:  # the other methods have one k in all heads
            half = len(tokens) // 2  # as in `errors`
            error = relative_error(heads.output[half:], attention(*sample.rest(half)))
            cells.compute("trained", {"input": f"layer {layer + 1}", "n": n, "k": own}, lambda _: {"error": error})

    encoder.attend(tokens[:, :n], see)


def _theorem1(p: Tensor, w: Tensor, k: int, generator: torch.Generator) -> dict[str, Any]:
    """P (H, n, n) and w (H, n, c); the mean over heads."""
    parts = [product_errors(*pair, k, _DRAWS, generator) for pair in zip(p, w, strict=True)]
    means = {field: sum(getattr(part, field) for part in parts) / len(parts) for field in parts[0]._fields}
    return {**means, "epsilon_of_paper": epsilon_of_paper(k, p.size(-1))}

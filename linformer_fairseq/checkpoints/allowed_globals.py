"""The allow-list of globals in a fairseq checkpoint's pickle, in addition to torch's own.

torch's restricted unpickler (``weights_only=True``) refuses every global that is not listed. Observed in checkpoints
written by fairseq-fixed 0.12.3.1 with torch 2.13:

* ``argparse.Namespace``: ``fairseq-train`` with a model that has no config dataclass (RoBERTa) stores the
  model's options as a Namespace inside its config. Checkpoints before 2021 hold one under ``args``.
* numpy scalars: a best metric that numpy computed (``acc_and_f1``).
* omegaconf's untyped containers: fairseq 0.10 stored its config without converting it to a dict.
* ``fairseq.data.Dictionary``: some tasks (``audio_finetuning``, ``hubert_pretraining``, ``nlu_finetuning``) keep theirs
  in their state. Without fairseq, which this package does not import, it becomes an object with the same attributes.
* nothing else: ``fairseq-hydra-train`` stores plain dicts, and enums are stored as strings.

None of the entries can execute code from the file: a Namespace, the containers and a dictionary only store its
values, and the numpy scalars are not built by numpy's own functions (``numpy.dtype`` does not validate its state) but
by two replacements below, which make only numbers.
"""

import argparse
import collections
import contextlib
import re
import sys
import typing
from collections.abc import Iterator
from typing import Any

import numpy as np
import omegaconf
import torch
from omegaconf.base import ContainerMetadata, Metadata

_NUMBER_KINDS = "biuf"  # bool, signed, unsigned, floating
_NUMBER = re.compile(rf"[{_NUMBER_KINDS}]\d{{1,2}}")  # numpy pickles float64 as "f8"


class NumberType:
    """The type of a number; replaces ``numpy.dtype`` in a pickle, with validation.

    Raises:
        ValueError: if it is not a plain boolean, integer or floating-point type.
    """

    def __init__(self, code: Any, align: Any = False, copy: Any = True) -> None:
        if not isinstance(code, str) or not _NUMBER.fullmatch(code):
            raise ValueError(f"numpy type {code!r}: only plain numbers are expected in a checkpoint")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        if order not in ("<", ">", "|", "="):
            raise ValueError(f"numpy byte order {order!r}: expected one of < > | =")
        self.dtype = self.dtype.newbyteorder(order)


def number(kind: Any, data: Any) -> np.generic:
    """Return one number, given its bytes; replaces numpy's ``scalar`` in a pickle.

    Raises:
        ValueError: if ``kind`` is not a number type or ``data`` are not the bytes of one number.
    """
    dtype = kind.dtype if isinstance(kind, NumberType) else kind
    if not isinstance(dtype, np.dtype) or dtype.kind not in _NUMBER_KINDS:
        raise ValueError(f"numpy scalar of type {kind!r}: only plain numbers are expected in a checkpoint")
    if not isinstance(data, bytes) or len(data) != dtype.itemsize:
        raise ValueError(f"numpy scalar of type {dtype}: expected {dtype.itemsize} bytes")
    value: np.generic = np.frombuffer(data, dtype=dtype)[0]
    return value


class _Values:
    """A dictionary of fairseq, if that is not imported."""


def _dictionary() -> tuple[type, str]:
    module = sys.modules.get("fairseq.data.dictionary")
    return (module.Dictionary if module else _Values), "fairseq.data.dictionary.Dictionary"


_ALLOWED: tuple[Any, ...] = (
    argparse.Namespace,
    # omegaconf's containers and the types in their state
    omegaconf.DictConfig,
    omegaconf.ListConfig,
    omegaconf.AnyNode,
    ContainerMetadata,
    Metadata,
    collections.defaultdict,
    typing.Any,
    *(bool, int, float, str, dict, list, tuple),
    # numpy scalars; numpy 1 calls the module numpy.core, numpy 2 numpy._core
    NumberType,
    (NumberType, "numpy.dtype"),
    (number, "numpy._core.multiarray.scalar"),
    (number, "numpy.core.multiarray.scalar"),
)


@contextlib.contextmanager
def allowed_globals(*more: Any) -> Iterator[None]:
    """Let torch's restricted unpickler accept the allow-list and ``more`` inside the ``with`` block.

    Other calls of torch.load in the process are not affected. Globals that were allowed with
    ``torch.serialization.add_safe_globals`` remain allowed, inside and afterwards.
    """
    theirs = torch.serialization.get_safe_globals()
    ours = [entry for entry in (*_ALLOWED, _dictionary(), *more) if entry not in theirs]
    with torch.serialization.safe_globals(ours):
        yield

"""A folder of binary data: its datasets, their dictionaries, and the tokenizer to decode them."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path

from data_prep.support.splits import NAMES
from linformer_fairseq.files.byte_pieces import join_byte_pieces
from linformer_fairseq.files.dictionary import EOS, SPECIAL, read_symbols
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.tokenizers import files_of, find_tokenizer

_PART = re.compile(r"[0-9]+|input[01]|label")
"""The folders of shards, and of a task; others may be anything, such as a disk's lost+found."""
_HINT = "copy the tokenizer that the data was made with there again"


def find_datasets(folder: Path) -> list[Path]:
    """Paths, without suffix, of all .idx and .bin files in ``folder`` and its subfolders (shards, input0, label).

    Raises:
        OSError: one of them cannot be read.
    """
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))]
    files: list[Path] = []
    for place in places:
        try:
            files += place.iterdir()  # not glob, which leaves out unreadable folders
        except PermissionError:
            if place == folder or _PART.fullmatch(place.name):
                raise
    found = {path.with_suffix("") for path in files if path.suffix == ".idx"}
    # A .bin without .idx only counts if it is named like a split; others, such as pytorch_model.bin, are ignored.
    found |= {path.with_suffix("") for path in files if path.suffix == ".bin" and path.name.startswith(NAMES)}
    return sorted(found, key=lambda path: (path.parent != folder, path))


def dictionary_of(prefix: Path) -> Path | None:
    """The dict.txt of a dataset; datasets of two languages (``train.de-en.de``) have one each (``dict.de.txt``)."""
    names = ("dict.txt", f"dict{prefix.suffix}.txt")
    return next((prefix.with_name(name) for name in names if prefix.with_name(name).is_file()), None)


def symbols_of(dictionary: Path) -> list[str]:
    """All symbols in the order of their ids; see `read_symbols`."""
    return [*SPECIAL, *read_symbols(dictionary)]


def decoder(folder: Path, symbols: Sequence[str]) -> Callable[[Sequence[int]], str]:
    """Returns a function from ids to text, as in `from_pretrained`; to symbols if ``folder`` has no tokenizer (labels).

    Raises:
        UserError: the tokenizer's files cannot be read; or, from the returned function, do not match ``symbols``.
    """

    def pieces(ids: Sequence[int]) -> str:
        return " ".join(symbols[index] for index in ids if index != EOS)

    try:
        options = find_tokenizer([folder, folder.parent] if folder.name.startswith("input") else [folder])
        from fairseq.data import encoders  # here: the rest of data_prep does without fairseq
    except (FileNotFoundError, ModuleNotFoundError):
        return pieces
    files = " and ".join(map(str, files_of(options)))
    sentencepiece = options["bpe"] == "sentencepiece"
    try:
        bpe = encoders.build_bpe(Namespace(**options))
    except ImportError as error:  # fairseq's own, in the place of the one that the library caused
        if isinstance(error.__context__, ModuleNotFoundError):  # sentencepiece is not installed
            return pieces
        raise UserError(f"{files}: its library does not load ({_first_line(error.__context__ or error)})") from None
    except Exception as error:  # each library has its own
        raise UserError(f"{files}: damaged, or no tokenizer ({_first_line(error)}); {_HINT}") from None

    def text(ids: Sequence[int]) -> str:
        try:
            # fairseq joins the pieces of bytes without making characters of them
            return str(bpe.decode(join_byte_pieces(pieces(ids)) if sentencepiece else pieces(ids)))
        except Exception as error:
            raise UserError(f"{files}: does not fit the dict.txt beside it ({_first_line(error)}); {_HINT}") from None

    return text


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

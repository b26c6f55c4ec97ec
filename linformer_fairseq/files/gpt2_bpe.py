"""The two files of GPT-2's byte-level BPE: encoder.json, the number of each token, and vocab.bpe, the merges."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import parse
from linformer_fairseq.files.text import read_text

END_OF_TEXT = "<|endoftext|>"
"""A token of encoder.json that no text is encoded to."""
_VERSION = "#version"
"""What the first line of vocab.bpe begins with."""


def byte_letters() -> dict[str, int]:
    """The byte that each letter of encoder.json and vocab.bpe stands for.

    Printable bytes stand for themselves, the others, in order, are U+0100 and following.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in printable)
    return letters | {chr(0x100 + number): byte for number, byte in enumerate(others)}


def read_bpe(encoder: Path, merges_file: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """The number of every token, and the merges in order.

    Raises:
        UserError: a missing or damaged file, files that do not belong together, or merges that fairseq would not read.
    """
    text = read_text(merges_file)
    if not (text.startswith(_VERSION) and text.endswith("\n")):  # whatever is before or behind them, fairseq drops it
        raise UserError(
            f"{merges_file}: expected a first line {_VERSION} and a line feed at the end, without which fairseq leaves "
            "out a merge; write it anew, into a new folder: linformer data gpt2 --out NEW --from FOLDER"
        )
    numbers, merges = read_numbers(encoder), _merges(text, merges_file)
    tokens = [*byte_letters(), *map("".join, merges)]
    unknown = [token for token in tokens if token not in numbers]
    if unknown or len(set(tokens)) < len(tokens) or len(numbers.keys() - set(tokens) - {END_OF_TEXT}):
        what = f"the merge {unknown[0][:80]!r} is no token there" if unknown else "the numbers of tokens differ"
        raise UserError(f"{merges_file} and {encoder} do not belong together: {what}")
    return numbers, merges


def read_numbers(path: Path) -> dict[str, int]:
    """encoder.json: the number of every token.

    Raises:
        UserError: not a JSON object of numbers, a byte without a token, or a byte order mark.
    """
    try:
        numbers = parse(read_text(path, mark=False))
    except ValueError as error:
        raise UserError(f"{path}: not JSON: {error}") from None
    if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
        raise UserError(f"{path}: expected a JSON object that gives each token a number, as in GPT-2's encoder.json")
    missing = [letter for letter in byte_letters() if letter not in numbers]
    if missing:
        raise UserError(f"{path}: no token for {len(missing)} of the 256 bytes, such as {missing[0]!r}")
    if len(set(numbers.values())) < len(numbers):
        raise UserError(f"{path}: two tokens have the same number")
    return numbers


def read_merges(path: Path) -> list[tuple[str, str]]:
    """vocab.bpe: the two parts of each merge, in order, also without its first line or the last line feed.

    Raises:
        UserError: a line that is not two parts, or a letter that stands for no byte.
    """
    return _merges(read_text(path), path)


def _merges(text: str, path: Path) -> list[tuple[str, str]]:
    """`read_merges` from the text of the file."""
    merges = []
    letters = byte_letters()
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        if number == 1 and line.startswith(_VERSION):
            continue
        parts = line.rstrip("\r").split(" ")
        if len(parts) != 2 or not all(parts) or not all(letter in letters for part in parts for letter in part):
            raise UserError(f"{path}, line {number}: expected two parts of a merge, found {line[:80]!r}")
        merges.append((parts[0], parts[1]))
    return merges


def write_merges(path: Path, merges: Iterable[str]) -> None:
    """Write a vocab.bpe from merges, each with a blank between its parts, as fairseq reads it.

    Raises:
        OSError: it cannot be written.
    """
    write_file(path, "".join(f"{line}\n" for line in (f"{_VERSION}: 0.2", *merges)))

"""What `linformer predict`, `embed` and `fill-mask` have in common: the stream of texts, and the report."""

from __future__ import annotations

import argparse
import json
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from linformer_fairseq.checkpoints.released_folder import files_read
from linformer_fairseq.cli.arguments.prediction import STDIN
from linformer_fairseq.files.atomic import atomic_open, check_output
from linformer_fairseq.files.cuts import WINDOWS
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.progress import Progress
from linformer_fairseq.prediction.inputs import open_source
from linformer_fairseq.prediction.items import Text, unlike_training

Run = Callable[[Iterable[Text | ValueError]], Iterator[Any]]
"""Yields a result for each text, or its error."""
Results = Iterator[tuple[str, Any]]
"""Results with the id of their text."""


def _standard_input() -> int | None:
    """Its descriptor; None if there is no standard input, or none of the system's."""
    try:
        return sys.stdin.fileno() if sys.stdin else None
    except (OSError, ValueError):  # ValueError: it is closed
        return None


class TextStream:
    """The input of a command, and counts of what happened to its texts."""

    def __init__(self, arguments: argparse.Namespace, *beside: Path) -> None:
        """Open the input.

        Args:
            arguments: of the command.
            beside: further outputs, whose names follow from that of ``out``.

        Raises:
            UserError: it cannot be read or is also an output, or an output cannot be written.
        """
        path = None if arguments.input == STDIN else arguments.input
        out = arguments.out
        if out is not None:
            given = _standard_input() if path is None else path
            model = files_read(arguments.checkpoint, arguments.data)
            for file in (out, *beside):
                check_output("--out", file, given, *model)
        if path is not None and out is not None and path.is_dir() and out.resolve().is_relative_to(path.resolve()):
            raise UserError(f"--out {out}: is in the folder of the texts, and would be one of them; choose another")
        self._source = open_source(path, sys.stdin.buffer if sys.stdin else None, arguments.format, arguments.field)
        self._guessed = not arguments.field
        self._texts = self._failed = self._long = self._singles = self._pairs = 0

    def results(self, run: Run, label: str) -> Results:
        """Compute all texts, and report those that cannot be processed.

        Args:
            run: computes them.
            label: of the progress.

        Yields:
            The id of each text, in order, and its result, or the ValueError that says why there is none.
        """
        source = self._source
        waiting: deque[tuple[str, int]] = deque()

        with Progress(label, source.total, items=source.unit, steps="texts") as progress:

            def texts() -> Iterator[Text | ValueError]:
                for item in source.items:
                    progress.tell()  # here, since all texts that are sorted together are done by then
                    waiting.append((item.id, item.size))
                    self._singles += isinstance(item.text, str)
                    self._pairs += isinstance(item.text, tuple)
                    yield item.text

            for result in run(texts()):
                identifier, size = waiting.popleft()
                self._texts += 1
                if isinstance(result, ValueError):
                    self._failed += 1
                    print(f"{source.name}, {source.place} {identifier}: {result}", file=sys.stderr)
                else:
                    self._long += getattr(result, "long", False)
                yield identifier, result
                progress.add(size)

    def finish(self, n: int = 0, long: str = "", expected: int | None = None) -> int:
        """Report what was truncated or left out, or that there was nothing; returns the exit status.

        Args:
            n: the number of tokens of the longest input.
            long: how longer texts were treated, if they were.
            expected: the number of texts of an input in the training, 2 for pairs; None: not known.
        """
        if not self._texts:
            print(f"{self._source.name}: no texts in it", file=sys.stderr)
        if self._pairs and self._guessed:
            print(
                f"{self._pairs:,} of {self._texts:,} lines have two columns and were read as pairs of texts; --field "
                "chooses columns by name",
                file=sys.stderr,
            )
        if remark := unlike_training(self._texts, self._singles, self._pairs, expected):
            print(remark, file=sys.stderr)
        if self._long:
            what = "divided into windows" if long == WINDOWS else f"truncated ({long}); --long windows divides them"
            print(f"{self._long:,} of {self._texts:,} texts have more than {n} tokens and were {what}", file=sys.stderr)
        if self._failed:
            print(f"{self._failed:,} of {self._texts:,} texts could not be processed", file=sys.stderr)
        return 1 if self._failed else 0


def write_lines(path: Path | None, lines: Iterable[str]) -> None:
    """Write lines to a file that appears when it is complete, or to standard output.

    Raises:
        UserError: standard output is closed, or its encoding lacks a character.
        OSError: the file cannot be written.
    """
    if path is None:
        if sys.stdout is None:
            raise UserError("standard output: is closed; name a file with --out")
        for line in lines:
            _require_encoding(line)
            print(line)
        sys.stdout.flush()
        return
    with atomic_open(path) as stream:
        stream.writelines(f"{line}\n" for line in lines)


def _require_encoding(line: str) -> None:
    """These are data, in which a character must not be replaced, as `exit_status` lets others be."""
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError as error:
        character = error.object[error.start]
        raise UserError(
            f"standard output: its encoding, {error.encoding}, has no {character!a}; name a file with --out, "
            "which is in UTF-8, or set PYTHONIOENCODING=utf-8"
        ) from None


def json_line(**fields: object) -> str:
    """The fields as a JSON object."""
    return json.dumps(fields, ensure_ascii=False)

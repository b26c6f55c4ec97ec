"""Measure how close `linformer convert` comes to its source with each initialization of E and F.

    python -m scripts.reproduce_tools.conversion_starts --text reviews.txt --out results/conversion/starts.json

The source is the RoBERTa of `dense_small`, 6 layers x 256 with n = 64. It is converted with k = 32 and k = 16, with
the defaults of `linformer convert` for everything else, and compared on the first tokens of the text. Prints the table
of docs/conversion.md.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from benchmarks.measuring import provenance, said
from data_prep.support.program import program_parser, run_program
from linformer_fairseq.conversion.convert import Choices, Sample, convert
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.json_records import write_json
from linformer_fairseq.files.markdown import markdown_table
from linformer_fairseq.files.option_types import count
from linformer_fairseq.files.provenance import PACKAGES
from scripts.reproduce_tools.dense_small import write_dense

DIMS = (32, 16)
WAYS = (
    ("convolution", "window_means"),
    ("linear", "window_means"),
    ("linear", "dct"),
    ("linear", "least_squares"),
    ("convolution", "least_squares"),
    ("convolution", "random"),
    ("linear", "random"),
)
"""Kinds of projection, and what E and F start from."""


def measure(text: Path, tokens: int) -> dict[str, Any]:
    """Convert in every way, and compare.

    Args:
        text: UTF-8, one paragraph per line.
        tokens: how many are compared on.

    Returns:
        ``text`` (name, sha256, length and number of its blocks), ``source`` (perplexity) and ``rows``: ``projection``,
        ``start``, ``k``, ``perplexity`` and ``errors``, the relative errors of the attention's output by layer.

    Raises:
        UserError, OSError: the text cannot be read, or is too short.
    """
    rows = []
    with TemporaryDirectory() as work:
        dense = Path(work) / "dense"
        write_dense(dense)
        for projection, start in WAYS:
            for k in DIMS:
                choices = Choices(k, "layerwise", projection, start, None, 1)
                out = Path(work) / f"{projection}_{start}_{k}"
                record = convert(dense, dense.name, out, choices, None, Sample(text, tokens), torch.device("cpu"))
                compared = record["comparison"]
                (found,) = compared["perplexity"]
                errors = compared["attention_errors"]
                rows.append(
                    {"projection": projection, "start": start, "k": k, "perplexity": found["result"], "errors": errors}
                )
    return {
        "text": {
            **{key: compared[key] for key in ("text", "sha256")},
            "length": found["length"],
            "blocks": found["blocks"],
        },
        "source": found["source"],
        "rows": rows,
    }


def table(result: dict[str, Any]) -> list[str]:
    """The lines of the table: a row for each way, with columns for each k."""
    head = ["`--projection`", "`--start`"]
    for k in DIMS:
        head += [f"perplexity, k = {k}", f"error by layer, k = {k}"]
    lines = [head]
    for projection, start in WAYS:
        line = [f"`{projection}`", f"`{start}`"]
        for k in DIMS:
            (row,) = (
                row for row in result["rows"] if (row["projection"], row["start"], row["k"]) == (projection, start, k)
            )
            line += [f"{row['perplexity']:,.1f}", ", ".join(f"{error:.2f}" for error in row["errors"])]
        lines.append(line)
    return markdown_table(lines, left=(0, 1, 3, 5))


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = program_parser(None, "scripts.reproduce_tools.conversion_starts", __doc__)
    parser.add_argument("--text", type=Path, required=True, metavar="FILE", help="UTF-8, one paragraph per line")
    parser.add_argument(
        "--text-tokens", type=count, default=8192, metavar="N", help="tokens to compare on (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON file for the results")
    given = parser.parse_args(argv)
    words = [word if word != str(given.text) else given.text.name for word in (sys.argv[1:] if argv is None else argv)]
    command = f"python -m scripts.reproduce_tools.conversion_starts {shlex.join(words)}"
    made = provenance(command, sorted(PACKAGES))  # in the order that they have in the file
    try:
        result = {"provenance": made, **measure(given.text, given.text_tokens)}
    except ValueError as error:
        raise UserError(str(error)) from None
    write_json(given.out, result)
    print("\n".join([*table(result), "", f"({said(made)})"]))


if __name__ == "__main__":
    run_program(main)

"""Time and memory of each step of the preparation of pretraining data, for texts of several sizes.

    LINFORMER_DATA=DIR python -m benchmarks.preparation       writes to results/data_prep

The text is from books and Wikipedia, documents separated by empty lines; the steps are those of
`linformer data pretraining` with its defaults. Each round measures all sizes once, after an untimed run on a short
text. Memory is that of all processes of a step together. If a step uses 1 GB or more, the exit status is 1.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.binarizing import PACKAGES, Numbers, numbers, summary, text_lines, write_text
from benchmarks.measuring import ROOT, provenance, real_data, run, said
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.json_records import read_object
from linformer_fairseq.files.markdown import markdown_table
from linformer_fairseq.files.option_types import count

LIMIT = 1e9
"""Bytes of memory; every step has to use less."""
STEPS = {"build_corpus": "corpus", "train_sentencepiece": "vocabulary (32,000)", "binarize": "binary data"}
"""The programs and their outputs."""
LITTLE = 0.1
"""MB of text in the untimed run."""


def one_round(data: Path, megabytes: float, workers: int) -> tuple[float, dict[str, int], dict[str, Numbers]]:
    """Run all steps on a text of ``megabytes``.

    Returns:
        The size of the text in MB, counts of the training data, the measurements of each step.
    """
    with tempfile.TemporaryDirectory(prefix="preparation_benchmark_") as folder:
        work = Path(folder)
        text = work / "text.txt"
        size = write_text(text, text_lines(None, data, int(megabytes * 1e6)))
        corpus, tokenizer, binary = work / "text", work / "tokenizer", work / "bin"
        processes = ["--workers", workers]
        options = {
            "build_corpus": ["--out", corpus, *processes, text],
            "train_sentencepiece": ["--out", tokenizer, corpus],
            "binarize": ["--tokenizer", tokenizer, "--out", binary, *processes, corpus],
        }
        steps = {step: numbers(run([sys.executable, "-m", f"data_prep.{step}", *options[step]])) for step in STEPS}
        train = read_object(binary / "manifest.json")["splits"]["train"]
        words = read_object(corpus / "manifest.json")["splits"]["train"]["words"]
        return size, {"documents": train["documents"], "words": words, "tokens": train["tokens"]}, steps


def measure(data: Path, sizes: list[float], workers: int, rounds: int) -> list[dict[str, Any]]:
    """Measure all sizes; returns a row for each."""
    one_round(data, LITTLE, workers)
    found: dict[float, list[tuple[float, dict[str, int], dict[str, Numbers]]]] = {size: [] for size in sizes}
    for number in range(rounds):
        for size in sizes:
            print(f"round {number + 1}: {size:g} MB", file=sys.stderr, flush=True)
            found[size].append(one_round(data, size, workers))
    rows = []
    for one in found.values():
        megabytes, counts, _ = one[0]
        steps = {step: summary([steps[step] for _, _, steps in one], megabytes) for step in STEPS}
        rows.append({"megabytes": round(megabytes, 2), "train": counts, "steps": steps})
    return rows


def cells(row: dict[str, Any]) -> list[str]:
    """Time and memory of each step."""
    return [f"{step['seconds']:.1f} s, {step['peak_bytes'] / 1e6:.0f} MB" for step in row["steps"].values()]


def basis(result: dict[str, Any]) -> str:
    """How the numbers were measured, as text."""
    rounds = len(result["sizes"][0]["steps"]["binarize"]["rounds"])
    return (
        f"Median seconds of {rounds} rounds and peak memory of all processes; the vocabulary is trained on a sample of "
        f"20 MB. {said(result['provenance'])}"
    )


def by_size(result: dict[str, Any]) -> list[str]:
    """The three steps by the size of the text, a Markdown table for docs/performance.md."""
    rows = [[f"all three steps, {result['workers']} processes", *STEPS.values()]]
    rows += [[f"{row['megabytes']:.0f} MB of books and Wikipedia", *cells(row)] for row in result["sizes"]]
    return [*markdown_table(rows, gap=""), "", f"({basis(result)})"]


def table(result: dict[str, Any]) -> str:
    """The page in results/: time and memory of the steps, and the size of their output."""
    rows = [[f"MB of text, {result['workers']} processes", *STEPS, "documents", "words", "tokens (train)"]]
    for row in result["sizes"]:
        counts = [f"{count:,}" for count in row["train"].values()]
        rows.append([f"{row['megabytes']:.1f}", *cells(row), *counts])
    return "\n".join([*markdown_table(rows, left=(), gap=""), "", basis(result)]) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run the program; returns the exit status."""
    program, words = "python -m benchmarks.preparation", sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(program, description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sizes", type=float, nargs="+", default=[10, 200], help="MB of text (%(default)s)")
    parser.add_argument("--workers", type=count, default=2, help="processes (%(default)s)")
    parser.add_argument("--rounds", type=count, default=5, help="each measures all sizes (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "data_prep", help="folder for the results")
    args = parser.parse_args(words)
    data = real_data()
    if data is None:
        parser.error("set LINFORMER_DATA to the folder of real data")
    made = provenance(" ".join([program, *words]), PACKAGES)
    sizes = measure(data, args.sizes, args.workers, args.rounds)
    result = {"workers": args.workers, "sizes": sizes, "provenance": made}
    write_file(args.out / "preparation.json", json.dumps(result, indent=1) + "\n")  # steps in the order of the table
    write_file(args.out / "preparation.md", table(result))
    print(table(result), end="")
    if max(step["peak_bytes"] for row in sizes for step in row["steps"].values()) >= LIMIT:
        print("error: a step took 1 GB of memory or more", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The whole preparation of pretraining data, step by step: time and memory, for texts of several sizes.

    LINFORMER_DATA=DIR python benchmarks/preparation.py       the results in results/data_prep

The text is books and Wikipedia, documents separated by empty lines; the steps are those of
scripts/prepare_pretraining.sh with its defaults. Memory is that of all processes of a step together. Where a step takes
1 GB or more, the exit status is 1.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

if not __package__:  # run by its path
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.data_prep import PACKAGES, text_lines, write_text
from benchmarks.measuring import ROOT, provenance, run, said

LIMIT = 1e9
"""Bytes that no step may take."""


def measure(data: Path, megabytes: int, workers: int, work: Path) -> dict[str, Any]:
    """All steps on a text of that size, in the folder ``work``."""
    text = work / "text.txt"
    size = write_text(text, text_lines(None, data, int(megabytes * 1e6)))
    corpus, tokenizer, binary = work / "text", work / "tokenizer", work / "bin"
    processes = ["--workers", workers]
    steps = {
        "build_corpus": ["--out", corpus, *processes, text],
        "train_sentencepiece": ["--out", tokenizer, corpus],
        "binarize": ["--tokenizer", tokenizer, "--out", binary, *processes, corpus],
    }
    measured = {}
    for program, words in steps.items():
        print(f"{size:.0f} MB: {program}", file=sys.stderr, flush=True)
        took = run([sys.executable, "-m", f"data_prep.{program}", *words])
        measured[program] = {"seconds": took.seconds, "cpu_seconds": took.cpu_seconds, "peak_bytes": took.peak_bytes}
    train = json.loads((binary / "manifest.json").read_text())["splits"]["train"]
    words_of_train = json.loads((corpus / "manifest.json").read_text())["splits"]["train"]["words"]
    counts = {"documents": train["documents"], "words": words_of_train, "tokens": train["tokens"]}
    return {"megabytes": round(size, 2), "train": counts, "steps": measured}


def table(result: dict[str, Any]) -> str:
    """Markdown."""
    lines = [
        f"Preparing pretraining data, {result['workers']} workers: seconds, and peak memory of all processes in MB.",
        "",
        "| MB of text | " + " | ".join(result["sizes"][0]["steps"]) + " | documents | words | tokens (train) |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in result["sizes"]:
        steps = [f"{step['seconds']:.1f} s, {step['peak_bytes'] / 1e6:.0f} MB" for step in row["steps"].values()]
        counts = [f"{count:,}" for count in row["train"].values()]
        lines.append("| " + " | ".join([f"{row['megabytes']:.1f}", *steps, *counts]) + " |")
    return "\n".join([*lines, "", said(result["provenance"])]) + "\n"


def main() -> int:
    """The program; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 50, 200], help="MB of text (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "data_prep", help="folder for the results")
    args = parser.parse_args()
    if not os.environ.get("LINFORMER_DATA"):
        parser.error("set LINFORMER_DATA to the folder of real data")
    data = Path(os.environ["LINFORMER_DATA"]).resolve()
    made = provenance(" ".join(["python benchmarks/preparation.py", *sys.argv[1:]]), PACKAGES)
    sizes = []
    for megabytes in args.sizes:
        with tempfile.TemporaryDirectory(prefix="preparation_benchmark_") as work:
            sizes.append(measure(data, megabytes, args.workers, Path(work)))
    result = {"workers": args.workers, "sizes": sizes, "provenance": made}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "preparation.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.out / "preparation.md").write_text(table(result))
    print(table(result), end="")
    if max(step["peak_bytes"] for row in sizes for step in row["steps"].values()) >= LIMIT:
        print("error: a step took 1 GB of memory or more", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Text to fairseq's binary format: fairseq's own path and data_prep.binarize, on the same file, in one go.

    LINFORMER_DATA=DIR python benchmarks/data_prep.py                             the results in results/data_prep
    python benchmarks/data_prep.py --text FILE --bpe DIR --out DIR [--megabytes N]    on a text of your own

fairseq's path is its examples/roberta/multiprocessing_bpe_encoder.py and then fairseq-preprocess, as its RoBERTa page
says; ours is python -m data_prep.binarize with the same GPT-2 BPE. Start-up counts in both. The lines of the text are
stripped first, as fairseq's encoder does it. The two results must be equal byte for byte, and ours at least 6 times
faster: otherwise the exit status is 1. Memory is that of all processes together.
"""

import argparse
import importlib.util
import json
import lzma
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

if not __package__:  # run by its path: this file must not stand for the package data_prep
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.measuring import ROOT, Measured, provenance, run, said

WANTED = 6.0
"""How many times faster ours must be."""
PACKAGES = ("fairseq-fixed", "torch", "numpy", "tiktoken", "sentencepiece")
BOOKS_SHARE = 0.6
"""Of the bytes of the whole corpus, 120 of 200 MB; the shorter texts have the same mixture."""


def text_lines(text: Path | None, data: Path | None, size: int) -> Iterator[bytes]:
    """Stripped lines of about ``size`` bytes: the beginning of ``text``, or of books and of Wikipedia."""
    sources = [(text, 1.0)] if text else []
    if data and not text:
        sources = [(data / "corpus/books.txt.xz", BOOKS_SHARE), (data / "corpus/wiki.txt.xz", 1 - BOOKS_SHARE)]
    for path, share in sources:
        assert path is not None
        left = size * share
        with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as stream:
            for line in stream:
                left -= len(line)
                if left < 0:
                    break
                yield line.decode().strip().encode() + b"\n"


def write_text(path: Path, lines: Iterator[bytes]) -> float:
    """Write the lines; returns megabytes."""
    with path.open("wb") as stream:
        stream.writelines(lines)
    return path.stat().st_size / 1e6


def fairseq_path(text: Path, bpe: Path, work: Path, workers: int) -> dict[str, Any]:
    """Both of fairseq's commands, one after the other."""
    found = importlib.util.find_spec("fairseq")
    if found is None or found.origin is None:
        raise SystemExit("error: fairseq is not installed; `linformer doctor` says how to get it")
    encoder = Path(found.origin).parent / "examples/roberta/multiprocessing_bpe_encoder.py"
    tokens, out = work / "train.bpe", work / "fairseq"
    files = ["--encoder-json", bpe / "encoder.json", "--vocab-bpe", bpe / "vocab.bpe"]
    first = run(
        [sys.executable, encoder, *files, "--inputs", text, "--outputs", tokens, "--keep-empty", "--workers", workers]
    )
    preprocess = Path(sys.executable).with_name("fairseq-preprocess")
    options = ["--srcdict", bpe / "dict.txt", "--trainpref", tokens, "--destdir", out, "--workers", workers]
    second = run([preprocess, "--only-source", *options])
    return {
        "seconds": first.seconds + second.seconds,
        "encoder_seconds": first.seconds,
        "preprocess_seconds": second.seconds,
        "cpu_seconds": first.cpu_seconds + second.cpu_seconds,
        "peak_bytes": max(first.peak_bytes, second.peak_bytes),
    }


def ours(text: Path, tokenizer: Path, out: Path, workers: int) -> Measured:
    """One run into a new folder."""
    return run(
        [sys.executable, "-m", "data_prep.binarize", "--tokenizer", tokenizer, "--out", out, "--workers", workers, text]
    )


def summary(runs: list[Measured], megabytes: float) -> dict[str, Any]:
    """Median of the times, highest of the peaks."""
    seconds = statistics.median(one.seconds for one in runs)
    return {
        "megabytes": round(megabytes, 2),
        "seconds": seconds,
        "all_seconds": [round(one.seconds, 3) for one in runs],
        "mb_per_second": megabytes / seconds,
        "cpu_seconds": statistics.median(one.cpu_seconds for one in runs),
        "peak_bytes": max(one.peak_bytes for one in runs),
    }


def line_fit(points: list[tuple[float, float]]) -> dict[str, float]:
    """Least squares: start + slope * MB, and how much of the variance that explains."""
    xs, ys = zip(*points, strict=True)
    slope, start = statistics.linear_regression(xs, ys)
    return {"start": start, "slope": slope, "r_squared": statistics.correlation(xs, ys) ** 2}


def measure(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """All of it."""
    bpe, workers = args.bpe, args.workers
    text = work / "train.txt"
    megabytes = write_text(text, text_lines(args.text, args.data, int(args.megabytes * 1e6)))
    sentencepiece = work / "sentencepiece"
    run([sys.executable, "-m", "data_prep.train_sentencepiece", "--out", sentencepiece, text])
    runs: dict[str, list[Measured]] = {"gpt2_bpe": [], "sentencepiece": []}
    theirs: dict[str, Any] = {}
    # Half of our runs before fairseq's and half after: what else the machine does then weighs on both alike.
    for number in range(args.repetitions):
        if number == args.repetitions // 2:
            theirs = fairseq_path(text, bpe, work, workers)
        for kind, tokenizer in (("gpt2_bpe", bpe), ("sentencepiece", sentencepiece)):
            runs[kind].append(ours(text, tokenizer, work / f"{kind}{number}", workers))
    identical = all(
        (work / "fairseq" / f"train.{suffix}").read_bytes() == (work / "gpt2_bpe0" / f"train.{suffix}").read_bytes()
        for suffix in ("bin", "idx")
    )
    sizes = []
    for size in args.sizes:
        part = work / f"part{size}.txt"
        length = write_text(part, text_lines(args.text, args.data, int(size * 1e6)))
        repeated = [ours(part, bpe, work / f"part{size}-{number}", workers) for number in range(3)]
        sizes.append(summary(repeated, length))
    gpt2 = summary(runs["gpt2_bpe"], megabytes)
    return {
        "workers": workers,
        "megabytes": round(megabytes, 2),
        "fairseq": theirs | {"mb_per_second": megabytes / theirs["seconds"]},
        "gpt2_bpe": gpt2,
        "sentencepiece": summary(runs["sentencepiece"], megabytes),
        "identical": identical,
        "times_faster": theirs["seconds"] / gpt2["seconds"],
        "sizes": sizes,
        "fit": {key: line_fit([(one["megabytes"], one[key]) for one in sizes]) for key in ("seconds", "cpu_seconds")},
    }


def table(result: dict[str, Any]) -> str:
    """Markdown."""
    fairseq = result["fairseq"]
    lines = [
        f"{result['megabytes']:.1f} MB of text to fairseq's binary format, {result['workers']} workers, with start-up.",
        f"fairseq: encoder {fairseq['encoder_seconds']:.1f} s, then preprocess {fairseq['preprocess_seconds']:.1f} s. "
        f"Ours: medians of {len(result['gpt2_bpe']['all_seconds'])} runs.",
        f"The ids are {'the same, byte for byte' if result['identical'] else 'DIFFERENT'}.",
        "",
        "| | seconds | MB/s | times faster | CPU seconds | peak memory, MB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, key in (
        ("fairseq, GPT-2 BPE", "fairseq"),
        ("ours, GPT-2 BPE", "gpt2_bpe"),
        ("ours, sentencepiece", "sentencepiece"),
    ):
        row = result[key]
        lines.append(
            f"| {name} | {row['seconds']:.1f} | {row['mb_per_second']:.1f} | {fairseq['seconds'] / row['seconds']:.1f} "
            f"| {row['cpu_seconds']:.1f} | {row['peak_bytes'] / 1e6:.0f} |"
        )
    lines += [
        "",
        "Ours, GPT-2 BPE, by the size of the text (medians of 3): "
        + "; ".join(
            f"{name} = {fit['start']:.2f} + {fit['slope']:.4f} per MB, R² = {fit['r_squared']:.4f}"
            for name, fit in (("seconds", result["fit"]["seconds"]), ("CPU seconds", result["fit"]["cpu_seconds"]))
        ),
        "",
        "| MB | seconds | MB/s | CPU seconds | peak memory, MB |",
        "|---:|---:|---:|---:|---:|",
    ]
    for row in result["sizes"]:
        numbers = (row["megabytes"], row["seconds"], row["mb_per_second"], row["cpu_seconds"], row["peak_bytes"] / 1e6)
        lines.append("| {:.1f} | {:.2f} | {:.1f} | {:.2f} | {:.0f} |".format(*numbers))
    lines += ["", said(result["provenance"])]
    return "\n".join(lines) + "\n"


def main() -> int:
    """The program; returns the exit status."""
    data = Path(os.environ["LINFORMER_DATA"]).resolve() if os.environ.get("LINFORMER_DATA") else None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, help="UTF-8 text (default: books and Wikipedia in LINFORMER_DATA)")
    parser.add_argument("--bpe", type=Path, help="folder of encoder.json, vocab.bpe, dict.txt (LINFORMER_DATA/bpe)")
    parser.add_argument("--megabytes", type=float, default=40, help="of text for the comparison (%(default)s)")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 20, 40, 80, 200], help="MB for ours (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=5, help="of ours (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "data_prep", help="folder for the results")
    args = parser.parse_args()
    args.data = data
    args.text = args.text and args.text.resolve()  # the commands run from the repository's root
    args.bpe = args.bpe.resolve() if args.bpe else data / "bpe" if data else None
    if args.bpe is None or not (args.text or data):
        parser.error("set LINFORMER_DATA to the folder of real data, or give --text and --bpe")
    made = provenance(" ".join(["python benchmarks/data_prep.py", *sys.argv[1:]]), PACKAGES)
    with tempfile.TemporaryDirectory(prefix="data_prep_benchmark_") as work:
        result = {**measure(args, Path(work)), "provenance": made}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "binarize.json").write_text(json.dumps(result, indent=1) + "\n")
    (args.out / "binarize.md").write_text(table(result))
    print(table(result), end="")
    if not result["identical"] or result["times_faster"] < WANTED:
        print(f"error: expected identical ids, and ours at least {WANTED:g} times faster", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Time and memory of converting a text to token ids, with fairseq, Hugging Face's libraries and data_prep.binarize.

    LINFORMER_DATA=DIR python -m benchmarks.binarizing                                 writes to results/data_prep
    python -m benchmarks.binarizing --text FILE --bpe DIR --out DIR [--megabytes N]    on a text of your own

fairseq's commands are examples/roberta/multiprocessing_bpe_encoder.py and fairseq-preprocess, as in its RoBERTa
documentation; Hugging Face's libraries are called by benchmarks/hugging_face_data.py; ours is python -m
data_prep.binarize, with the same GPT-2 BPE and with sentencepiece. Each round runs all of them once, with the same
number of processes, after an untimed run of each on a short text. Times include start-up; memory is that of all
processes together. Lines are stripped first, as in fairseq's encoder. If our output is not identical to fairseq's, or
not at least 6 times faster, the exit status is 1. Lines whose ids differ from Hugging Face's are counted.
"""

import argparse
import importlib.util
import json
import lzma
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measuring import ROOT, Measured, provenance, real_data, run, said
from linformer_fairseq.files.atomic import write_file
from linformer_fairseq.files.markdown import markdown_table
from linformer_fairseq.files.option_types import count

WANTED = 6.0
"""How many times faster than fairseq ours must be."""
PACKAGES = ("fairseq-fixed", "torch", "numpy", "tiktoken", "sentencepiece")
RIVALS = ("tokenizers", "datasets")
BOOKS_SHARE = 0.6
"""Share of books in the bytes of the corpus, 120 of 200 MB; shorter texts have the same mixture."""
LABELS = {
    "fairseq": "fairseq (`multiprocessing_bpe_encoder.py`, `fairseq-preprocess`), GPT-2 BPE",
    "hugging_face": "Hugging Face (`tokenizers`, `datasets.map`, `save_to_disk`), GPT-2 BPE",
    "gpt2_bpe": "this project, GPT-2 BPE",
    "sentencepiece": "this project, sentencepiece",
}
Numbers = dict[str, float]
"""Seconds, CPU seconds and peak bytes of a run."""


def text_lines(text: Path | None, data: Path | None, size: int) -> Iterator[bytes]:
    """Stripped lines of about ``size`` bytes from the beginning of ``text``, or of books and Wikipedia."""
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
    """Write the lines; returns the size of the file in MB."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.writelines(lines)
    return path.stat().st_size / 1e6


def numbers(*commands: Measured) -> Numbers:
    """Total time of commands that run one after the other, and the highest of their memory peaks."""
    return {
        "seconds": sum(one.seconds for one in commands),
        "cpu_seconds": sum(one.cpu_seconds for one in commands),
        "peak_bytes": max(one.peak_bytes for one in commands),
    }


def fairseq_path(text: Path, bpe: Path, out: Path, workers: int) -> Numbers:
    """Run both of fairseq's commands, one after the other."""
    found = importlib.util.find_spec("fairseq")
    if found is None or found.origin is None:
        raise SystemExit("error: fairseq is not installed; `linformer doctor` says how to get it")
    encoder = Path(found.origin).parent / "examples/roberta/multiprocessing_bpe_encoder.py"
    tokens = out.with_suffix(".bpe")
    files = ["--encoder-json", bpe / "encoder.json", "--vocab-bpe", bpe / "vocab.bpe"]
    first = run(
        [sys.executable, encoder, *files, "--inputs", text, "--outputs", tokens, "--keep-empty", "--workers", workers]
    )
    preprocess = Path(sys.executable).with_name("fairseq-preprocess")
    options = ["--srcdict", bpe / "dict.txt", "--trainpref", tokens, "--destdir", out, "--workers", workers]
    second = run([preprocess, "--only-source", *options])
    return numbers(first, second) | {"encoder_seconds": first.seconds, "preprocess_seconds": second.seconds}


def hugging_face(text: Path, bpe: Path, out: Path, workers: int) -> Numbers:
    """Run hugging_face_data.py, with `tokenizers` and `datasets`."""
    program = ROOT / "benchmarks" / "hugging_face_data.py"
    return numbers(run([sys.executable, program, "--bpe", bpe, "--out", out, "--workers", workers, text]))


def ours(text: Path, tokenizer: Path, out: Path, workers: int) -> Numbers:
    """Run data_prep.binarize."""
    words = ["--tokenizer", tokenizer, "--out", out, "--workers", workers, text]
    return numbers(run([sys.executable, "-m", "data_prep.binarize", *words]))


def same_files(one: Path, other: Path) -> bool:
    """Whether two folders have the same train.bin and train.idx."""
    return all((one / name).read_bytes() == (other / name).read_bytes() for name in ("train.bin", "train.idx"))


def different_lines(arrow: Path, binary: Path) -> dict[str, int]:
    """Count the lines whose ids differ between Hugging Face's data set ``arrow`` and fairseq's format in ``binary``."""
    import numpy as np
    from datasets import load_from_disk
    from fairseq.data.indexed_dataset import MMapIndexedDataset

    theirs, mine = load_from_disk(str(arrow)).with_format("numpy"), MMapIndexedDataset(str(binary / "train"))
    pairs = zip(theirs["input_ids"], (mine[number].numpy() for number in range(len(mine))), strict=False)
    different = sum(not np.array_equal(one, other) for one, other in pairs)
    return {"lines": len(mine), "their_lines": len(theirs), "different": different}


def rounds_of(
    programs: Mapping[str, Callable[[Path], Numbers]], count: int, work: Path, look: Callable[[Path], Any]
) -> tuple[dict[str, list[Numbers]], Any]:
    """Run each program once per round.

    Args:
        programs: called with the folder to write to.
        count: number of rounds.
        work: parent of the output folders, which are removed after each round.
        look: called after the first round, with the parent of a folder of each name.

    Returns:
        The measurements of each program by round; the result of ``look``.
    """
    found: dict[str, list[Numbers]] = {name: [] for name in programs}
    seen: Any = None
    for number in range(count):
        folder = work / f"round{number}"
        folder.mkdir()
        for name, program in programs.items():
            found[name].append(program(folder / name))
            print(f"round {number + 1}: {name} {found[name][-1]['seconds']:.1f} s", file=sys.stderr, flush=True)
        if number == 0:
            seen = look(folder)
        shutil.rmtree(folder)
    return found, seen


def summary(runs: Sequence[Numbers], megabytes: float) -> dict[str, Any]:
    """Medians of the times, the highest memory peak, and the measurements of each round."""
    seconds = statistics.median(one["seconds"] for one in runs)
    return {
        "megabytes": round(megabytes, 2),
        "seconds": seconds,
        "mb_per_second": megabytes / seconds,
        "cpu_seconds": statistics.median(one["cpu_seconds"] for one in runs),
        "peak_bytes": max(one["peak_bytes"] for one in runs),
        "rounds": list(runs),
    }


def ratio(result: dict[str, Any], slow: str, fast: str) -> float:
    """How many times faster ``fast`` is: the median over the rounds, in each of which both ran."""
    pairs = zip(result["programs"][slow]["rounds"], result["programs"][fast]["rounds"], strict=True)
    return statistics.median(one["seconds"] / other["seconds"] for one, other in pairs)


def line_fit(points: list[tuple[float, float]]) -> dict[str, float]:
    """Least-squares fit of start + slope * MB, and its coefficient of determination (R squared)."""
    xs, ys = zip(*points, strict=True)
    slope, start = statistics.linear_regression(xs, ys)
    return {"start": start, "slope": slope, "r_squared": statistics.correlation(xs, ys) ** 2}


def measure(args: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Compare the programs, and measure ours with texts of several sizes."""
    bpe, workers = args.bpe, args.workers
    texts = {size: work / f"{size:g}MB" / "train.txt" for size in {args.megabytes, *args.sizes}}
    lengths = {
        size: write_text(path, text_lines(args.text, args.data, int(size * 1e6))) for size, path in texts.items()
    }
    text, sentencepiece = texts[args.megabytes], work / "sentencepiece"
    run([sys.executable, "-m", "data_prep.train_sentencepiece", "--out", sentencepiece, text])

    def programs(text: Path) -> dict[str, Callable[[Path], Numbers]]:
        return {
            "fairseq": lambda out: fairseq_path(text, bpe, out, workers),
            "hugging_face": lambda out: hugging_face(text, bpe, out, workers),
            "gpt2_bpe": lambda out: ours(text, bpe, out, workers),
            "sentencepiece": lambda out: ours(text, sentencepiece, out, workers),
        }

    def look(folder: Path) -> dict[str, Any]:
        mine = folder / "gpt2_bpe"
        return {
            "fairseq": same_files(folder / "fairseq", mine),
            "hugging_face": different_lines(folder / "hugging_face", mine),
        }

    little = work / "little" / "train.txt"
    write_text(little, text_lines(args.text, args.data, 100_000))
    print("untimed runs", file=sys.stderr, flush=True)
    rounds_of(programs(little), 1, work, lambda folder: None)
    runs, ids = rounds_of(programs(text), args.rounds, work, look)
    by_size = {f"{size:g} MB": partial(ours, texts[size], bpe, workers=workers) for size in args.sizes}
    grown, _ = rounds_of(by_size, args.rounds, work, lambda folder: None)
    sizes = [summary(grown[f"{size:g} MB"], lengths[size]) for size in args.sizes]
    return {
        "workers": workers,
        "megabytes": round(lengths[args.megabytes], 2),
        "programs": {name: summary(found, lengths[args.megabytes]) for name, found in runs.items()},
        "ids": ids,
        "sizes": sizes,
        "fit": {key: line_fit([(one["megabytes"], one[key]) for one in sizes]) for key in ("seconds", "cpu_seconds")},
    }


def same_ids(result: dict[str, Any]) -> str:
    """The result of the comparison of ids, as a sentence."""
    found = result["ids"]["hugging_face"]
    fairseq = "equal fairseq's, byte for byte" if result["ids"]["fairseq"] else "DIFFER from fairseq's"
    if found["lines"] != found["their_lines"]:
        theirs = f"Hugging Face's output has {found['their_lines']:,} lines of {found['lines']:,}"
    else:
        theirs = f"{found['different']:,} of {found['lines']:,} lines have different ids in Hugging Face's output"
    return f"Our ids with GPT-2 BPE {fairseq}; {theirs}."


def comparison(result: dict[str, Any]) -> list[str]:
    """The comparison of the programs, as a Markdown table for docs/performance.md."""
    what = f"{result['megabytes']:.0f} MB of text to token ids on disk, {result['workers']} processes"
    rows = [[what, "seconds", "times faster than fairseq", "than Hugging Face", "peak memory"]]
    for name, row in result["programs"].items():
        ratios = [f"{ratio(result, slow, name):.1f}" if slow != name else "1" for slow in ("fairseq", "hugging_face")]
        rows.append([LABELS[name], f"{row['seconds']:.1f}", *ratios, f"{row['peak_bytes'] / 1e6:.0f} MB"])
    return [*markdown_table(rows, gap=""), "", f"({same_ids(result)} {basis(result)})"]


def basis(result: dict[str, Any]) -> str:
    """How the numbers were measured, as text."""
    rounds = len(result["programs"]["fairseq"]["rounds"])
    return (
        f"Times and ratios are medians over {rounds} rounds, with start-up; memory is that of all processes. "
        f"{said(result['provenance'])}"
    )


def table(result: dict[str, Any]) -> str:
    """The page in results/: the comparison, the times of each round, and ours by the size of the text."""
    count = len(result["programs"]["fairseq"]["rounds"])
    rounds = [["", *(str(number + 1) for number in range(count)), "CPU seconds"]]
    for name, row in result["programs"].items():
        rounds.append([LABELS[name], *(f"{one['seconds']:.1f}" for one in row["rounds"]), f"{row['cpu_seconds']:.1f}"])
    fits = ", ".join(
        f"{name} = {fit['start']:.2f} + {fit['slope']:.4f} per MB (R² = {fit['r_squared']:.4f})"
        for name, fit in (("seconds", result["fit"]["seconds"]), ("CPU seconds", result["fit"]["cpu_seconds"]))
    )
    sizes = [["MB", "seconds", "MB/s", "CPU seconds", "peak memory, MB"]]
    for row in result["sizes"]:
        sizes.append([f"{row['megabytes']:.1f}", f"{row['seconds']:.2f}", f"{row['mb_per_second']:.1f}"])
        sizes[-1] += [f"{row['cpu_seconds']:.2f}", f"{row['peak_bytes'] / 1e6:.0f}"]
    lines = [*comparison(result), "", "Seconds by round:", "", *markdown_table(rounds, gap=""), ""]
    lines += [f"Ours, GPT-2 BPE, by the size of the text: {fits}.", "", *markdown_table(sizes, left=(), gap="")]
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    """Run the program; returns the exit status."""
    program, words = "python -m benchmarks.binarizing", sys.argv[1:] if argv is None else argv
    data = real_data()
    parser = argparse.ArgumentParser(program, description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--text", type=Path, help="UTF-8 text (default: books and Wikipedia in LINFORMER_DATA)")
    parser.add_argument("--bpe", type=Path, help="folder of encoder.json, vocab.bpe, dict.txt (LINFORMER_DATA/bpe)")
    parser.add_argument("--megabytes", type=float, default=20, help="MB for the comparison (%(default)s)")
    parser.add_argument("--sizes", type=float, nargs="+", default=[10, 40, 160], help="MB, for ours (%(default)s)")
    parser.add_argument("--workers", type=count, default=2, help="processes (%(default)s)")
    parser.add_argument("--rounds", type=count, default=5, help="each runs all programs (%(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "data_prep", help="folder for the results")
    args = parser.parse_args(words)
    args.data = data
    args.text = args.text and args.text.resolve()  # the commands run from the repository's root
    args.bpe = args.bpe.resolve() if args.bpe else data / "bpe" if data else None
    if args.bpe is None or not (args.text or data):
        parser.error("set LINFORMER_DATA to the folder of real data, or give --text and --bpe")
    if not all(map(importlib.util.find_spec, RIVALS)):
        parser.error("tokenizers and datasets are needed: pip install -c constraints.txt -e '.[bench,data]'")
    if len(set(args.sizes)) < 2:
        parser.error("--sizes: expected at least two sizes, through which a line is fitted")
    made = provenance(" ".join([program, *words]), (*PACKAGES, *RIVALS))
    with tempfile.TemporaryDirectory(prefix="data_prep_benchmark_") as work:
        result = {**measure(args, Path(work)), "provenance": made}
    write_file(args.out / "binarize.json", json.dumps(result, indent=1) + "\n")  # programs in the order of the table
    write_file(args.out / "binarize.md", table(result))
    print(table(result), end="")
    if not result["ids"]["fairseq"] or ratio(result, "fairseq", "gpt2_bpe") < WANTED:
        print(f"error: expected identical ids, and ours at least {WANTED:g} times faster", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

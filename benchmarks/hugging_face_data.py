"""Convert a text to token ids with Hugging Face's libraries, set up as in their documentation.

    python benchmarks/hugging_face_data.py --bpe DIR --out DIR --workers N TEXT

`tokenizers` runs GPT-2's byte-level BPE (without offsets, its fastest mode); `datasets` reads the lines, maps them in
batches and writes Arrow files with ``save_to_disk``. Token ids are those of fairseq, which costs no time per token, and
each line ends with ``</s>``. Nothing of this project is imported.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from datasets import load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
END, FIRST = 2, 4
"""fairseq's special symbols, the id of </s>, and that of the first line of dict.txt."""


def load_tokenizer(bpe: Path) -> Tokenizer:
    """GPT-2's BPE from encoder.json and vocab.bpe, with the ids that dict.txt gives them in fairseq."""
    symbols = [line.rpartition(" ")[0] for line in (bpe / "dict.txt").read_text(encoding="utf-8").splitlines()]
    ids = {symbol: FIRST + number for number, symbol in enumerate(symbols)}
    encoder = json.loads((bpe / "encoder.json").read_text(encoding="utf-8"))
    vocabulary = {token: ids[str(number)] for token, number in encoder.items()}
    vocabulary |= {symbol: number for number, symbol in enumerate(SPECIAL)}
    lines = (bpe / "vocab.bpe").read_text(encoding="utf-8").splitlines()
    merges = [(left, right) for left, right in (line.split(" ") for line in lines if not line.startswith("#version"))]
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", END)])
    return tokenizer


def prepare(text: Path, bpe: Path, out: Path, workers: int) -> None:
    """Write a data set with a column ``input_ids`` to ``out``; the cache of `datasets` is ``out``.cache."""
    tokenizer = load_tokenizer(bpe)

    def encode(batch: dict[str, list[str]]) -> dict[str, Any]:
        return {"input_ids": [encoding.ids for encoding in tokenizer.encode_batch_fast(batch["text"])]}

    lines = load_dataset("text", data_files=str(text), split="train", cache_dir=f"{out}.cache")
    lines.map(encode, batched=True, num_proc=workers, remove_columns=["text"]).save_to_disk(out)


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="UTF-8, one paragraph per line")
    parser.add_argument("--bpe", type=Path, required=True, help="folder of encoder.json, vocab.bpe and dict.txt")
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--workers", type=int, default=2, help="processes (%(default)s)")
    args = parser.parse_args()
    prepare(args.text, args.bpe, args.out, args.workers)


if __name__ == "__main__":
    main()

"""A task that was prepared from tables, as users prepare theirs."""

from __future__ import annotations

from pathlib import Path

from data_prep import prepare_task
from tests.data_prep.small_tokenizers import lines


def qqp(folder: Path, tokenizer: Path, *option: str) -> Path:
    """A prepared QQP of 20, 30 and 10 pairs of different lengths: ``task`` in ``folder``, beside its tables."""
    header, texts = "id\tqid1\tqid2\tquestion1\tquestion2", lines(60)
    tables = folder / "QQP"
    tables.mkdir(parents=True)
    for name, start, end in (("train", 0, 20), ("dev", 20, 50), ("test", 50, 60)):
        rows = [f"{i + 7}\t1\t2\t{texts[i]}\t{texts[-i]}" for i in range(start, end)]
        if name == "test":
            (tables / "test.tsv").write_text(
                "id\tquestion1\tquestion2\n" + "".join(f"{i + 7}\t{texts[i]}\t{texts[-i]}\n" for i in range(start, end))
            )
        else:
            labels = [f"\t{int(i % 3 == 0)}\n" for i in range(start, end)]
            body = "".join(row + label for row, label in zip(rows, labels, strict=True))
            (tables / f"{name}.tsv").write_text(f"{header}\tis_duplicate\n{body}")
    out = folder / "task"
    prepare_task.main(["qqp", "--from", str(folder), "--tokenizer", str(tokenizer), "--out", str(out), *option])
    return out

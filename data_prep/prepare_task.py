"""Turn SST-2, QNLI, QQP, IMDB or labelled text of one's own into the folder that fairseq-train reads.

    linformer data task sst2 --from GLUE --tokenizer DIR --out TASK

--from is, for sst2, qnli and qqp, GLUE's folder or zip of the task (SST-2, SST-2.zip) or the folder around it;
for imdb, aclImdb or its tar of any compression; `hub` for the Hugging Face hub; for tsv, train.tsv and one more
file a split, each line (of at most 16 MiB) a label without blanks, one tab and a text.

TASK gets input0/, input1/ (pairs), label/ (dict.txt in the order of the model's outputs), ids/ (each example's
number, for GLUE's submission file), the tokenizer, manifest.json, and rejected.tsv where rows are no examples.
The splits are train, valid (GLUE's dev; IMDB's test, as it has no dev set) and test (GLUE's, without labels).
It appears when all of it is there; a run that was stopped is simply run again. What an earlier run for the same task
wrote to TASK is replaced.

Then: fairseq-train TASK --task sentence_prediction --num-classes N --init-token 0 --separator-token 2 ...
"""

import argparse
from pathlib import Path

from data_prep.support.program import program_parser, run_program
from data_prep.tasks.cutting import CUTS
from data_prep.tasks.definitions import TASKS
from data_prep.tasks.examples import Limit
from data_prep.tasks.prepare import open_source, prepare
from data_prep.tasks.report import summary


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The program's options."""
    result = program_parser(prog, "data_prep.prepare_task", __doc__)
    result.add_argument("task", choices=TASKS, help="which task")
    result.add_argument("--from", dest="source", nargs="+", required=True, metavar="PATH", help="files, or: hub")
    result.add_argument("--tokenizer", type=Path, required=True, metavar="DIR", help="folder of the tokenizer")
    result.add_argument("--out", type=Path, required=True, metavar="TASK", help="folder to write")
    result.add_argument(
        "--max-positions",
        type=int,
        metavar="N",
        help="cut examples that take more positions, <s> and separators included; of a pair the longer text first "
        "(default: nothing is cut)",
    )
    result.add_argument(
        "--cut",
        choices=CUTS,
        default="head",
        help="what stays of a text that is cut: its head, its tail, or a quarter and three quarters of the room "
        "(default: %(default)s)",
    )
    result.add_argument("--strict", action="store_true", help="rows that are no examples are an error")
    result.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="what to do with bytes that are not UTF-8: stop, or put U+FFFD (default: %(default)s)",
    )
    return result


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """The program; ``prog`` is what its help calls it."""
    args = parser(prog).parse_args(argv)
    task = TASKS[args.task]
    limit = Limit(args.max_positions, args.cut)
    source = open_source(task, [Path(path) for path in args.source], args.errors)
    options = {"max_positions": args.max_positions, "cut": args.cut, "errors": args.errors}
    manifest, examples = prepare(task, source, args.tokenizer, args.out, limit, args.strict, options)
    for line in summary(manifest, examples, limit):
        print(line)
    print(f"{args.out}: {len(source.labels)} classes ({', '.join(source.labels)})")


if __name__ == "__main__":
    run_program(main)

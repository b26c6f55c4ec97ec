"""Convert SST-2, QNLI, QQP, IMDB or your own labelled text to a data folder for sentence_prediction.

    linformer data task sst2 --from GLUE --tokenizer DIR --out TASK

--from is
    for sst2, qnli and qqp: GLUE's folder or zip file of the task (SST-2, SST-2.zip), or the folder that contains it;
    for imdb: the folder aclImdb, or its tar file, compressed or not;
    for all of these: `hub`, to download the task from the Hugging Face hub;
    for tsv: train.tsv and a file for each other split; each line (of at most 16 MiB) is a label without spaces, a tab
    and a text.

The output is input0/, input1/ (for pairs), label/ (dict.txt in the order of the model's outputs), ids/ (the number of
each example, for GLUE's submission file), soft_labels/ (with --soft-labels), the tokenizer, manifest.json, and
rejected.tsv if there are invalid rows. The splits are train, valid (GLUE's development set; IMDB's test set, because it
has no development set) and test (GLUE's, without labels). An earlier output for the same task is replaced. If the
program was stopped, run it again.

To train:

    fairseq-train TASK --task sentence_prediction --num-classes N --init-token 0 --separator-token 2 ...
"""

import argparse
from pathlib import Path

from data_prep.support.program import add_errors, program_parser, run_program
from data_prep.tasks.definitions import TASKS
from data_prep.tasks.examples import Limit
from data_prep.tasks.prepare import open_source, prepare
from data_prep.tasks.report import summary
from data_prep.tokenizers import tokenizer_folder
from linformer_fairseq.files.cuts import CUTS
from linformer_fairseq.files.errors import UserError


def parser(prog: str | None = None) -> argparse.ArgumentParser:
    """The program's options."""
    result = program_parser(prog, "data_prep.prepare_task", __doc__)
    result.add_argument("task", choices=TASKS, help="name of the task")
    result.add_argument(
        "--from", dest="source", nargs="+", required=True, metavar="PATH", help="files, or `hub`; see above"
    )
    result.add_argument(
        "--tokenizer",
        type=tokenizer_folder,
        required=True,
        metavar="DIR",
        help="folder of the tokenizer, or the name of a model of the package (./NAME is a folder)",
    )
    result.add_argument("--out", type=Path, required=True, metavar="TASK", help="output folder")
    result.add_argument(
        "--max-positions",
        type=int,
        metavar="N",
        help="truncate or divide examples to N tokens, including <s> and separators; of a pair, the longer text first "
        "(default: no truncation)",
    )
    result.add_argument(
        "--cut",
        choices=CUTS,
        help="with --max-positions: which part of a longer text to keep: the beginning, the end, or both (a quarter of "
        "the tokens from the beginning, three quarters from the end); or divide it into windows, each of which is an "
        f"example with the text's label (default: {CUTS[0]})",
    )
    result.add_argument(
        "--soft-labels",
        type=Path,
        metavar="FILE",
        help="a teacher's probabilities of the classes of train, to be learned beside the labels "
        "(criterion._name=soft_sentence_prediction): a table with the column id and one for each class, as `linformer "
        "evaluate --split train --scores --out FILE` writes it",
    )
    result.add_argument("--strict", action="store_true", help="stop with an error if there are invalid rows")
    add_errors(result)
    return result


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """Run the program; ``prog`` is its name in the help text."""
    args = parser(prog).parse_args(argv)
    task = TASKS[args.task]
    if args.cut is not None and args.max_positions is None:
        raise UserError(f"--cut {args.cut}: cuts nothing without --max-positions; give the number of tokens to keep")
    limit = Limit(args.max_positions, args.cut or CUTS[0])
    source = open_source(task, args.source, args.errors)
    soft = args.soft_labels and str(args.soft_labels)
    options = {"max_positions": args.max_positions, "cut": limit.how, "soft_labels": soft, "errors": args.errors}
    manifest, examples = prepare(task, source, args.tokenizer, args.out, limit, args.strict, options, args.soft_labels)
    for line in summary(manifest, examples, limit):
        print(line)
    print(f"{args.out}: {len(source.labels)} classes ({', '.join(source.labels)})")


if __name__ == "__main__":
    run_program(main)

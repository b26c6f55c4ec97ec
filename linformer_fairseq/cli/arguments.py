"""The options of each `linformer` command; the docstring of each function is the command's description.

This module imports neither torch nor fairseq, so that `--help` is fast.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import PROGRAMS
from linformer_fairseq.prediction.options import BATCH_TOKENS, FORMATS, LONG, POOLINGS

ROWS = Path("results/runs.jsonl")
"""Default file of result rows."""
STDIN = Path("-")
"""The input of a prediction if none is named."""
_ANALYSED = (
    "a Linformer, fairseq's RoBERTa (checkpoint, or folder with one), a folder of Hugging Face's RoBERTa or BERT, or a "
    "model that comes with the package"
)


def analyse(parser: argparse.ArgumentParser) -> None:
    """Compute why k can be small, and when it cannot: the rank of attention, and the paper's theorems in numbers.

    `linformer analyse spectrum` is Figure 1 of the paper: singular values of the attention matrix P of every layer and
    head, with controls. `linformer analyse theory` computes what Theorems 1 and 2 are about. `linformer analyse
    attention` shows P and E for a text. `linformer analyse limits` measures how well tokens are predicted by the length
    of the input and by the position of the text in it, `linformer analyse insertion` how a finetuned model's classes
    depend on tokens in front of the text. They write JSON, PNG and SVG to a folder; to go on with a stopped run, repeat
    its command.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    values = actions.add_parser(
        "spectrum",
        help="singular values of P for every layer and head (Figure 1)",
        description="Average the normalized cumulative singular values of P (of a Linformer: of P-bar) over blocks of "
        "text, for every layer and head, beside controls: the model before training, softmax of random logits of the "
        "same size, and uniform P. Print how many singular values make up 90, 95 and 99 % of their sum, also as a "
        "projected_dim for training. Texts are joined and cut into full blocks; some are chosen at random.",
    )
    values.add_argument("checkpoint", metavar="CHECKPOINT", help=_ANALYSED)
    values.add_argument(
        "input", type=Path, metavar="FILE", help="text: lines, .tsv, .jsonl, .parquet, or a folder of documents"
    )
    values.add_argument(
        "--sentences", type=int, default=1000, metavar="N", help="blocks (default: %(default)s; the paper: 10000)"
    )
    values.add_argument("--length", type=int, metavar="T", help="tokens of a block (default: the model's n)")
    values.add_argument(
        "--index",
        type=int,
        metavar="I",
        help="which singular value the heat map is for (default: a quarter of them, as the paper's 128 of 512)",
    )
    values.add_argument("--batch", type=int, default=8, metavar="B", help="blocks at a time (default: %(default)s)")
    theorems = actions.add_parser(
        "theory",
        help="errors of Theorems 1 and 2 over k and n, beside the bounds",
        description="Compute the relative errors that the paper's Theorems 1 and 2 are about, over n and k, for inputs "
        "that are drawn and for those of a model's layers; check three steps of the proofs; compare with mean pooling, "
        "Performer and Nystrom attention at equal cost.",
    )
    theorems.add_argument("--checkpoint", metavar="CHECKPOINT", help=f"inputs of its layers, too: {_ANALYSED}")
    theorems.add_argument("--text", type=Path, metavar="FILE", help="text for the model, as for `spectrum`")
    theorems.add_argument(
        "--lengths", type=int, nargs="+", default=[64, 128, 256, 512], metavar="N", help="n (default: %(default)s)"
    )
    theorems.add_argument(
        "--projected-dims",
        type=int,
        nargs="+",
        metavar="K",
        help="k; only those below an n are used with it (default: 8, 16, ... 256, those below the largest n)",
    )
    theorems.add_argument(
        "--samples",
        type=int,
        default=16,
        metavar="N",
        help="inputs, or blocks of text; least squares are fitted to half of them (default: %(default)s)",
    )
    maps = actions.add_parser(
        "attention",
        help="P and E for a text, as figures and as a page to click",
        description="Compute P (of a Linformer: P-bar and E) of every layer and head for one text, of up to n tokens. "
        "Write them as JSON, as figures, and as one HTML file that needs no network: layer, head and token are chosen "
        "by a click.",
    )
    maps.add_argument("checkpoint", metavar="CHECKPOINT", help=_ANALYSED)
    maps.add_argument("--text", required=True, help="the text itself; line breaks in it become spaces")
    bounds = actions.add_parser(
        "limits",
        help="masked tokens predicted by the length of the input, and by the position of the text in it",
        description="Predict masked tokens (15 %) of blocks of n tokens as they are and cut into pieces of T tokens; "
        "and of their first part behind s tokens of another block. Print accuracy, perplexity, and how much the "
        "features of the text change.",
    )
    bounds.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a Linformer, fairseq's RoBERTa (checkpoint, or folder with one), or a model that comes with the package",
    )
    bounds.add_argument(
        "input", type=Path, metavar="FILE", help="text: lines, .tsv, .jsonl, .parquet, or a folder of documents"
    )
    bounds.add_argument(
        "--sentences", type=int, default=200, metavar="N", help="blocks of n tokens (default: %(default)s)"
    )
    bounds.add_argument("--lengths", type=int, nargs="+", metavar="T", help="tokens (default: 16, 32, ... and n)")
    bounds.add_argument(
        "--shifts", type=int, nargs="+", metavar="S", help="tokens in front; up to n / 2 (default: 1, 2, 4, ...)"
    )
    bounds.add_argument("--batch", type=int, default=8, metavar="B", help="blocks at a time (default: %(default)s)")
    shifted = actions.add_parser(
        "insertion",
        help="classes of a finetuned model when tokens of other examples are inserted in front of a text",
        description="Classify examples of a task as they are, and with s tokens of other examples in front of the "
        "text, or behind it. Print the accuracy, and the share of examples whose class changes. Only examples that fit "
        "into n with the largest s are used.",
    )
    shifted.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a finetuned checkpoint, its run folder, or a folder made by `linformer checkpoint release`",
    )
    shifted.add_argument("task", type=Path, metavar="TASK", help="a folder made by `linformer data task`")
    shifted.add_argument("--split", default="valid", metavar="NAME", help="with labels (default: %(default)s)")
    shifted.add_argument(
        "--shifts", type=int, nargs="+", metavar="S", help="inserted tokens (default: 1, 2, 4, ... up to n / 8)"
    )
    shifted.add_argument(
        "--examples", type=int, default=1000, metavar="N", help="at most; chosen at random (default: %(default)s)"
    )
    shifted.add_argument("--batch", type=int, default=32, metavar="B", help="examples at a time (default: %(default)s)")
    for one in (values, theorems, maps, bounds):
        one.add_argument(
            "--data",
            type=Path,
            metavar="DIR",
            help="folder with the dictionary and the tokenizer of a fairseq checkpoint (default: the checkpoint's "
            "folder if it has them, otherwise the data folder of the training)",
        )
    for one in (values, theorems, maps, bounds, shifted):
        _device(one)
        one.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the results")
    for one in (values, theorems, bounds, shifted):
        one.add_argument(
            "--seed", type=int, default=1, help="of the choice of blocks or examples, and of what is drawn (default: 1)"
        )
    page = actions.add_parser(
        "report",
        help="a page on all results in a folder",
        description="Write README.md for the results in and below a folder.",
    )
    page.add_argument("folder", type=Path, metavar="DIR", help="folder with results of the other actions")


def benchmark(parser: argparse.ArgumentParser) -> None:
    """Measure speed and memory of inference (the paper's Table 3 and Figure 2, short inputs) and of training.

    `linformer benchmark PROGRAM --help` describes a program.
    """
    _programs(parser, PROGRAMS)


def card(parser: argparse.ArgumentParser) -> None:
    """Write a model card in the format of the Hugging Face hub: Markdown with metadata in front.

      linformer evaluate RUN work/sst2 --results sst2.json
      linformer card RUN --results sst2.json --license mit --language en --out README.md

    The card has the architecture, the data with their licences, the training, the scores with what measured them, and
    the limits. All of it comes from the checkpoint, run.json and logs in its folder, conversion.json, and the manifest
    of the data folder; what these do not say is "not recorded". `linformer export hf` writes a card into its folder.
    """
    parser.add_argument(
        "checkpoint",
        metavar="CHECKPOINT",
        help="a checkpoint, a run folder (its checkpoint_best.pt), a folder made by `linformer checkpoint release`, "
        "`convert` or `import`, or a model that comes with the package",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file (default: stdout)")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder of the data that it was trained on (default: the one that the checkpoint or the run names)",
    )
    parser.add_argument(
        "--results",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="scores to put into the card: a file of `linformer evaluate --results`; can be repeated",
    )
    parser.add_argument("--license", metavar="ID", help="of the model, as the hub calls it: mit, apache-2.0, ...")
    parser.add_argument("--language", metavar="CODE", help="of the model: en, de, ...")


def checkpoint(parser: argparse.ArgumentParser) -> None:
    """Verify checkpoints, and export models for sharing.

    `linformer checkpoint verify DIR` reads every checkpoint in a run folder, verifies its checksum, and prints from
    which one the run would resume. Files written by other programs have no checksum; for them the CRCs of the zip
    archive are verified.

    `linformer checkpoint release FILE --data DATA --out DIR` exports a model to a folder: the weights in half precision
    without the optimizer state, the dictionary and the tokenizer. The folder can be passed to `from_pretrained`,
    `pretrained=` and `linformer evaluate`.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    verify = actions.add_parser(
        "verify",
        help="verify checksums, and print which checkpoint a run would resume from",
        description="Verify checkpoint files. The exit status is 1 if one is damaged or cannot be loaded.",
    )
    verify.add_argument("paths", type=Path, nargs="+", metavar="DIR_OR_FILE", help="a run folder, or a checkpoint")
    verify.add_argument(
        "--set-aside",
        action="store_true",
        help="rename damaged files in DIR to NAME.damaged and copy the newest valid checkpoint to checkpoint_last.pt, "
        "as resuming the run does; the exit status is then 0 if there is a valid checkpoint",
    )
    release = actions.add_parser(
        "release",
        help="export a model for sharing: weights in half precision, dictionary and tokenizer",
        description="Export the model of a checkpoint to a folder: model.safetensors (weights in half precision, the "
        "options of the model, a checksum; no optimizer state, no pickle), the dictionary and the tokenizer.",
    )
    release.add_argument("checkpoint", type=Path, metavar="FILE", help="checkpoint of a pretraining or finetuning")
    release.add_argument("--data", type=Path, required=True, metavar="DIR", help="the data folder it was trained on")
    release.add_argument("--out", type=Path, required=True, metavar="DIR", help="new folder for the model")


def convert(parser: argparse.ArgumentParser) -> None:
    """Make a Linformer of a pretrained RoBERTa: all weights are kept, and projections E and F are added.

      linformer convert roberta.base work/converted --projected-dim 128 --text book.txt
      linformer convert FacebookAI/roberta-base work/converted --projected-dim 256 --max-positions 4096 --text book.txt

    With --text, prints how close the result is to the source before any training: the perplexity of masked tokens of
    both, and the relative error of the attention's output in each layer. The folder OUT can be passed to
    `from_pretrained`, and to `linformer pretrain` and `finetune` as pretrained=OUT. With k = n, the result computes
    the same as the source.
    """
    parser.add_argument(
        "source",
        metavar="SOURCE",
        help="checkpoint of fairseq's RoBERTa, a folder with one (model.pt), a folder of Hugging Face's RoBERTa "
        "(config.json, safetensors, tokenizer), or its name on the Hugging Face hub",
    )
    parser.add_argument("out", type=Path, metavar="OUT", help="new folder for the model")
    parser.add_argument(
        "--projected-dim", required=True, metavar="K", help="k, or a list with one per layer, as for training"
    )
    parser.add_argument(
        "--sharing",
        choices=("none", "headwise", "key_value", "layerwise"),
        default="layerwise",
        help="how heads and layers share E and F (default: %(default)s)",
    )
    parser.add_argument(
        "--projection",
        choices=("linear", "mean_pool", "convolution"),
        help="kind of the projection from n positions to k rows (default: convolution; with --start dct: linear)",
    )
    parser.add_argument(
        "--start",
        choices=("window_means", "random", "dct", "least_squares"),
        default="window_means",
        help="initial values of E and F (default: %(default)s); least_squares fits them to the text",
    )
    parser.add_argument(
        "--max-positions",
        type=int,
        metavar="N",
        help="n (default: the source's); a larger one repeats the position embeddings",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with the dictionary and the tokenizer of a fairseq checkpoint (default: the checkpoint's folder)",
    )
    parser.add_argument(
        "--text",
        type=Path,
        metavar="FILE",
        help="text on which source and result are compared, one paragraph per line; least_squares needs it, too",
    )
    parser.add_argument(
        "--text-tokens",
        type=int,
        default=32768,
        metavar="N",
        help="number of tokens to compare on; least_squares fits E and F to those after them (default: %(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of random E and F, and of the choice of masked tokens (default: 1)"
    )
    _device(parser)


def data(parser: argparse.ArgumentParser) -> None:
    """Prepare data for fairseq from text, and inspect it.

    `linformer data PROGRAM --help` describes a program. For pretraining, run `pretraining`, or its steps: corpus,
    vocabulary (or gpt2), binarize. For finetuning, run `task`. To resume a program that was stopped, repeat its
    command.
    """
    _programs(
        parser,
        {
            "pretraining": "corpus, vocabulary and binarize in one command",
            "corpus": "clean text, remove duplicates, split by document",
            "vocabulary": "train a sentencepiece model on a corpus",
            "gpt2": "get the files of RoBERTa's GPT-2 BPE",
            "binarize": "convert a corpus to fairseq's binary format, for masked_lm",
            "task": "prepare SST-2, QNLI, QQP, IMDB or labelled text for sentence_prediction",
            "inspect": "print counts, lengths and samples, and verify the files",
        },
    )


def demo(parser: argparse.ArgumentParser) -> None:
    """Try a model on a web page, in a browser on this machine.

      linformer demo linformer-small

    Prints the address of the page and serves it until Ctrl-C or SIGTERM. For a pretrained model, the page fills masks;
    for a classifier, it classifies a text, a pair of texts, or each line of a file. For both, it shows the attention
    of a text to the k projected rows, as a heat map for each layer and head.

    By default, only this machine can open the page; there is no password. A request may have up to 2 MiB of text.
    """
    _model(parser, "checkpoint of a pretraining, or of a finetuning with --task sentence_prediction")
    parser.set_defaults(compile_encoder=False)
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on; 0.0.0.0 lets other machines open the page (default: %(default)s)",
    )
    parser.add_argument(
        "--port", type=int, default=7860, metavar="N", help="0: any that is free (default: %(default)s)"
    )


def doctor(parser: argparse.ArgumentParser) -> None:
    """Print the versions of the packages that Linformer uses, and problems with them.

    The exit status is 1 if a required package is missing or does not work; warnings and missing optional packages do
    not count.
    """


def embed(parser: argparse.ArgumentParser) -> None:
    """Write vectors of texts: the output of a model's last layer, pooled for each text, or for each token.

      linformer embed linformer-small texts.txt --out vectors.npy

    Texts are read as by `linformer predict`. The .npy file has shape (texts, C); the vector of a text that could not be
    read is NaN. With --pooling tokens it has shape (tokens of all texts, C), and NAME.lengths.npy beside it has the
    number of tokens of each text. A parquet file has the columns id and vector, or id, tokens and vectors.

    Exit status: 0 all texts have vectors (also if there are no texts), 1 some could not be processed, or the command
    failed.
    """
    _model(parser, "checkpoint of a pretraining or finetuning")
    _texts(parser)
    _long(parser)
    parser.add_argument(
        "--pooling",
        choices=POOLINGS,
        default="mean",
        help="the vector of a text is the mean or maximum over all its tokens (special ones included), or that of the "
        "first token (<s>); tokens: a vector for each token (default: %(default)s)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="name that ends with .npy or .parquet")


def evaluate(parser: argparse.ArgumentParser) -> None:
    """Evaluate a finetuned checkpoint on a task prepared with `linformer data task`.

    Prints the accuracy, and F1 for QQP, as in fairseq's validation. With --out, writes the prediction for each example;
    with --submission, the file for GLUE's evaluation server.
    """
    parser.add_argument(
        "checkpoint",
        help="checkpoint of a finetuning with --task sentence_prediction, its run folder, or a folder made by "
        "`linformer checkpoint release`",
    )
    parser.add_argument("data", type=Path, metavar="TASK", help="a folder made by `linformer data task`")
    parser.add_argument("--split", help="train, valid or test (default: test with --submission, otherwise valid)")
    parser.add_argument(
        "--batch-size", type=int, default=32, metavar="N", help="examples per batch (default: %(default)s)"
    )
    _device(parser)
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 (default: float32)")
    parser.add_argument(
        "--compile-encoder", action="store_true", help="use torch.compile; pays off for many thousands of examples"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="write a table of id, prediction, label and probability"
    )
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="write the scores as JSON, with command, commit, machine and date, for `linformer card --results`",
    )
    parser.add_argument(
        "--submission",
        type=Path,
        metavar="FILE",
        help="write GLUE's submission file, by default for the test split; in an existing folder, under the name that "
        "GLUE expects",
    )


def experiments(parser: argparse.ArgumentParser) -> None:
    """List the experiments in configs/experiment: the runs of the paper.

    `linformer experiments list` composes each config and prints n, k, sharing, the number of parameters, sequences,
    tokens and operations per update, the total number of tokens, and where the run appears in the paper. `linformer
    pretrain experiment=NAME` starts one; with --dry-run it prints more details.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    action = actions.add_parser(
        "list",
        help="print a table of all experiments",
        description="Print a table of all experiments. Operations are those of matrix products, forward and backward; "
        "parameters are counted with RoBERTa's vocabulary.",
    )
    action.add_argument("--format", choices=("text", "markdown"), default="text", help="default: %(default)s")
    action.add_argument("--config-dir", type=Path, metavar="DIR", help="configs of your own in place of the project's")


def export(parser: argparse.ArgumentParser) -> None:
    """Convert a model to the format of another library.

    `linformer export hf MODEL OUT` writes a folder for Hugging Face's transformers: config.json, safetensors, a fast
    tokenizer, and the modelling code, which transformers runs with trust_remote_code=True. `linformer export onnx` and
    `linformer export torch` write the model as a graph, with the same tokenizer.
    """
    formats = parser.add_subparsers(title="formats", metavar="FORMAT", dest="format", required=True)
    hugging_face = formats.add_parser(
        "hf",
        help="a folder for AutoModel.from_pretrained(OUT, trust_remote_code=True)",
        description="Write a folder that transformers loads with trust_remote_code=True. The weights keep their "
        "precision; of several classification heads, the one that was trained is exported.",
    )
    onnx = formats.add_parser(
        "onnx",
        help="an ONNX model, for onnxruntime",
        description="Write an ONNX model that takes input_ids and attention_mask, int64 (B, T) padded on the right, "
        "with any B and 2 <= T <= n, and returns logits in fp32.",
    )
    onnx.add_argument(
        "--int8", action="store_true", help="write a second model with matrix products in int8 (dynamic quantization)"
    )
    program = formats.add_parser(
        "torch",
        help="a program of torch.export, for torch.export.load and AOTInductor",
        description="Write a program of torch.export that takes input_ids and attention_mask, int64 (B, T) padded on "
        "the right, with any B and 2 <= T <= n, and returns logits in fp32.",
    )
    for one in (hugging_face, onnx, program):
        one.add_argument(
            "model",
            metavar="MODEL",
            help="a checkpoint, its run folder, a folder made by `linformer checkpoint release`, `linformer convert` "
            "or `linformer import hf`, or a model that comes with the package (linformer-small)",
        )
        one.add_argument("out", type=Path, metavar="OUT", help="new folder for the model")
        one.add_argument(
            "--data",
            type=Path,
            metavar="DIR",
            help="folder with the dictionary, the tokenizer and the labels that the model was trained with (default: "
            "the checkpoint's folder)",
        )


def fill_mask(parser: argparse.ArgumentParser) -> None:
    """Print the most probable tokens for the <mask> in each text.

      echo "He opened the <mask> and walked into the room." | linformer fill-mask linformer-small

    Texts are read as by `linformer predict`. A text that has no <mask>, several, or more tokens than the model takes,
    is reported on stderr with its number, and the exit status is 1.
    """
    _model(parser, "checkpoint of a pretraining")
    _texts(parser)
    _lines_out(parser)
    parser.add_argument("--top", type=int, default=5, metavar="N", help="candidates per text (default: %(default)s)")


def finetune(parser: argparse.ArgumentParser) -> None:
    """Finetune a pretrained checkpoint on a task made by `linformer data task`.

      linformer finetune task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt run_config=gpu
      linformer finetune --multirun task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt

    The model (n, k, sharing, projection, size) is read from the checkpoint. --multirun runs the grid of the config:
    three learning rates with five seeds each. The run folder is runs/NAME/TASK_lrLR_sSEED; repeating the command
    resumes a stopped run.

    Exit status: 0 finished, 1 failed, 85 stopped by a signal after saving a checkpoint, 130 Ctrl-C, 128 + N ended by
    signal N before the first update.
    """
    _training(parser)


def import_(parser: argparse.ArgumentParser) -> None:
    """Convert a model from the format of another library to fairseq's.

    `linformer import hf FOLDER OUT` writes a checkpoint of fairseq, with its dictionary and tokenizer, for a folder
    that `linformer export hf` or save_pretrained wrote. None of the code in the folder is run.
    """
    formats = parser.add_subparsers(title="formats", metavar="FORMAT", dest="format", required=True)
    hugging_face = formats.add_parser(
        "hf",
        help="a folder of a Linformer in transformers",
        description="Write OUT/model.pt, a checkpoint of fairseq, and the dictionary and tokenizer. fairseq's models "
        "always have a head for masked tokens; if the folder has none, its weights are random.",
    )
    hugging_face.add_argument(
        "folder", type=Path, metavar="FOLDER", help="folder with config.json and model.safetensors"
    )
    hugging_face.add_argument("out", type=Path, metavar="OUT", help="new folder for the checkpoint")
    hugging_face.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with dict.txt and the tokenizer of the model (default: FOLDER)",
    )


def predict(parser: argparse.ArgumentParser) -> None:
    """Classify texts with a finetuned checkpoint.

      linformer predict RUN/checkpoint_best.pt reviews.txt --out classes.tsv
      zcat reviews.jsonl.gz | linformer predict my_model - --format jsonl --field body --jsonl

    The input is a file with a text on each line, TSV, JSON lines, parquet, a folder with a document in each file, or
    standard input. It is read as a stream: memory does not depend on its size. The output has a line for each text, in
    the order of the input: its id (number of the line or row, or name of the document), label and probability.

    A text that cannot be processed is reported on stderr with its number; its line in the output has no label.
    Exit status: 0 all texts have a class (also if there are no texts), 1 some could not be processed, or the command
    failed.
    """
    _model(parser, "checkpoint of a finetuning with --task sentence_prediction")
    _texts(parser)
    _long(parser)
    _lines_out(parser)
    parser.add_argument("--scores", action="store_true", help="also write the probability of every class")


def pretrain(parser: argparse.ArgumentParser) -> None:
    """Pretrain a masked language model on a folder made by `linformer data pretraining`.

      linformer pretrain experiment=linformer_base_n512_k128_layerwise task.data=work/bin run_config=gpu
      linformer pretrain --dry-run model=roberta_base task.tokens_per_sample=1024 task.data=work/bin

    `linformer experiments list` lists the experiments. run_config is cpu, gpu (one GPU), node (eight GPUs of this
    machine, with torchrun), srun (inside a SLURM job) or slurm (submits a SLURM job). Paths are relative to the current
    directory. The run folder is runs/NAME; repeating the command resumes a stopped run.

    Exit status: 0 finished, 1 failed, 85 stopped by a signal after saving a checkpoint, 130 Ctrl-C, 128 + N ended by
    signal N before the first update.
    """
    _training(parser)


def report(parser: argparse.ArgumentParser) -> None:
    """Write one HTML page on all results: the paper's tables and figures beside ours.

      linformer report --out report.html

    The page has Tables 1 to 3, Figures 1 to 3, the theorems in numbers, what small models learn, and limits. The
    command, commit, date and hardware are below each measurement. What is missing is named, with the command that makes
    it. Figures are part of the page, which needs no network.
    """
    parser.add_argument(
        "--results",
        type=Path,
        metavar="DIR",
        help="folder with the layout of this project's results/ (default: results/ of the clone)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page (default: %(default)s)"
    )


def results(parser: argparse.ArgumentParser) -> None:
    """Collect the results of runs, and make tables and figures from them.

    `linformer results collect runs` writes one row per run to a file that can be committed. `linformer results table2`
    and `linformer results figure3` show the rows in the form of the paper's Table 2 and Figure 3, and label runs that
    are not of the paper's size. `linformer results perplexity` and `linformer results accuracy` summarize all
    pretrainings and finetunings.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    gather = actions.add_parser(
        "collect",
        help="write one row per run folder below DIR",
        description="Read the run folders in and below DIR and write a row for each to a file of JSON lines, replacing "
        "earlier rows of the same runs. Damaged folders are reported and skipped. results/README.md describes the "
        "fields.",
    )
    gather.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="a run folder, or a folder that contains some"
    )
    gather.add_argument(
        "--out", type=Path, default=ROWS, metavar="FILE", help="file of the rows (default: %(default)s)"
    )
    table = actions.add_parser(
        "table2",
        help="the paper's Table 2 and ours",
        description="Print accuracy on SST-2, IMDB, QNLI and QQP: the paper's Table 2, and ours as medians over seeds.",
    )
    table.add_argument("--format", choices=("markdown", "latex"), default="markdown", help="default: %(default)s")
    table.add_argument("--out", type=Path, metavar="FILE", help="write to a file instead of printing")
    figure = actions.add_parser(
        "figure3",
        help="the paper's Figure 3 from our runs",
        description="Draw validation perplexity against updates in the four panels of the paper's Figure 3, as PNG "
        "and SVG; one figure for each size of runs.",
    )
    figure.add_argument("--out", type=Path, metavar="DIR", help="folder for the files (default: that of the rows)")
    perplexity = actions.add_parser(
        "perplexity",
        help="perplexity of all pretrainings, and their curves",
        description="Print the perplexity of all pretrainings, summarized over seeds, with their speed and the "
        "perplexity of a RoBERTa after the same time; with --figure, draw the curves over tokens and over hours as PNG "
        "and SVG.",
    )
    perplexity.add_argument("--out", type=Path, metavar="FILE", help="write the table to a file instead of printing")
    perplexity.add_argument("--figure", type=Path, metavar="DIR", help="draw the figure, into this folder")
    accuracy = actions.add_parser(
        "accuracy",
        help="accuracy of all finetunings",
        description="Print the accuracy of all finetunings by model and task, summarized over seeds, with their time.",
    )
    accuracy.add_argument("--out", type=Path, metavar="FILE", help="write the table to a file instead of printing")
    accuracy.add_argument(
        "--controls",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="accuracy of bag-of-words classifiers: JSON files written by scripts.reproduce_tools.bag_of_words",
    )
    for reader in (table, figure, perplexity, accuracy):
        reader.add_argument(
            "--runs", type=Path, default=ROWS, metavar="FILE", help="file of the rows (default: %(default)s)"
        )


def _model(parser: argparse.ArgumentParser, kind: str) -> None:
    """The model of `predict`, `embed`, `fill-mask` and `demo`, and its precision."""
    parser.add_argument(
        "checkpoint",
        help=f"{kind}, its run folder, a folder made by `linformer checkpoint release` or `linformer import hf`, or a "
        "model that comes with the package",
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="folder with the model's dictionary, tokenizer and labels (default: the checkpoint's folder if it has "
        "them, otherwise the data folder of the training)",
    )
    _device(parser)
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16 (default: float32)")
    parser.add_argument("--int8", action="store_true", help="compute linear layers in 8-bit integers (CPU only)")


def _device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", help="cpu, cuda or cuda:N (default: a GPU if there is one, otherwise the CPU)")


def _texts(parser: argparse.ArgumentParser) -> None:
    """The input of `predict`, `embed` and `fill-mask`, and how many texts are computed at a time."""
    parser.add_argument(
        "--compile-encoder", action="store_true", help="use torch.compile; pays off for many thousands of texts"
    )
    parser.add_argument(
        "--batch-tokens",
        type=int,
        default=BATCH_TOKENS,
        metavar="N",
        help="tokens per batch, with padding (default: %(default)s)",
    )
    parser.add_argument(
        "input", type=Path, nargs="?", default=STDIN, metavar="FILE", help="file, folder, or - (stdin; default)"
    )
    parser.set_defaults(takes_more="input")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="format of FILE (default: by its extension: .tsv, .jsonl, .parquet, otherwise lines)",
    )
    parser.add_argument(
        "--field",
        action="append",
        default=[],
        metavar="NAME",
        help="column or key of the text; give it twice for pairs (default for JSON lines and parquet: text; a TSV file "
        "has no header then, and each line is a text, or two with a tab between them)",
    )


def _long(parser: argparse.ArgumentParser) -> None:
    """What is done with long texts."""
    parser.add_argument(
        "--long",
        choices=LONG,
        default=LONG[0],
        help="texts with more tokens than the model takes: truncate them, keeping the beginning, the end or both, or "
        "divide them into windows and average the results (default: %(default)s)",
    )


def _lines_out(parser: argparse.ArgumentParser) -> None:
    """The output of `predict` and `fill-mask`."""
    parser.add_argument("--out", type=Path, metavar="FILE", help="write to a file (default: stdout)")
    parser.add_argument("--jsonl", action="store_true", help="write JSON lines (default: TSV with a header)")


def _training(parser: argparse.ArgumentParser) -> None:
    """The options of `pretrain` and `finetune`."""
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="overrides of the config, in Hydra's syntax")
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="check config and data, print estimates of time and memory; start nothing",
    )
    parser.add_argument(
        "-m", "--multirun", action="store_true", help="run every combination of comma-separated values (lr=1e-5,2e-5)"
    )
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="configs of your own in place of the project's")
    parser.set_defaults(takes_more="overrides")


def user_dir(parser: argparse.ArgumentParser) -> None:
    """Print the folder for --user-dir: `fairseq-train DATA --user-dir "$(linformer user-dir)" ...`."""


def _programs(parser: argparse.ArgumentParser, programs: dict[str, str]) -> None:
    """Declare a program name and its options, which the program's own parser reads."""
    lines = [f"  {name:<12}{text}" for name, text in programs.items()]
    parser.description = "\n".join([parser.description or "", "", "programs:", *lines])
    parser.add_argument("program", choices=programs, metavar="PROGRAM", help="one of the programs above")
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="options of the program")

"""Write the dense RoBERTa that linformer-small is for inputs of up to 64 tokens, its smallest k, as a checkpoint of
fairseq.

    python -m scripts.reproduce_tools.dense_small OUT

For such inputs linformer-small projects nothing, so its weights, without E, are those of a pretrained RoBERTa with
n = 64. docs/conversion.md measures `linformer convert` on it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf

from data_prep.support.program import program_parser, run_program
from linformer_fairseq.checkpoints.reading import read_checkpoint
from linformer_fairseq.checkpoints.released_folder import CHECKPOINT
from linformer_fairseq.checkpoints.writing import write_checkpoint
from linformer_fairseq.files.atomic import new_folder
from linformer_fairseq.files.dictionary import NAME
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.shipped import WEIGHTS, shipped_folder
from linformer_fairseq.files.tokenizers import SENTENCEPIECE
from linformer_fairseq.files.weight_names import POSITIONS, UNUSED_POSITIONS


def write_dense(out: Path) -> None:
    """Make the folder: model.pt, dict.txt and the tokenizer.

    Raises:
        ValueError: ``out`` exists.
    """
    source = shipped_folder("linformer-small")
    state = read_checkpoint(source / WEIGHTS)
    model = state["cfg"]["model"]
    n = min(model["projected_dim"])
    sizes = ("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads")
    words = [str(source), "--task", "masked_lm", "--criterion", "masked_lm", "--arch", "roberta_prenorm"]
    words += ["--max-positions", str(n), "--tokens-per-sample", str(n)]
    for name in sizes:
        words += [f"--{name.replace('_', '-')}", str(model[name])]
    args = options.parse_args_and_arch(options.get_training_parser(), input_args=words)
    weights = {name: tensor for name, tensor in state["model"].items() if ".proj_k." not in name}
    weights = {name: tensor.float() for name, tensor in weights.items() if not name.endswith("signature")}
    weights[POSITIONS] = weights[POSITIONS][: n + UNUSED_POSITIONS]
    cfg = OmegaConf.to_container(convert_namespace_to_omegaconf(args), resolve=True, enum_to_str=True)
    with new_folder(out) as folder:
        for name in (NAME, SENTENCEPIECE):
            shutil.copyfile(source / name, folder / name)
        write_checkpoint({**state, "cfg": cfg, "model": weights}, folder / CHECKPOINT)


def main(argv: list[str] | None = None) -> None:
    """Run the program."""
    parser = program_parser(None, "scripts.reproduce_tools.dense_small", __doc__)
    parser.add_argument("out", type=Path, metavar="OUT", help="new folder for the model")
    out = parser.parse_args(argv).out
    try:
        write_dense(out)
    except ValueError as error:
        raise UserError(str(error)) from None
    print(out)


if __name__ == "__main__":
    run_program(main)

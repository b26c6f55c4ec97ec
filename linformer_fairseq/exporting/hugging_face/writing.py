"""Writes a trained model as a folder that transformers loads."""

from __future__ import annotations

import inspect
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from linformer_fairseq import core
from linformer_fairseq.checkpoints.released_folder import TRANSFORMERS_CONFIG
from linformer_fairseq.exporting.model_card import model_card
from linformer_fairseq.exporting.trained import TrainedModel, read_trained
from linformer_fairseq.files.atomic import new_folder
from linformer_fairseq.files.dictionary import BOS, EOS
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.shipped import WEIGHTS
from linformer_fairseq.files.tokenizers import files_of

from . import configuration_linformer, modeling_linformer, names, options
from .configuration_linformer import LinformerConfig
from .modeling_linformer import LinformerForMaskedLM, LinformerForSequenceClassification
from .tokenizer import fast_tokenizer, tokenizer_config

CARD = "README.md"
_TEMPLATES = (configuration_linformer, modeling_linformer)
# What the templates import from core, in their own words, and what the same files are called in the folder.
_PACKAGE, _FOLDER = "from linformer_fairseq.core.", "from ."
_CORE = (
    "attention",
    "convolution",
    "dot_product",
    "flops",
    "layer",
    "padding",
    "projection",
    "row_weights",
    "settings",
    "sharing",
    "signature",
    "windows",
)


@dataclass(frozen=True)
class Converted:
    """A trained model in transformers' terms."""

    trained: TrainedModel
    config: dict[str, Any]
    """The content of config.json."""
    weights: dict[str, Tensor]
    """By transformers' names."""

    def model(self) -> LinformerForMaskedLM | LinformerForSequenceClassification:
        """The model with its head, in fp32 and in evaluation mode."""
        kind = LinformerForMaskedLM if self.trained.head is None else LinformerForSequenceClassification
        model = kind(LinformerConfig(**self.config))
        model.load_state_dict(self.weights, strict=False)  # `convert` has compared the names
        model.tie_weights()
        return model.float().eval()

    def write_tokenizer(self, folder: Path, with_code: bool = False) -> None:
        """Write config.json and the files of the tokenizer; config.json names the code if it is in the folder."""
        config = dict(self.config)
        if with_code:
            config["auto_map"] = options.AUTO_MAP
        else:
            del config["model_type"]  # transformers warns of a type that it has no class for
        _write_json(folder / TRANSFORMERS_CONFIG, config)
        # Not its `save`, whose error on a full disk is no OSError.
        tokenizer = fast_tokenizer(self.trained.tokenizer, self.trained.dict_txt)
        (folder / "tokenizer.json").write_text(tokenizer.to_str(pretty=True), encoding="utf-8")
        inputs = self.trained.inputs
        limit = inputs.limit(self.trained.options.max_positions)
        _write_json(folder / "tokenizer_config.json", tokenizer_config(limit, inputs.cut))


def convert(model: str, data: Path | None) -> Converted:
    """Read a model of this project; see `export_folder`.

    Raises:
        UserError: the model cannot be exported; the message says why.
        ValueError: the checkpoint is damaged, or is none.
    """
    trained = read_trained(model, data)
    if noise := trained.options.quant_noise_pq:
        raise UserError(
            f"{model}: was trained with quant_noise_pq={noise}, which adds a linear layer after the embeddings "
            "that transformers' model does not have; train it with quant_noise_pq=0 to export it"
        )
    classifies = trained.head is not None
    if classifies:
        _check_task(model, trained)
    config = options.to_transformers(trained.options, trained.vocabulary, trained.labels if classifies else None)
    if classifies:
        config["problem_type"] = "regression" if trained.regression else "single_label_classification"
    weights = names.to_transformers(trained.weights, trained.head or "", config["tie_word_embeddings"])
    _check(model, weights, LinformerConfig(**config), classifies)
    return Converted(trained, config, weights)


def export_folder(model: str, out: Path, data: Path | None = None) -> list[Path]:
    """Write a folder for ``from_pretrained(out, trust_remote_code=True)``, whole or not at all.

    Args:
        model: name of a model that comes with the package, a folder as `linformer checkpoint release` makes it, or a
            checkpoint file.
        out: the folder, which must not exist.
        data: folder with the dictionaries and the tokenizer of the model; by default that of the weights.

    Returns:
        the files in it.

    Raises:
        UserError: the model cannot be exported; the message says why.
        ValueError: ``out`` exists, or the checkpoint is damaged, or is none.
        OSError: a file cannot be read or written.
    """
    with new_folder(out) as folder:
        converted = convert(model, data)
        converted.write_tokenizer(folder, with_code=True)
        # Copies: safetensors refuses tensors that share memory, as equal ones of a released model do.
        weights = {
            name: tensor.clone(memory_format=torch.contiguous_format) for name, tensor in converted.weights.items()
        }
        # Not save_file, whose file only its owner can read, and whose error on a full disk is no OSError.
        (folder / WEIGHTS).write_bytes(save(weights, {"format": "pt"}))
        trained = converted.trained
        for path in (trained.dict_txt, *files_of(trained.tokenizer)):  # for `import_folder`
            shutil.copyfile(path, folder / path.name)
        trained.inputs.write(folder)
        _write_code(folder)
        (folder / CARD).write_text(model_card(trained, data, exported=out), encoding="utf-8")
    return sorted(out.iterdir())


def _check_task(model: str, trained: TrainedModel) -> None:
    """Raise unless the tokenizer frames texts as the classifier's task did."""
    task = trained.state["cfg"].task
    for option, expected in (("init_token", BOS), ("separator_token", EOS)):
        if (given := getattr(task, option, None)) != expected:
            raise UserError(
                f"{model}: was finetuned with task.{option}={given}, but transformers' tokenizer makes <s> a </s>, and "
                f"<s> a </s></s> b </s>, of texts; finetune it with task.{option}={expected} to export it"
            )


def _check(model: str, tensors: dict[str, Tensor], config: LinformerConfig, classifies: bool) -> None:
    """Raise unless transformers' models have just these weights."""
    with torch.device("meta"):
        expected = LinformerForMaskedLM(config).state_dict()
        if classifies:
            expected |= LinformerForSequenceClassification(config).state_dict()
    if config.tie_word_embeddings:
        del expected["lm_head.decoder.weight"]
    wrong = expected.keys() ^ tensors.keys()
    wrong |= {name for name in expected.keys() & tensors.keys() if expected[name].shape != tensors[name].shape}
    if wrong:
        raise UserError(
            f"{model}: {len(wrong)} of its weights do not fit its options, or belong to options that transformers' "
            f"model does not have, such as {min(wrong)}"
        )


def _write_code(folder: Path) -> None:
    """Copy the modelling code; transformers takes relative imports of files in the same folder alone."""
    for template in _TEMPLATES:
        path = Path(inspect.getfile(template))
        text = path.read_text(encoding="utf-8").replace(_PACKAGE, _FOLDER)
        (folder / path.name).write_text(text, encoding="utf-8")
    for name in _CORE:
        shutil.copyfile(Path(core.__file__).with_name(f"{name}.py"), folder / f"{name}.py")


def _write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

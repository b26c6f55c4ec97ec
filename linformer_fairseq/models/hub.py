"""Using a trained model from Python: fairseq's RoBERTa hub interface, extended to batches and streams of texts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from fairseq import hub_utils
from fairseq.data.data_utils import collate_tokens
from fairseq.data.encoders import BPE_REGISTRY
from fairseq.models.roberta import RobertaHubInterface
from omegaconf import DictConfig, OmegaConf, open_dict
from torch import Tensor

from linformer_fairseq import register
from linformer_fairseq.checkpoints.dictionaries import check_data
from linformer_fairseq.checkpoints.released_folder import CHECKPOINT, known_inputs
from linformer_fairseq.core.padding import is_padded
from linformer_fairseq.files.dictionary import find_dictionary, read_symbols
from linformer_fairseq.files.errors import nearest
from linformer_fairseq.files.gpt2_bpe import read_bpe
from linformer_fairseq.files.sentencepiece_model import load_processor
from linformer_fairseq.files.shipped import WEIGHTS
from linformer_fairseq.files.task_inputs import TaskInputs
from linformer_fairseq.files.tokenizers import find_tokenizer

from .attention_maps import AttentionMaps
from .encoding import require_characters, require_tokenizer
from .stored import robertas_only

Tokens = Tensor | Sequence[Tensor]


class LinformerHubInterface(AttentionMaps, RobertaHubInterface):
    """``encode``, ``decode``, ``extract_features``, ``fill_mask``, ``predict``, ``register_classification_head``.

    Each of these accepts what fairseq's interface accepts, or a batch: a list of texts, a list of 1-d token tensors, or
    a (B, T) tensor padded on the right.

    `TextStreams` adds ``classify``, ``embed`` and ``fill_masks``, for any number of texts; `AttentionMaps` adds
    ``attention``.
    """

    def __init__(self, cfg: Any, task: Any, model: Any, inputs: TaskInputs) -> None:
        super().__init__(cfg, task, model)
        self.inputs = inputs
        self._stored_heads = frozenset(model.classification_heads)

    def encode(self, sentence: str | Sequence[str], *addl_sentences: str, no_separator: bool = False) -> Tensor:
        """Token ids with ``<s>`` and ``</s>``: (T,) for a text, (B, T) for a list of texts.

        Args:
            sentence: text, or a list of texts.
            addl_sentences: further segments of a single text, each after a separator.
            no_separator: omit the separators.

        Raises:
            ValueError: the model was loaded without a tokenizer, the list is empty or has something else than texts in
                it, or a text has half of a surrogate pair.
        """
        if isinstance(sentence, str):
            require_tokenizer(self.bpe)
            for text in (sentence, *addl_sentences):
                require_characters(text)
            return super().encode(sentence, *addl_sentences, no_separator=no_separator)
        if not isinstance(sentence, Sequence) or isinstance(sentence, bytes):
            raise ValueError(f"expected a text or a list of texts, found {sentence!r:.40}")
        if not sentence:
            raise ValueError("an empty list of texts was given; expected at least one")
        if addl_sentences or not all(isinstance(text, str) for text in sentence):
            raise ValueError("expected a list of texts; a batch of pairs is given as [encode(a, b) for a, b in pairs]")
        return self.batch([self.encode(text) for text in sentence])

    def batch(self, tokens: Tokens) -> Tensor:
        """Makes a (B, T) tensor, padded on the right, on the model's device from one or several token tensors.

        Raises:
            ValueError: an input is longer than n, or padded on the left; an id is not in the vocabulary; or a tensor is
                not of integers, or has another number of dimensions: one, or two if it is not in a list.
        """
        batch = self._as_rows(tokens)
        vocabulary = len(self.task.source_dictionary)
        outside = batch[(batch < 0) | (batch >= vocabulary)]
        if len(outside):
            raise ValueError(f"{int(outside[0])} is not a token of the vocabulary; expected 0 to {vocabulary - 1}")
        length, n = batch.size(1), self.model.max_positions()
        if length > n:
            raise ValueError(
                f"the input has {length} tokens, but the model was built for at most {n}; shorten it (classify and "
                "embed truncate texts as those of the training were)"
            )
        is_padded(batch.eq(self._padding_idx), "pass a list of token tensors to have them padded")
        return batch

    def _as_rows(self, tokens: Tokens) -> Tensor:
        if isinstance(tokens, Tensor):
            _require_ids(tokens, (1, 2), "(T,) or (B, T)")
            return (tokens.unsqueeze(0) if tokens.dim() == 1 else tokens).to(self.device, torch.long)
        if not len(tokens):
            raise ValueError("an empty list of token tensors was given; expected at least one")
        _require_tensors(tokens)
        for one in tokens:
            _require_ids(one, (1,), "(T,) in a list")
        # each of them: the batch has the type of the first one
        return collate_tokens([one.to(torch.long) for one in tokens], self._padding_idx).to(self.device)

    def decode(self, tokens: Tokens) -> str | list[Any]:
        """The text of tokens (T,), or a list of texts if there are several segments; a list of these for (B, T), or for
        a list of token tensors.

        Raises:
            ValueError: the model was loaded without a tokenizer, or something else was given than token tensors.
        """
        require_tokenizer(self.bpe)
        if not isinstance(tokens, Tensor):
            _require_tensors(tokens)
        elif tokens.dim() != 2:
            kept = tokens[tokens != self._padding_idx].cpu()
            return super().decode(kept) if len(kept) else ""
        return [self.decode(row) for row in tokens]

    def extract_features(self, tokens: Tokens, return_all_hiddens: bool = False) -> Tensor | list[Tensor]:
        """The output of the last layer (B, T, C), or a list of the embeddings and the outputs of all layers."""
        return super().extract_features(self.batch(tokens), return_all_hiddens)

    def predict(self, head: str, tokens: Tokens, return_logits: bool = False) -> Tensor:
        """Log-probabilities (or logits) of a classification head, (B, classes).

        Raises:
            ValueError: there is no head of that name.
        """
        heads = self.model.classification_heads
        if head not in heads:
            raise ValueError(f"there is no classification head {head!r}; this model has: {', '.join(heads) or 'none'}")
        logits: Tensor = self.model(self.batch(tokens), classification_head_name=head)[0]
        return logits if return_logits else torch.log_softmax(logits, dim=-1)

    def register_classification_head(
        self, name: str, num_classes: int | None = None, embedding_size: int | None = None, **kwargs: Any
    ) -> None:
        """Adds a head, or replaces one; see `RobertaModel`.

        It has the model's mode (training or evaluation), data type and device, and its classes are numbers.
        """
        super().register_classification_head(name, num_classes, embedding_size, **kwargs)
        embedding = self.model.encoder.sentence_encoder.embed_tokens.weight
        self.model.classification_heads[name].to(embedding.device, embedding.dtype).train(self.training)
        self._stored_heads -= {name}

    def fill_mask(self, masked_input: str | Sequence[str], topk: int = 5) -> list[Any]:
        """The ``topk`` (text, probability, token) for the ``<mask>`` in a text; a list of these for a list of texts.

        Probabilities are over the whole vocabulary; special symbols (``<s>``, ``</s>``, ...) are not returned. This
        differs from fairseq's interface, which drops some special symbols after ranking, so that the following tokens
        get wrong probabilities, and which encodes the text after the mask separately, so that sentencepiece puts a
        space before it.

        Raises:
            ValueError: as for `fill_masks`.
        """
        if isinstance(masked_input, str):
            return list(next(self.fill_masks([masked_input], topk)))
        return list(self.fill_masks(masked_input, topk))

    @property
    def _padding_idx(self) -> int:
        return int(self.task.source_dictionary.pad())


def _require_tensors(tokens: Sequence[Tensor]) -> None:
    """Raises:
    ValueError: an element is not a tensor.
    """
    for one in [tokens] if isinstance(tokens, str) else tokens:
        if not torch.is_tensor(one):
            raise ValueError(
                f"expected token tensors, found {str(one)[:40]!r}, a {type(one).__name__}; encode(text) makes them"
            )


def _require_ids(tokens: Tensor, dims: tuple[int, ...], shapes: str) -> None:
    """Raises:
    ValueError: they are not integers, or have another number of dimensions than ``dims``, which are ``shapes``.
    """
    whole = torch.can_cast(tokens.dtype, torch.long) and tokens.dtype != torch.bool
    if not whole or tokens.dim() not in dims:
        raise ValueError(
            f"the tokens are of type {tokens.dtype} and shape {tuple(tokens.shape)}; expected integers, {shapes}"
        )


def hub_interface(model: Any, task: Any, folders: Sequence[Path], inputs: TaskInputs) -> LinformerHubInterface:
    """The interface to a model that has been loaded.

    Args:
        model: the model.
        task: its fairseq task.
        folders: where to look for the tokenizer.
        inputs: how its training data were prepared.

    Raises:
        FileNotFoundError: there is no tokenizer in them.
        UserError: its files are damaged.
    """
    options = _tokenizer(folders)
    bpe = {"_name": options.pop("bpe"), **options}
    return LinformerHubInterface(OmegaConf.create({"bpe": bpe}), task, model, inputs)


def load_hub_interface(
    model_class: Any, model_path: str, checkpoint_file: str | None, data_path: str, bpe: str | None, **overrides: Any
) -> LinformerHubInterface:
    """See `LinformerRobertaModel.from_pretrained`."""
    register()  # with the tasks, one of which a finetuned checkpoint names
    models = model_class.hub_models()
    if model_path in models and checkpoint_file is not None:  # fairseq would load the model and ignore the file
        raise ValueError(
            f"{model_path} comes with the package and has no file {checkpoint_file}; leave the file out, or pass "
            f"./{model_path} for a folder of that name"
        )
    if data_path in models:  # fairseq takes a name for the model only
        data_path = models[data_path]["path"]
    model_folder = Path(models[model_path]["path"] if model_path in models else model_path)
    data_folder = model_folder / data_path if data_path.startswith(".") else Path(data_path)
    for path, folder in ((model_path, model_folder), (data_path, data_folder)):
        if not folder.is_dir():
            # fairseq would unpack an archive wherever its names lead to, and put the folder in its place
            if not folder.exists():
                what = "does not exist"
            elif folder.suffix == ".pt":
                call = f'from_pretrained("{folder.parent}", "{folder.name}")'
                what = f"is a file; name a checkpoint beside its folder, as in {call}"
            else:
                what = "is a file; unpack an archive first"
            known = f", or one of {', '.join(models)}" if models else ""
            raise FileNotFoundError(f"{folder} {what}; expected a folder{known}")
        if ":" in path and path not in models:
            raise ValueError(f"{path}: fairseq cannot use a path with a colon; choose another folder")
    if checkpoint_file is None:
        checkpoint_file = WEIGHTS if (model_folder / WEIGHTS).is_file() else CHECKPOINT
    if os.pathsep in checkpoint_file:  # fairseq would load several, of which the interface has one
        raise ValueError(f"checkpoint_file={checkpoint_file}: expected the name of one file, without {os.pathsep!r}")
    if not (model_folder / checkpoint_file).is_file():
        there = ", ".join(sorted(path.name for path in model_folder.glob("*.pt"))[:5])
        raise FileNotFoundError(
            f"{model_folder / checkpoint_file}: no such file; name the checkpoint"
            + (f"; the folder has: {there}" if there else "")
        )
    if bpe not in ("auto", None, *BPE_REGISTRY):
        raise ValueError(f"bpe={bpe!r}: expected auto, None or one of {', '.join(sorted(BPE_REGISTRY))}")
    if (dict_txt := find_dictionary(data_folder)) is not None:
        read_symbols(dict_txt)  # its errors name file and line, fairseq's do not
    if "data" in overrides:
        raise ValueError(f"data={overrides['data']!r}: give the folder of the data as the third argument")
    given = set(overrides)
    tokenizer: dict[str, Any] = {}
    if bpe == "auto":
        tokenizer = _tokenizer([data_folder, data_folder / "input0", model_folder])
        tokenizer |= {name: overrides[name] for name in tokenizer if name in overrides}
        overrides = {**overrides, **tokenizer}
        del tokenizer["bpe"]
    else:
        overrides["bpe"] = bpe
    with robertas_only(tasks=True):
        loaded = hub_utils.from_pretrained(
            model_path,
            checkpoint_file,
            data_path,
            archive_map=models,
            load_checkpoint_heads=True,
            # Compilation is not worthwhile for a few batches, even if the model was trained with it.
            **{"compile_encoder": False, **overrides},
        )
    check_data(model_folder / checkpoint_file, data_folder)
    parts = (loaded["args"].get(part) for part in ("model", "task", "bpe", "tokenizer"))
    names = {str(name) for part in parts if isinstance(part, DictConfig) for name in part}
    if wrong := sorted(given - names - {"user_dir"}):  # fairseq, which imports user_dir, would ignore it
        message = f"{wrong[0]}: the model, its task and its tokenizer have no such option"
        raise ValueError(message + nearest(wrong[0], names))
    (model,) = loaded["models"]
    inputs = known_inputs(model_folder / checkpoint_file, data_folder) if model.classification_heads else TaskInputs()
    if tokenizer:  # in place of the files in the model's folder, which fairseq prefers, if there are any
        with open_dict(loaded["args"]):
            loaded["args"].bpe.update(tokenizer)
    return LinformerHubInterface(loaded["args"], loaded["task"], model, inputs)


def _tokenizer(folders: Sequence[Path]) -> dict[str, str]:
    """The options of the tokenizer in the folders.

    Raises:
        FileNotFoundError: there is none.
        UserError: its files are damaged.
    """
    try:
        options = find_tokenizer(folders)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{error}. Give the data folder, which has them, as the third argument of from_pretrained (on the command "
            "line: --data DIR), put them there, name another tokenizer with bpe=..., or pass bpe=None to work with "
            "token ids only"
        ) from None
    # fairseq's own errors name no file, or come at the first text
    if options["bpe"] == "gpt2":
        read_bpe(Path(options["gpt2_encoder_json"]), Path(options["gpt2_vocab_bpe"]))
    else:
        load_processor(Path(options["sentencepiece_model"]))
    return options

"""Hugging Face's RoBERTa and BERT, computed by transformers itself."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError
from torch import Tensor, nn

from linformer_fairseq.analysis.encoder import Attention, Encoder, Heads, See
from linformer_fairseq.files.cutting import Ids
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.gpt2_bpe import byte_letters
from linformer_fairseq.files.json_records import read_object

CONFIG = "config.json"
_KINDS = {"roberta": "Hugging Face RoBERTa", "bert": "Hugging Face BERT"}
# Eager attention is the one that returns P; the pooler is no part of what is analysed.
_OPTIONS = {"attn_implementation": "eager", "add_pooling_layer": False}


class HuggingFaceEncoder(Encoder):
    """An encoder of transformers.

    Args:
        model: a ``RobertaModel`` or ``BertModel`` with eager attention, on its device.
        tokenizer: its tokenizer.
    """

    is_dense = True

    def __init__(self, model: Any, tokenizer: Any) -> None:
        config = model.config
        self.kind = _KINDS[config.model_type]
        # RoBERTa's positions begin after the padding symbol's
        unused = config.pad_token_id + 1 if config.model_type == "roberta" else 0
        self.max_positions = config.max_position_embeddings - unused
        self.layers, self.heads = config.num_hidden_layers, config.num_attention_heads
        self.first, self.last = tokenizer.cls_token_id, tokenizer.sep_token_id
        self._model, self._tokenizer = model.eval(), tokenizer

    def encode(self, text: str) -> Ids:
        found = self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return np.array(found, dtype=np.int64)

    def encode_masked(self, text: str) -> Ids:
        return self.encode(text)  # these tokenizers find the names of special tokens in every text

    def token(self, symbol: int) -> str:
        text = str(self._tokenizer.decode([symbol], clean_up_tokenization_spaces=False))
        if "\ufffd" not in text:
            return text
        piece, letters = self._tokenizer.convert_ids_to_tokens(int(symbol)), byte_letters()
        if not letters.keys() >= set(piece):
            return text
        return bytes(letters[letter] for letter in piece).decode("utf-8", "backslashreplace")

    @torch.no_grad()
    def attend(self, tokens: Tensor, see: See) -> None:
        def hook(number: int, module: nn.Module, given: tuple[Any, ...], named: dict[str, Any], out: Any) -> None:
            x = given[0] if given else named["hidden_states"]
            mixed, probabilities = out
            see(number, Attention(probabilities, partial(_heads, module, x, mixed), None))

        modules = [layer.attention.self for layer in self._model.encoder.layer]
        handles = [
            module.register_forward_hook(partial(hook, number), with_kwargs=True)
            for number, module in enumerate(modules)
        ]
        try:
            self._model(input_ids=tokens.to(self._model.device))
        finally:
            for handle in handles:
                handle.remove()

    def untrained(self, seed: int) -> HuggingFaceEncoder:
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(self._model.config, **_OPTIONS)
        return HuggingFaceEncoder(model.to(self._model.device), self._tokenizer)


@torch.no_grad()
def _heads(module: Any, x: Tensor, mixed: Tensor) -> Heads:
    def split(found: Tensor) -> Tensor:
        return found.view(*found.shape[:2], module.num_attention_heads, -1).transpose(1, 2)

    return Heads(split(module.query(x)), split(module.key(x)), split(module.value(x)), split(mixed))


def load_huggingface(folder: Path, device: torch.device) -> HuggingFaceEncoder:
    """Load a folder that ``save_pretrained`` wrote, of a RoBERTa or BERT with any head.

    Args:
        folder: with config.json, weights and tokenizer.
        device: where it is computed.

    Raises:
        UserError: the model is of another kind, weights are missing, or a file cannot be read.
    """
    config = read_object(folder / CONFIG)
    if (kind := config.get("model_type")) not in _KINDS or config.get("is_decoder"):
        raise UserError(f"{folder / CONFIG}: model_type {kind!r}; expected an encoder: {' or '.join(_KINDS)}")
    transformers.logging.set_verbosity_error()  # that it leaves heads and the pooler out
    transformers.logging.disable_progress_bar()
    try:
        model, found = transformers.AutoModel.from_pretrained(
            folder, local_files_only=True, output_loading_info=True, dtype=torch.float32, **_OPTIONS
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise UserError(f"{folder}: {' '.join(str(error).split())[:300]}") from error
    except Exception as error:
        if type(error) is not Exception:  # the tokenizers library has no type of its own
            raise
        raise UserError(f"{folder}: its tokenizer: {' '.join(str(error).split())[:300]}") from error
    if missing := sorted(found["missing_keys"]):
        raise UserError(f"{folder}: its weights lack {missing[0]}, and {len(missing) - 1:,} more; expected an encoder")
    if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
        raise UserError(
            f"{folder}: its tokenizer has no <s> or [CLS], or no </s> or [SEP]; expected RoBERTa's or BERT's"
        )
    return HuggingFaceEncoder(model.to(device), tokenizer)

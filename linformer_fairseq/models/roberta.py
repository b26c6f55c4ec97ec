"""RoBERTa with Linformer's attention: fairseq's RoBERTa model with another encoder."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from contextlib import nullcontext
from typing import Any

from fairseq.data import Dictionary
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.roberta import RobertaClassificationHead, RobertaEncoder, RobertaModel
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from omegaconf import OmegaConf, open_dict
from torch import Tensor, nn

from linformer_fairseq.core import LinformerSettings
from linformer_fairseq.files.shipped import WEIGHTS, shipped_folder, shipped_models
from linformer_fairseq.files.weight_names import ENCODER
from linformer_fairseq.modules import LinformerEncoder, LMHead, TokenEmbedding, look_at_neighbours

from .architectures import MODEL
from .config import LinformerRobertaConfig
from .hub import LinformerHubInterface, load_hub_interface
from .options import attention_settings, resolve_options


class LinformerRobertaEncoder(RobertaEncoder):
    """Sentence encoder and masked-language-model head.

    Args:
        args: options, from `resolve_options`.
        dictionary: of the input.
        settings: options of the attention.
    """

    def __init__(self, args: Namespace, dictionary: Dictionary, settings: LinformerSettings) -> None:
        self.settings = settings  # fairseq's __init__ calls build_encoder
        super().__init__(args, dictionary)

    def build_embedding(self, vocab_size: int, embedding_dim: int, padding_idx: int) -> TokenEmbedding:
        return TokenEmbedding(self.dictionary, embedding_dim)

    def build_lm_head(self, embed_dim: int, output_dim: int, activation_fn: str, weight: Tensor | None) -> LMHead:
        return LMHead(embed_dim, activation_fn, weight, self.dictionary, self.args.pad_vocabulary)

    def build_encoder(self, args: Namespace, dictionary: Dictionary, embed_tokens: nn.Embedding) -> LinformerEncoder:
        encoder = LinformerEncoder(args, dictionary, embed_tokens, self.settings)
        encoder.apply(init_bert_params)
        return encoder

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        masked_tokens: Tensor | None = None,
        first_only: bool = False,
        token_embeddings: Tensor | None = None,
        **unused: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """As in fairseq; with ``first_only`` only for the first position, (B, 1, C) or (B, 1, V). ``token_embeddings``,
        (B, T, C), replace those of ``src_tokens``, as criterions that add noise to them expect."""
        x, extra = self.extract_features(src_tokens, return_all_hiddens, first_only, token_embeddings)
        return x if features_only else self.output_layer(x, masked_tokens), extra

    def extract_features(
        self,
        src_tokens: Tensor,
        return_all_hiddens: bool = False,
        first_only: bool = False,
        token_embeddings: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """The output of the last layer, (B, T, C); with ``first_only`` that of the first position, (B, 1, C)."""
        out = self.sentence_encoder(
            src_tokens,
            return_all_hiddens=return_all_hiddens,
            token_embeddings=token_embeddings,
            first_only=first_only,
        )
        states = out["encoder_states"] if return_all_hiddens else None
        return out["encoder_out"][0].transpose(0, 1), {"inner_states": states}


@register_model(MODEL, dataclass=LinformerRobertaConfig)
class LinformerRobertaModel(RobertaModel):
    """RoBERTa with Linformer's self-attention; the model of the paper's experiments with ``projection=linear``."""

    @classmethod
    def hub_models(cls) -> dict[str, dict[str, str]]:
        """The models that come with the package, by name, in fairseq's format."""
        return {name: {"path": str(shipped_folder(name)), "checkpoint_file": WEIGHTS} for name in shipped_models()}

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        # Without defaults, so that those of the architecture (--arch) apply. Replaces RoBERTa's own add_args, which
        # does not use a dataclass.
        gen_parser_from_dataclass(parser, LinformerRobertaConfig(), delete_default=True)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> LinformerRobertaModel:
        """Builds the model for a task.

        Raises:
            ValueError: options are out of range or contradict each other; the message names them.
        """
        args = resolve_options(cfg, task)
        model = cls(args, LinformerRobertaEncoder(args, task.source_dictionary, attention_settings(args)))
        if args.attention_start == "neighbours":  # after fairseq's initialization, which `cls` includes
            encoder = model.encoder.sentence_encoder
            # `children`: iterating over the list would leave out layers at random with LayerDrop
            attentions = [layer.self_attn for layer in encoder.layers.children()]
            look_at_neighbours(encoder.embed_tokens, encoder.embed_positions, attentions, task.source_dictionary.bos())
        return model

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        return_all_hiddens: bool = False,
        classification_head_name: str | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, dict[str, Any]]:
        """As in fairseq. For a classification head of RoBERTa's, which reads the first position, the last layer
        computes only that one, unless all hidden states are requested."""
        if classification_head_name is not None and not return_all_hiddens:
            head = self.classification_heads[classification_head_name]
            kwargs["first_only"] = type(head) is RobertaClassificationHead
        found: tuple[Tensor, dict[str, Any]] = super().forward(
            src_tokens, features_only, return_all_hiddens, classification_head_name, **kwargs
        )
        return found

    def load_state_dict(
        self, state_dict: dict[str, Any], strict: bool = True, model_cfg: Any = None, args: Namespace | None = None
    ) -> Any:
        """As in fairseq, which leaves out the layers that are not in ``encoder_layers_to_keep`` of ``model_cfg``.

        fairseq then takes that option away, and the config goes into the next checkpoint: it gets the number of layers
        that are left. Weights of no more layers are those of a model that was pruned before. Each layer uses the first
        k rows of an E of all layers; it keeps those that are still used.
        """
        if getattr(model_cfg, "encoder_layers_to_keep", None):
            kept = self.encoder.settings.num_layers
            with open_dict(model_cfg) if OmegaConf.is_config(model_cfg) else nullcontext():
                model_cfg.encoder_layers = kept
                if not any(name.startswith(f"{ENCODER}layers.{kept}.") for name in state_dict):
                    model_cfg.encoder_layers_to_keep = None
            shared = f"{ENCODER}proj_k.weight"
            if (own := self.state_dict().get(shared)) is not None and shared in state_dict:
                state_dict[shared] = state_dict[shared][: own.size(0)]
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str | os.PathLike[str],
        checkpoint_file: str | None = None,
        data_name_or_path: str | os.PathLike[str] = ".",
        bpe: str | None = "auto",
        **overrides: Any,
    ) -> LinformerHubInterface:
        """Loads a trained model for ``encode``, ``fill_mask``, ``predict`` and so on.

        Args:
            model_name_or_path: name of a model that comes with the package (`hub_models`), or the folder of a
                checkpoint.
            checkpoint_file: name of the checkpoint in that folder (default: ``model.safetensors`` if it exists,
                otherwise ``model.pt``).
            data_name_or_path: folder with ``dict.txt`` (or ``input0/`` and ``label/``); if it begins with a dot, it is
                relative to the checkpoint's folder, as in fairseq.
            bpe: fairseq's name of the tokenizer. ``auto`` looks for tokenizer files in the data folder, then in the
                checkpoint's folder (``sentencepiece.bpe.model``, or ``encoder.json`` and ``vocab.bpe``). With None, no
                tokenizer is loaded.
            overrides: options that replace those in the checkpoint, such as ``compile_encoder=True``.

        Raises:
            FileNotFoundError: the checkpoint, dictionary or tokenizer is missing; the message names the files.
            UserError: the dictionary or the tokenizer is damaged, or not that of the checkpoint's training.
            ValueError: the checkpoint is damaged, is not a checkpoint of a RoBERTa, or refers to code that is not on
                the allow-list; a file was named although the model comes with the package; or there is no such
                option or tokenizer.
        """
        model, data = os.fspath(model_name_or_path), os.fspath(data_name_or_path)
        return load_hub_interface(cls, model, checkpoint_file, data, bpe, **overrides)

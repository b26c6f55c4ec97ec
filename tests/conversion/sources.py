"""Small RoBERTas with random weights, fairseq's and Hugging Face's, and what they compute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from fairseq import tasks
from torch import Tensor, nn

from linformer_fairseq.files import dictionary, gpt2_bpe
from linformer_fairseq.models import LinformerRobertaModel
from tests.checkpoint_files import save
from tests.data_prep.small_tokenizers import make_gpt2
from tests.fairseq_config import parse

N = 24
"""Of all sources."""
_MERGES = ["Ġ t", "h e", "Ġt he", "Ġ a", "i n", "e r", "Ġ v", "a l", "Ġv al", "u e", "Ġval ue", "Ã ©"]
_SIZES = ["--encoder-layers", "2", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "32"]
_SIZES += ["--encoder-attention-heads", "2", "--tokens-per-sample", str(N)]


def randomize(model: nn.Module, padding_rows: list[Tensor]) -> None:
    """Weights with which attention is far from uniform."""
    generator = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    for rows in padding_rows:
        rows.data.zero_()


def make_fairseq(folder: Path, *flags: str, arch: str = "roberta") -> Any:
    """A folder like that of fairseq's roberta.base: model.pt, dict.txt, encoder.json, vocab.bpe; returns the model."""
    make_gpt2(folder)
    cfg = parse(folder, "--task", "masked_lm", "--criterion", "masked_lm", "--arch", arch, *_SIZES, *flags)
    torch.manual_seed(1)
    model = tasks.setup_task(cfg.task).build_model(cfg.model).eval()
    encoder = model.encoder.sentence_encoder
    randomize(model, [encoder.embed_tokens.weight[1], encoder.embed_positions.weight[1]])
    save(folder / "model.pt", 7, model.state_dict(), cfg)
    return model


def make_huggingface(folder: Path, *, shuffled: bool = False, fast: bool = False, **options: Any) -> Any:
    """A folder as ``save_pretrained`` makes it; returns the model.

    Args:
        folder: to be made.
        shuffled: give ids of no order, and other ids to the special symbols.
        fast: write tokenizer.json in place of vocab.json and merges.txt.
        options: of RobertaConfig.
    """
    import transformers

    pieces = [*gpt2_bpe.byte_letters(), *("".join(merge.split()) for merge in _MERGES), gpt2_bpe.END_OF_TEXT]
    tokens = [*dictionary.SPECIAL, *pieces[::-1], "madeupword0000", dictionary.MASK]
    if shuffled:
        tokens = [*pieces[:3], dictionary.MASK, "<added>", "<unk>", "<pad>", "<s>", "</s>", *pieces[3:]]
    ids = {token: number for number, token in enumerate(tokens)}
    folder.mkdir(parents=True)
    config = {
        "vocab_size": len(tokens),
        "num_hidden_layers": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_attention_heads": 2,
        "max_position_embeddings": ids["<pad>"] + 1 + N,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "pad_token_id": ids["<pad>"],
        "bos_token_id": ids["<s>"],
        "eos_token_id": ids["</s>"],
    }
    torch.manual_seed(1)
    model = transformers.RobertaForMaskedLM(transformers.RobertaConfig(**{**config, **options})).eval()
    embeddings = model.roberta.embeddings
    padding = [embeddings.word_embeddings.weight, embeddings.position_embeddings.weight]
    randomize(model, [weight[ids["<pad>"]] for weight in padding])
    model.save_pretrained(folder)
    if fast:
        from tokenizers import Tokenizer, models, pre_tokenizers

        merges = [tuple(merge.split()) for merge in _MERGES]
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.add_special_tokens([*dictionary.SPECIAL, dictionary.MASK])
        tokenizer.save(str(folder / "tokenizer.json"))
    else:
        (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
        (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *_MERGES]) + "\n", encoding="utf-8")
    return model


def rewrite_config(folder: Path, **changes: Any) -> None:
    """Change entries of config.json; None removes one."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def padded_batch(symbols: int, length: int = N) -> Tensor:
    """Three sequences of our ids, of ``length``, 7 and 15 tokens."""
    generator = torch.Generator().manual_seed(3)
    rows = torch.randint(dictionary.FIRST, symbols, (3, length), generator=generator)
    rows[:, 0] = dictionary.BOS
    for row, tokens in zip(rows, (length, 7, 15), strict=True):
        row[tokens - 1] = dictionary.EOS
        row[tokens:] = dictionary.PAD
    return rows


@torch.no_grad()
def logits(model: Any, tokens: Tensor) -> Tensor:
    """A fairseq model's, ours or fairseq's own, at the tokens that are no padding: (tokens, V)."""
    found: Tensor = model(tokens)[0]
    return found[tokens != dictionary.PAD]


@torch.no_grad()
def huggingface_logits(model: Any, tokens: Tensor, order: Tensor) -> Tensor:
    """The same of Hugging Face's, for our ids; ``order`` has its id of each of ours."""
    found = model(input_ids=order[tokens], attention_mask=(tokens != dictionary.PAD).long()).logits
    return found[..., order][tokens != dictionary.PAD]


def load(folder: Path) -> Any:
    """The model of a converted folder, as users load it."""
    return LinformerRobertaModel.from_pretrained(folder).eval()

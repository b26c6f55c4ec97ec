"""Each model in a few plain lines, as documented by its own library: a program that `selfcheck` starts.

It does not use the benchmarks' code, so that it does not repeat their mistakes. It takes a case as a JSON object on its
command line and prints READY; then, for each line "pass", "operations" or "peak" on standard input, it runs a pass and
prints its seconds, operations or peak memory.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Case = dict[str, Any]
Model = tuple[nn.Module, Callable[[Tensor], Tensor]]


def fairseq_roberta(case: Case) -> Model:
    from fairseq import options, tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    with tempfile.TemporaryDirectory() as folder:
        symbols = range(case["vocabulary"] - 5)  # without <s>, <pad>, </s>, <unk> and <mask>
        Path(folder, "dict.txt").write_text("".join(f"s{number} 1\n" for number in symbols))
        words = [folder, "--task", "masked_lm", "--arch", case.get("arch", "roberta_base"), *case.get("options", [])]
        words += ["--encoder-layers", str(case["layers"]), "--encoder-embed-dim", str(case["width"])]
        words += ["--encoder-ffn-embed-dim", str(case["ffn"]), "--encoder-attention-heads", str(case["heads"])]
        words += ["--max-positions", str(case["n"]), "--tokens-per-sample", str(case["n"])]
        args = options.parse_args_and_arch(options.get_training_parser(), words)
        config = convert_namespace_to_omegaconf(args)
        model = tasks.setup_task(config.task).build_model(config.model)
    return model, lambda tokens: model(tokens, features_only=True)[0]


def fairseq_linformer(case: Case) -> Model:
    import fairseq

    example = Path(fairseq.__file__).parent / "examples" / "linformer" / "linformer_src"
    arguments = ["--user-dir", str(example), "--compressed", str(case["n"] // case["k"])]
    arguments += ["--shared-kv-compressed", "1", "--shared-layer-kv-compressed", "1"]
    return fairseq_roberta({**case, "arch": "linformer_roberta_base", "options": arguments})


def linformer(case: Case) -> Model:
    plugin = str(Path(__file__).resolve().parents[2] / "linformer_fairseq")
    arguments = ["--user-dir", plugin, "--projected-dim", str(case["k"]), "--sharing", "layerwise"]
    arguments += ["--projection", "linear"]
    return fairseq_roberta({**case, "arch": "linformer_roberta_base", "options": arguments})


def roberta_hf(case: Case) -> Model:
    from transformers import RobertaConfig, RobertaModel

    attention: dict[str, Any] = {"attn_implementation": "sdpa"}  # not a field of the class
    config = RobertaConfig(
        vocab_size=case["vocabulary"],
        hidden_size=case["width"],
        num_hidden_layers=case["layers"],
        num_attention_heads=case["heads"],
        intermediate_size=case["ffn"],
        max_position_embeddings=case["n"] + 2,
        **attention,
    )
    model = RobertaModel(config, add_pooling_layer=False)
    return model, lambda tokens: model(input_ids=tokens, attention_mask=(tokens != 1).long()).last_hidden_state


def lucidrains(case: Case) -> Model:
    from linformer import Linformer

    words, positions = nn.Embedding(case["vocabulary"], case["width"]), nn.Embedding(case["n"], case["width"])
    layers = Linformer(dim=case["width"], seq_len=case["n"], depth=case["layers"], heads=case["heads"], k=case["k"])
    model = nn.ModuleList([words, positions, layers])
    return model, lambda tokens: layers(words(tokens) + positions.weight[: tokens.size(1)])


def linformer_pytorch(case: Case) -> Model:
    from linformer_pytorch import LinformerLM

    model = LinformerLM(
        num_tokens=case["vocabulary"],
        input_size=case["n"],
        channels=case["width"],
        dim_k=case["k"],
        dim_ff=case["ffn"],
        nhead=case["heads"],
        depth=case["layers"],
        parameter_sharing="layerwise",
        return_emb=True,
    )
    return model, model


class TorchLayer(nn.Module):
    """A post-norm encoder layer as in torch's tutorials."""

    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)
        self.output, self.widen, self.narrow = nn.Linear(width, width), nn.Linear(width, ffn), nn.Linear(ffn, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.narrow(F.gelu(self.widen(x))))

    def attention(self, x: Tensor, mask: Tensor | None) -> Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (linear(x).view(shape).transpose(1, 2) for linear in (self.query, self.key, self.value))
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.output(attended.transpose(1, 2).reshape(batch, length, width))


class TorchEncoder(nn.Module):
    def __init__(self, case: Case) -> None:
        super().__init__()
        self.tokens = nn.Embedding(case["vocabulary"], case["width"], padding_idx=1)
        self.positions = nn.Embedding(case["n"], case["width"])
        self.norm = nn.LayerNorm(case["width"])
        sizes = case["width"], case["heads"], case["ffn"]
        self.layers = nn.ModuleList(TorchLayer(*sizes) for _ in range(case["layers"]))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.tokens(tokens) + self.positions.weight[: tokens.size(1)])
        mask = (tokens != 1)[:, None, None, :] if (tokens == 1).any() else None
        for layer in self.layers:
            x = layer(x, mask)
        return x


def roberta_sdpa_core(case: Case) -> Model:
    model = TorchEncoder(case)
    return model, model


RIVALS = {
    "linformer": linformer,
    "roberta_sdpa_core": roberta_sdpa_core,
    "roberta_hf": roberta_hf,
    "roberta_fairseq": fairseq_roberta,
    "fairseq_linformer": fairseq_linformer,
    "lucidrains": lucidrains,
    "linformer_pytorch": linformer_pytorch,
}


def operations_of(run: Callable[[], None]) -> int:
    """Operations of matrix products, including those of fused attention on a CPU, which torch's counter omits."""
    from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

    def attention(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
        return int(sdpa_flop_count(query, key, value))

    fused = {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: attention}
    with FlopCounterMode(display=False, custom_mapping=fused) as counter:
        run()
    return int(counter.get_total_flops())


def peak_of(run: Callable[[], None], device: str) -> int:
    """Peak memory of a pass in bytes, beyond the memory in use before it."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before

    def status(field: str) -> int:
        return next(int(line.split()[1]) << 10 for line in Path("/proc/self/status").open() if line.startswith(field))

    gc.collect()
    run()
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    run()
    return status("VmHWM") - before


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of the libraries goes to standard error
    case = json.loads(sys.argv[1])
    torch.set_num_threads(case["threads"])
    torch.manual_seed(0)
    model, forward = RIVALS[case["model"]](case)
    model.to(case["device"], getattr(torch, case["dtype"]))
    model.eval()
    tokens = torch.randint(4, case["vocabulary"] - 1, (len(case["lengths"]), case["length"]))
    for row, length in enumerate(case["lengths"]):
        tokens[row, length:] = 1
    tokens = tokens.to(case["device"])

    def run() -> None:
        with torch.no_grad():
            forward(tokens)
        if case["device"] == "cuda":
            torch.cuda.synchronize()

    with torch.no_grad():
        assert forward(tokens[:1]).shape == (1, case["length"], case["width"])
    print("READY", file=answers)
    for line in sys.stdin:
        if line.strip() == "pass":
            run()
            started = time.perf_counter()
            run()
            print(time.perf_counter() - started, file=answers)
        elif line.strip() == "operations":
            print(operations_of(run), file=answers)
        else:
            print(peak_of(run, case["device"]), file=answers)


if __name__ == "__main__":
    main()

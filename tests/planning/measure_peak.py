"""``measure_peak.py MODEL``: two updates on the CPU; prints the peak of the process's memory and its estimate."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fairseq import models, modules
from fairseq.data import Dictionary
from fairseq.optim import build_optimizer
from omegaconf import open_dict

from linformer_fairseq import launch
from linformer_fairseq.launch.options import with_defaults
from linformer_fairseq.planning.memory import memory_of
from linformer_fairseq.planning.sizes import sizes_of

SYMBOLS, N, BATCH = 5000, 512, 8
MASKED = int(0.15 * N)
OPTIONS = {"encoder_layers": 4, "encoder_embed_dim": 256, "encoder_ffn_embed_dim": 1024, "encoder_attention_heads": 4}

config = launch.compose("pretraining", ["run_config=cpu"])
with open_dict(config):
    config.model = {"_name": sys.argv[1], "max_positions": N, "dropout": 0.1, "attention_dropout": 0.1, **OPTIONS}
config = with_defaults(config)
dictionary = Dictionary()
for number in range(SYMBOLS - len(dictionary)):
    dictionary.add_symbol(f"w{number}")
task = SimpleNamespace(cfg=config.task, source_dictionary=dictionary)
model = models.build_model(config.model, task).train()
optimizer = build_optimizer(config.optimizer, list(model.parameters()))
for _ in range(2):
    tokens = torch.randint(4, SYMBOLS, (BATCH, N))
    masked = torch.zeros(BATCH, N, dtype=torch.bool)
    masked[:, :MASKED] = True
    logits = model(tokens, masked_tokens=masked)[0]
    optimizer.backward(modules.cross_entropy(logits, tokens[masked], reduction="sum"))
    optimizer.step()
found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())  # getrusage's is inherited
assert found is not None
peak = int(found[1]) * 1024
estimate = memory_of(config, sizes_of(config, SYMBOLS), BATCH, N, MASKED).total
print(peak, estimate)

"""How to use a model, for its card: code and commands that fit it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from linformer_fairseq.exporting.trained import CheckpointModel

from .history import Stage

_TEXT = "He opened the <mask> and walked into the room."
_TEXTS = '["one text", "another one"]'
_PAIRS = '[("one text", "the other text of the pair")]'
_DICTIONARIES = '[{"text": "one text", "text_pair": "the other text of the pair"}]'
"""Pairs, as transformers' pipelines take them."""

_FAIRSEQ = """With linformer-fairseq:

```python
from linformer_fairseq.models import LinformerRobertaModel

model = LinformerRobertaModel.from_pretrained({arguments}).eval()
{call}
```

```bash
{command}
```
"""
_TRANSFORMERS = """With Hugging Face's transformers:

```python
from transformers import {auto}, AutoTokenizer, pipeline

model = {auto}.from_pretrained({folder}, trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained({folder}, trust_remote_code=True)
{call}
```

`trust_remote_code=True` runs the Python files in the folder.
"""


def with_fairseq(model: CheckpointModel, stage: Stage, pairs: bool, released: Path | None = None) -> str:
    """Python and a command for the checkpoint, or the folder that it was released in, and its package.

    Args:
        model, stage: the model.
        pairs: its head takes pairs of texts.
        released: the folder.
    """
    if released is not None:
        place, arguments = released.name, _string(released.name)
    elif stage.shipped is not None:
        place, arguments = stage.shipped, _string(stage.shipped)
    else:
        file, folder = model.path.name, model.path.absolute().parent.name
        whole = file in ("model.safetensors", "model.pt")
        place = folder if whole else f"{folder}/{file}"
        arguments = _string(folder) if whole else f'{_string(folder)}, {_string(file)}, "DATA"'
    place = shlex.quote(place)
    texts = "pairs.tsv" if pairs else "texts.txt"
    note = "# each line: a text, a tab, the other text\n" if pairs else ""
    if model.head is None:
        call = f'model.fill_mask("{_TEXT}", topk=3)  # [(text, probability, token), ...]'
        command = f'echo "{_TEXT}" | linformer fill-mask {place}'
    elif model.regression:
        tokens = f"[model.encode(*pair) for pair in {_PAIRS}]" if pairs else f"model.encode({_TEXTS})"
        call = f"model.predict({_string(model.head)}, {tokens}, return_logits=True)  # (B, {model.outputs})"
        command = f"{note}linformer embed {place} {texts} --out vectors.npy"
    else:
        call = f"list(model.classify({_PAIRS if pairs else _TEXTS}))  # label, probability, ... of each"
        command = f"{note}linformer predict {place} {texts} --out classes.tsv"
    data = "\n`DATA` is the folder with the dictionary and the tokenizer.\n" if "DATA" in arguments else ""
    return _FAIRSEQ.format(arguments=arguments, call=call, command=command) + data


def with_transformers(model: CheckpointModel, pairs: bool, folder: Path) -> str:
    """Python for the folder that `linformer export hf` writes."""
    if model.head is None:
        auto, call = "AutoModelForMaskedLM", f'pipeline("fill-mask", model, tokenizer=tokenizer)("{_TEXT}", top_k=3)'
    else:
        auto = "AutoModelForSequenceClassification"
        texts = _DICTIONARIES if pairs else _TEXTS
        call = f'pipeline("text-classification", model, tokenizer=tokenizer)({texts})'
    return _TRANSFORMERS.format(auto=auto, folder=_string(folder.name), call=call)


def _string(text: str) -> str:
    """A text as Python writes it, in the quotes of the rest of the code."""
    return json.dumps(text, ensure_ascii=False)

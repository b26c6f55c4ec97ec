"""How to use a model, for its card: code and commands that fit it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from linformer_fairseq.exporting.trained import CheckpointModel

from .history import Stage

_TEXT = "He opened the <mask> and walked into the room."

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


def with_fairseq(model: CheckpointModel, stage: Stage, released: Path | None = None) -> str:
    """Python and a command for the checkpoint, or the folder that it was released in, and its package."""
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
    if model.head is None:
        call = f'model.fill_mask("{_TEXT}", topk=3)  # [(text, probability, token), ...]'
        command = f'echo "{_TEXT}" | linformer fill-mask {place}'
    elif model.regression:
        texts = 'model.encode(["one text", "another one"])'
        call = f"model.predict({_string(model.head)}, {texts}, return_logits=True)  # (B, {model.outputs})"
        command = f"linformer embed {place} texts.txt --out vectors.npy"
    else:
        call = 'list(model.classify(["one text", "another one"]))  # label, probability, ... of each'
        command = f"linformer predict {place} texts.txt --out classes.tsv"
    data = "\n`DATA` is the folder with the dictionary and the tokenizer.\n" if "DATA" in arguments else ""
    return _FAIRSEQ.format(arguments=arguments, call=call, command=command) + data


def with_transformers(model: CheckpointModel, folder: Path) -> str:
    """Python for the folder that `linformer export hf` writes."""
    if model.head is None:
        auto, call = "AutoModelForMaskedLM", f'pipeline("fill-mask", model, tokenizer=tokenizer)("{_TEXT}", top_k=3)'
    else:
        auto = "AutoModelForSequenceClassification"
        call = 'pipeline("text-classification", model, tokenizer=tokenizer)(["one text", "another one"])'
    return _TRANSFORMERS.format(auto=auto, folder=_string(folder.name), call=call)


def _string(text: str) -> str:
    """A text as Python writes it, in the quotes of the rest of the code."""
    return json.dumps(text, ensure_ascii=False)

"""Model cards in the format of the Hugging Face hub, of what a checkpoint and the files beside it say.

* `history`: the trainings that the weights went through, from run folders and conversion records;
* `data`: what they were trained on, from the manifests of `linformer data`;
* `metrics`: scores, from logs, checkpoints and the files of `linformer evaluate --results`;
* `architecture`, `training`, `usage`: the sections of the card;
* `front_matter`: its metadata; `card`: all of it.
"""

from .card import model_card

__all__ = ["model_card"]

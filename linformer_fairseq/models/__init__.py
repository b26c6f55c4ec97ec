"""RoBERTa with Linformer's attention as a fairseq model; importing this registers the model and its architectures."""

from linformer_fairseq import registration  # noqa: F401  must precede all uses of fairseq
from linformer_fairseq.checkpoints.reading import register_upgrade

from . import architectures
from .config import LinformerRobertaConfig
from .hub import LinformerHubInterface, hub_interface
from .int8 import count_parameters, quantize
from .legacy_checkpoint import complete_options, upgrade_legacy_checkpoint
from .roberta import LinformerRobertaModel

architectures.register()
register_upgrade(upgrade_legacy_checkpoint)
register_upgrade(complete_options)

__all__ = [
    "LinformerHubInterface",
    "LinformerRobertaConfig",
    "LinformerRobertaModel",
    "count_parameters",
    "hub_interface",
    "quantize",
]

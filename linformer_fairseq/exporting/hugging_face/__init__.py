"""A trained model as a folder of Hugging Face's transformers, and such a folder as a checkpoint of fairseq.

``configuration_linformer`` and ``modeling_linformer`` are copied to the folder together with the files of ``core`` that
they need, so that transformers can load it without this package.
"""

from .reading import import_folder
from .writing import convert, export_folder

__all__ = ["convert", "export_folder", "import_folder"]

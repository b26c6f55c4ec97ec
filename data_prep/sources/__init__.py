"""Where the documents of a corpus come from: files of several formats, and the Hugging Face hub."""

from data_prep.sources.parse import parse_source
from data_prep.sources.source import Source

__all__ = ["Source", "parse_source"]

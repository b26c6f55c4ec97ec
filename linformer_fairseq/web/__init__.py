"""What web pages share: the style, and the heat map of attention probabilities."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Has style.css and heat_map.js."""

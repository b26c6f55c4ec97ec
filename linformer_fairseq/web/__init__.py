"""What web pages share: colours, style, and the heat map of attention probabilities."""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Has colours.css, style.css and heat_map.js."""

"""What web pages share: the style, and the heat map of attention probabilities.

Every page uses base.css; those that show attention also style.css and heat_map.js.
"""

from pathlib import Path

FOLDER = Path(__file__).parent
"""Has these files."""

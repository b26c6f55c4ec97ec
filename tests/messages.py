"""What a message has to have, whatever its words are."""

from __future__ import annotations

import re


def says(text: str, *values: object) -> bool:
    """Whether a line of the text has these values and names, in this order."""
    return re.search(".*".join(re.escape(str(value)) for value in values), text) is not None

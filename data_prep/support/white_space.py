"""White space in the bytes of UTF-8 text: all that `str.isspace` knows, so that one line is blank for everyone."""

import re

_CHARACTERS = [chr(code).encode() for code in range(0x3001) if chr(code).isspace() and chr(code) != "\n"]
_ASCII = re.escape(b"".join(one for one in _CHARACTERS if len(one) == 1))
_OTHERS = [one for one in _CHARACTERS if len(one) > 1]

BLANK = rb"(?:[%b]|%b)*+" % (_ASCII, b"|".join(_OTHERS))
"""Pattern of what a blank line has before its line feed. Possessive (`*+`), which needs no memory for the way back
through a long one."""
BEGUN = rb"%b(?:%b)?" % (BLANK, b"|".join(sorted({one[:size] for one in _OTHERS for size in range(1, len(one))})))
"""The same, where the last character may be cut off."""

"""The error that every program prints as one line instead of a traceback; the name that a misspelled one may mean."""

import difflib
import errno
from collections.abc import Iterable

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Numbers of the OSErrors of a disk, or a share of it, that is full."""


class UserError(Exception):
    """A failure that the user can put right: the message names the value or file, and says what to do about it.

    Programs print it as ``error: MESSAGE`` and end with exit status 1.
    """


def nearest(name: str, known: Iterable[str], common: int = 0) -> str:
    """Return "; did you mean X?" with the known name that is closest to a misspelled one, or "" if none is close.

    Args:
        name: the misspelled name.
        known: the existing names.
        common: length of the prefix that all have in common, which is not compared.
    """
    rests = {other[common:]: other for other in sorted(known)}
    return "".join(f"; did you mean {rests[rest]}?" for rest in difflib.get_close_matches(name[common:], rests, n=1))

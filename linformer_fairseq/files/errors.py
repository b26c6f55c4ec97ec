"""The error that every program prints as one line instead of a traceback."""


class UserError(Exception):
    """A failure that the user can put right: the message names the value or file, and says what to do about it.

    Programs print it as ``error: MESSAGE`` and end with exit status 1.
    """

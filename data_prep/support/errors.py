"""The error that tells a user what is wrong and what to do."""


class DataError(Exception):
    """Something about the input or the options that the user can mend; the message says what and how."""

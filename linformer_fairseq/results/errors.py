"""What goes wrong with results."""


class ResultsError(ValueError):
    """A file of results, or a run's folder, that cannot be read or written; the text names it and says what to do."""

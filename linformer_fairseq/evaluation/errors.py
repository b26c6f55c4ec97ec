"""What goes wrong in an evaluation."""


class EvaluationError(ValueError):
    """The checkpoint and the data do not go together, or one of them is not what it should be."""

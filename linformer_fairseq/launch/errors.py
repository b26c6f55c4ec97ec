"""What a user can put right before a run starts."""


class LaunchError(ValueError):
    """A run that cannot start as it was asked for; the message says which value, what was expected and what to do."""

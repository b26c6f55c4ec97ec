"""Trained models in the formats of other libraries, and back."""

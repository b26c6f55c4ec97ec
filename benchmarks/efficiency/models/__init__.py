"""The models that are compared: random weights, token ids (B, T) to features (B, T, C), no output layer.

`registry` has their names; the package that a model needs is imported only when it is built.
"""

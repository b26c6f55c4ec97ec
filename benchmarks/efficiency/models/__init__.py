"""The models that are compared: random weights, token ids (B, T) to features (B, T, C), no output layer.

`registry` has their names; what a model is made with is imported only when it is built.
"""

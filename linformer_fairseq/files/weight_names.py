"""Names of weights in fairseq's checkpoints of RoBERTa, and in this project's, which are the same."""

ENCODER = "encoder.sentence_encoder."
"""What the names of the encoder's weights begin with."""
TOKENS = f"{ENCODER}embed_tokens.weight"
"""Embeddings of the symbols, (V, C)."""
POSITIONS = f"{ENCODER}embed_positions.weight"
"""Embeddings of the positions, (`UNUSED_POSITIONS` + n, C)."""
UNUSED_POSITIONS = 2
"""Rows of the position embeddings before that of the first token, since positions follow the padding symbol's id."""
LM_HEAD = "encoder.lm_head."
"""What the names of the weights of the head for masked tokens begin with."""
OUTPUT, OUTPUT_BIAS = f"{LM_HEAD}weight", f"{LM_HEAD}bias"
"""The output layer, (V, C) and (V,); its weight can be `TOKENS`."""
HEADS = "classification_heads."
"""What the names of the weights of classification heads begin with; the head's name and a dot follow."""


def head_output(head: str) -> str:
    """The name of the weight of a classification head's last layer, (classes, C)."""
    return f"{HEADS}{head}.out_proj.weight"

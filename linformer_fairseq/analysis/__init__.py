"""Why k can be small: singular values of the attention matrix P, and the paper's two theorems in numbers.

* `encoder` is what is analysed; `fairseq_encoder` and `huggingface_encoder` are the two kinds of it;
* `blocks` chooses blocks of tokens from text;
* `singular_values`, `sums` and `spectrum` make Figure 1 of the paper, with controls;
* `theorem1`, `theorem2` and `proofs` compute what the theorems are about, `theory` runs them;
* `record` is the JSON of the results, `spectrum_figure`, `theory_figure` and `report` show it.
"""

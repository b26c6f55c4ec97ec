"""What attention does, why k can be small, and where a model fails: each ``linformer analyse`` command.

* `encoder` is what is analysed; `fairseq_encoder` and `huggingface_encoder` are the two kinds of it;
* `blocks` chooses blocks of tokens from text;
* `singular_values`, `sums` and `spectrum` make Figure 1 of the paper, with controls;
* `theorem1`, `theorem2` and `proofs` compute what the theorems are about, `approximations` compares the projection with
  `nystrom` and `performer`; `theory` runs them;
* `attention` has P and E of a text (`projected_rows`: E over its tokens), for `attention_figures` and `attention_page`;
* `limits` says how predictions depend on length and position, `insertion` how they change with text put before;
* `record` is the JSON of the results, `resuming` finishes a stopped measurement, and `report`, ``*_report`` and
  ``*_figure`` show the results.
"""

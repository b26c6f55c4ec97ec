"""Speed and memory: of the models (`linformer benchmark`), and of data preparation (`benchmarks/*.py`)."""

PROGRAMS = {
    "inference": "time and memory of a forward pass (Table 3, Figure 2)",
    "training": "speed of training, bare and through fairseq",
    "ablation": "one layer with one thing done differently at a time",
    "profile": "where the time of one layer goes",
    "optimizer": "a step of fairseq's Adam and of fused_adamw",
    "padding": "how much of a finetuning's batches is padding",
    "selfcheck": "whether the models are set up as their own users do",
    "report": "tables and plots of what was measured",
    "readme": "put the tables into the pages of a clone of the repository",
}
"""Programs of `linformer benchmark`: the modules of `efficiency`, and what each does."""

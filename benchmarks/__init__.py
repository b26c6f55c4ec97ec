"""Speed and memory: of the models (`linformer benchmark`), and of data preparation (`benchmarks/*.py`)."""

PROGRAMS = {
    "inference": "time and memory of a forward pass (Tables 1 and 3, Figure 2)",
    "training": "speed of training, with a plain loop and with fairseq's trainer",
    "prediction": "speed of `linformer predict` and of a Hugging Face pipeline on the same file",
    "precision": "accuracy and speed of a finetuned model in lower precision, compiled, and in ONNX Runtime",
    "ablation": "ablation of one layer, with one change at a time",
    "profile": "profile of one layer",
    "optimizer": "time of a step of fairseq's Adam and of fused_adamw",
    "padding": "share of padding in finetuning batches",
    "selfcheck": "check that models are set up as their libraries document",
    "energy": "energy of inference, estimated from the measured speed and a power that you give",
    "report": "tables and plots of all measurements",
    "readme": "update the tables in the documentation",
}
"""The programs of `linformer benchmark`: modules of `efficiency` with their descriptions."""

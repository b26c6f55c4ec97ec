"""Support for training runs that replaces nothing in fairseq.

* `joining` forms the default process group, `process_group` one for messages other than gradients;
* `signals` records signals that ask the run to stop, and has its exit status;
* `resuming` says whether a checkpoint resumes a run, and which command does;
* `run_report` has the run's logger and its progress.

`linformer_fairseq.patches` and `linformer_fairseq.launch` use them.
"""

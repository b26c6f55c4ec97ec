"""What a training run needs beside fairseq, without replacing anything of it.

* `joining` makes the processes meet, and `process_group` carries their messages beside gradients;
* `signals` remembers that the run was asked to stop, and has the exit status that says so;
* `run_report` has the run's log and its progress.

`linformer_fairseq.patches` and `linformer_fairseq.launch` use them.
"""

"""RoBERTa with Performer's or Nystrom attention: a ``--user-dir`` for the study `projections` of reproduce_learning.sh.

    linformer pretrain experiment=small/roberta common.user_dir=scripts/rivals \
        model._name=performer_prenorm model.features=64 run.name=performer_s1 task.data=work/bin run_config=cpu

``model._name=nystrom_prenorm model.landmarks=64`` has Nystrom attention. These models are for comparison only, and not
part of the package; they can be pretrained, not finetuned or exported.
"""

from . import roberta  # noqa: F401  registers the models

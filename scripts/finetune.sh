#!/usr/bin/env bash
# Sets up the environment, then finetunes by a config: `linformer finetune`, which can be used alone. See usage() below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

usage() {
    cat <<'EOT'
usage: scripts/finetune.sh [--dry-run] [--multirun] [KEY=VALUE...]

  scripts/finetune.sh task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt
  scripts/finetune.sh --multirun task=sst2 task.data=work/sst2 pretrained=runs/NAME/checkpoint_best.pt run_config=slurm

Sets up .venv (scripts/setup.sh) and calls `linformer finetune` with the same arguments; its --help tells more.
EOT
}

case "${1:-}" in --help | -h) usage && exit 0 ;; esac
"$repo/scripts/setup.sh"
exec "$venv/bin/linformer" finetune "$@"

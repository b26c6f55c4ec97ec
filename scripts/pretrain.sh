#!/usr/bin/env bash
# Sets up the environment, then pretrains by a config: `linformer pretrain`, which can be used alone. See usage() below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

usage() {
    cat <<'EOT'
usage: scripts/pretrain.sh [--dry-run] [KEY=VALUE...]

  scripts/pretrain.sh experiment=linformer_base_n512_k128_layerwise task.data=work/bin run_config=node
  scripts/pretrain.sh --dry-run experiment=linformer_base_n4096_k256_layerwise task.data=work/bin

Sets up .venv (scripts/setup.sh) and calls `linformer pretrain` with the same arguments; its --help tells more.
EOT
}

case "${1:-}" in --help | -h) usage && exit 0 ;; esac
"$repo/scripts/setup.sh"
exec "$venv/bin/linformer" pretrain "$@"

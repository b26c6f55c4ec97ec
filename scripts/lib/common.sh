# shellcheck shell=bash
# What every script here needs: where the repository is, and how to speak to the user. Sourced, not run.

# The repository root, with symbolic links resolved, from wherever the script was called.
repo="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd -P)"
readonly repo
# shellcheck disable=SC2034 # used by the scripts that source this file
readonly venv="$repo/.venv"

say() { printf '==> %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

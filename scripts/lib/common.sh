# shellcheck shell=bash
# Common to all scripts: the path of the repository, and messages to the user. Sourced, not run.

# The repository root, with symbolic links resolved, whatever the current folder.
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

number() { # number OPTION VALUE
    [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || die "$1 $2: expected a whole number above 0"
}

show() { # show COMMAND...: prints it as typed in a shell, on several lines if it is long
    local word line="\$"
    for word in "$@"; do
        [[ $word =~ ^[A-Za-z0-9_./:=,+@%-]+$ ]] || word="'${word//\'/\'\\\'\'}'"
        if ((${#line} + ${#word} > 108)); then
            printf '%s \\\n' "$line"
            line="     "
        fi
        line+=" $word"
    done
    printf '%s\n' "$line"
}

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

find_python() { # find_python: sets $python to the command that runs Python, which may have several words
    # shellcheck disable=SC2034 # used by the scripts that source this file
    python=("$venv/bin/python")
    [[ -z ${LINFORMER_PYTHON:-} ]] || read -ra python <<<"$LINFORMER_PYTHON"
    command -v "${python[0]}" >/dev/null ||
        die "${python[0]}: no such program on $(hostname); run scripts/setup.sh in $repo, or name a Python in LINFORMER_PYTHON"
}

number() { # number OPTION VALUE
    [[ $2 =~ ^[1-9][0-9]{0,6}$ ]] || die "$1 $2: expected a whole number above 0"
}

check_path() { # check_path [OPTION] PATH
    # fairseq splits paths at colons, and Hydra interpolates ${...}.
    [[ ${!#} != *[:\$\'\"\\]* ]] || die "$*: fairseq cannot read a path with a colon, quotation marks, \$ or \\"
}

check_grid_keys() { # check_grid_keys KEY=VALUE...: of a grid of finetunings, which sets learning rate and seed itself
    local word
    for word in "$@"; do
        [[ ! $word =~ ^\+*(lr|optimization\.lr|common\.seed)= ]] ||
            die "$word: the grid sets it; name learning rates and seeds in LINFORMER_LRS and LINFORMER_SEEDS"
    done
}

single_quoted() { # single_quoted WORD...: prints them as every shell reads them; sh does not know the $'...' of printf %q
    local word
    for word in "$@"; do printf "'%s' " "${word//\'/\'\\\'\'}"; done
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

# bash acts on a signal only when the command in the foreground has ended. So a long command runs in the background, in a
# session of its own, to which `stop_command` passes the signal on: whoever signals the script may not reach its children.
stoppable() { # stoppable COMMAND...: a program, not a function. With stderr redirected here, last words go there, too
    local status=0
    (trap - INT && exec setsid "$@") <&0 & # in the background bash ignores SIGINT
    wait "$!" || status=$?
    return "$status"
}

stop_on_signals() { # stop_on_signals FUNCTION: calls FUNCTION SIGNAL once, at the first of them
    local signal
    # shellcheck disable=SC2064 # the names of now
    for signal in INT QUIT TERM HUP; do trap "trap '' INT QUIT TERM HUP; $1 $signal" "$signal"; done
}

longest_stop=60 # seconds that `stop_command` waits for what runs
stop_command() { # stop_command SIGNAL LOCK: ends the script and what it started; what that wrote is kept
    local signal="$1" lock="$2" forwarded=TERM # with which a run saves a checkpoint, also when the terminal was closed
    [[ $signal != INT ]] || forwarded=INT
    local session
    for session in $(jobs -p); do # what has just begun is not in its session yet
        until kill -s "$forwarded" -- "-$session" 2>/dev/null || ! kill -0 "$session" 2>/dev/null; do sleep 0.01; done
    done
    local name="SIG$signal" held=75 status=0
    # What runs has inherited the lock: it is free when the last of them has ended.
    exec 9>&-
    flock -n -E "$held" -- "$lock" true 2>/dev/null || status=$?
    if ((status == held)); then
        printf '\nStopping; waiting for what still runs.\n' >&2
        status=0
        flock -w "$longest_stop" -E "$held" -- "$lock" true || status=$?
    fi
    printf '\nStopped by %s. The same command carries on from here: what is finished is kept.\n' "${name/SIGINT/Ctrl-C}" >&2
    ((status != held)) || warn "something of it still runs; before it has ended, the same command is refused"
    exit "$((128 + $(kill -l "$signal")))"
}

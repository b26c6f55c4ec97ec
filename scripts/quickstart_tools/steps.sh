# shellcheck shell=bash
# Steps that are run once: each has its own folder under the output folder, and a record of its inputs. Sourced by
# quickstart.sh after lib/common.sh.
#
# A step's key is a hash of its command, its input files (including the programs' sources) and the Python version. If
# key and outputs are those recorded, the step is skipped. If the key is the same but the step is unfinished, it runs
# again in the same folder, where training resumes from its last checkpoint. If the key differs, the folder is emptied.

export PYTHONUNBUFFERED=1
out="" step_log="" running="" started=0
skipped=0 # 1 if the last step was skipped

note_seconds() { # adds the time of the running step to that of its earlier attempts
    [[ -n $running ]] || return 0
    local file="$out/.steps/$running.seconds" before=0
    [[ ! -s $file ]] || before="$(<"$file")"
    printf '%d\n' "$((before + SECONDS - started))" >"$file"
    running=""
}

interrupted() { # interrupted SIGNAL
    note_seconds
    stop_command "$1" "$out/.steps/lock"
}

open_output() { # open_output DIR: sets `out` and locks it; exits if it is in use or has other files
    out="$1"
    check_path "$out"
    if [[ -d $out && ! -e $out/.linformer-quickstart && -n "$(ls -A -- "$out")" ]]; then
        die "--out $out: this folder holds other files; give a new or an empty one"
    fi
    mkdir -p -- "$out/.steps"
    : >>"$out/.linformer-quickstart"
    exec 9>"$out/.steps/lock"
    flock -n 9 || die "$out: another quickstart is running in this folder"
    stop_on_signals interrupted
}

quoted() { # a path as a value for Hydra's command line, quoted if needed
    if [[ $1 =~ ^[A-Za-z0-9_./-]+$ ]]; then printf '%s' "$1"; else printf "'%s'" "$1"; fi
}

outputs() { # outputs FOLDER: hashes of the files that a step wrote, without logs
    (cd -- "$1" && find . -type f ! -name '*.log' ! -name '.*.tmp' -print0 | sort -z | xargs -0r sha256sum)
}

is_done() { # is_done NAME KEY
    local record="$out/.steps/$1.done"
    [[ -f $record && -d $out/$1 && "$(head -n 1 -- "$record")" == "$2" ]] &&
        [[ "$(tail -n +2 -- "$record")" == "$(outputs "$out/$1")" ]]
}

begin() { # begin NAME TITLE INPUT... -- COMMAND...: sets `key`, `command` and, if there is nothing to do, `skipped`
    local name="$1" title="$2" inputs=()
    shift 2
    while [[ $1 != -- ]]; do inputs+=("$1") && shift; done
    shift
    command=("$@")
    key="$({
        printf '%s\0' "${command[@]}"
        python -V
        sha256sum -- "${inputs[@]}"
    } | sha256sum)"
    key="${key%% *}"
    if is_done "$name" "$key"; then
        printf '==> %s: already done\n' "$title"
        skipped=1
        return 0 # another status would be taken for that of a command that failed
    fi
    if [[ ! -f $out/.steps/$name.key || "$(<"$out/.steps/$name.key")" != "$key" ]]; then
        rm -rf -- "${out:?}/$name" "$out/.steps/$name".*
    fi
    mkdir -p -- "$out/$name"
    printf '%s\n' "$key" >"$out/.steps/$name.key.tmp"
    mv -- "$out/.steps/$name.key.tmp" "$out/.steps/$name.key"
    # shellcheck disable=SC2034 # quickstart.sh uses `skipped`
    step_log="$out/$name/output.log" running="$name" started="$SECONDS" skipped=0
    printf '\n==> %s\n' "$title"
    show "${command[@]}"
}

finish() { # finish NAME KEY STATUS
    local name="$1" key="$2" status="$3"
    ((status != 130)) || interrupted INT
    note_seconds
    ((status == 0)) || exit 1
    { printf '%s\n' "$key" && outputs "$out/$name"; } >"$out/.steps/$name.done.tmp"
    mv -- "$out/.steps/$name.done.tmp" "$out/.steps/$name.done"
}

step() { # step NAME TITLE INPUT... -- COMMAND...
    local key command status=0
    begin "$@" # not in a condition, where errors in it would not end the script
    ((!skipped)) || return 0
    step_log="$out/.steps/$1.log" # not in the step's own folder, which is for the files of its program
    # Redirected in a shell of its own: what this script says at a signal is not for the log.
    # shellcheck disable=SC2016 # the inner shell expands
    stoppable bash -c 'exec "$@" 2>"$0"' "$step_log" "${command[@]}" || status=$?
    if ((status != 0 && status != 130)); then # our programs end with one line that has the error; libraries print more
        grep '^error: ' -- "$step_log" >&2 || tail -n 15 -- "$step_log" >&2
    fi
    finish "$1" "$key" "$status"
}

training_step() { # training_step NAME TITLE UPDATES INPUT... -- COMMAND...: shows the progress of a training command
    local key command status=0 name="$1" title="$2" total="$3"
    shift 3
    begin "$name" "$title" "$@"
    ((!skipped)) || return 0
    # shellcheck disable=SC2016 # the inner shell expands
    stoppable bash -c '
        log="$1" total="$2"
        shift 2
        "$@" 2>&1 | python -m scripts.quickstart_tools.progress --log "$log" --total "$total"
        exit "${PIPESTATUS[0]}"' - "$step_log" "$total" "${command[@]}" || status=$?
    if ((status != 0 && status != 130)); then
        printf 'error: %s failed with status %d; the end of %s:\n' "$title" "$status" "$step_log" >&2
        tail -n 15 -- "$step_log" >&2
    fi
    finish "$name" "$key" "$status"
}

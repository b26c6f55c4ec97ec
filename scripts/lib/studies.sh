# shellcheck shell=bash
# Common to the scripts that train many models: data, and lists of runs, of which several run at the same time.
# Sourced after common.sh, not run. The caller sets out, text, vocab_size and jobs, and adds runs to `lines`.
# shellcheck disable=SC2154

# Reads a script's options, each into the variable of the same name, and other arguments into `text`.
read_options() { # read_options "OPTION..." WORD...
    local options=" $1 " option
    shift
    while (($#)); do
        option="$1"
        shift
        case "$option" in
            --help | -h) usage && exit 0 ;;
            --*) [[ $options == *" $option "* ]] ||
                die "unknown argument: $option (see scripts/${0##*/} --help)" ;;
            *) text+=("$(realpath -m -- "$option")") && continue ;;
        esac
        (($#)) || die "$option: expected a value"
        set_option "$option" "$1"
        shift
    done
}

set_option() { # set_option OPTION VALUE: sets the variable of the same name to a folder or a number above 0
    local name="${1#--}" value="$2"
    case "$name" in
        out | results) value="$(realpath -m -- "$2")" ;;
        *) number "$1" "$2" ;;
    esac
    printf -v "${name//-/_}" '%s' "$value"
}

find_data() { # sets data
    [[ -n ${LINFORMER_DATA:-} ]] || die "LINFORMER_DATA is not set: expected the folder with the data, see --help"
    data="$(realpath -m -- "$LINFORMER_DATA")"
}

# Checks that the data exist, sets up the environment, and creates and locks the output folder; exits on an error.
open_study() { # open_study TASK_SOURCE...
    local path
    for path in "${text[@]}" "${@/#/"$data/"}"; do
        [[ -r $path ]] || die "$path: not there, or not readable; --help lists what is expected"
    done
    check_path --out "$out"
    "$repo/scripts/setup.sh"
    export PATH="$venv/bin:$PATH" PYTHONPATH="$repo${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1
    mkdir -p -- "$out"
    exec 9>"$out/.lock"
    flock -n 9 || die "$out: another script is running in this folder"
    stop_on_signals interrupted
}

interrupted() { # interrupted SIGNAL
    stop_command "$1" "$out/.lock"
}

# ---- Data. Each program skips what it has already finished.
linformer_data() {
    show linformer data "$@"
    stoppable linformer data "$@"
}

prepare_text() { # prepare_text [TOKENIZER]: a folder with a tokenizer; without it, one is trained
    local tokenizer="${1:-$out/tokenizer}"
    # Whole documents are held out: a smaller share would be very few. Validation uses a sample of them.
    linformer_data corpus --out "$out/text" --valid-share 0.004 --workers "$jobs" "${text[@]}"
    [[ -n ${1:-} ]] || linformer_data vocabulary --out "$tokenizer" --vocab-size "$vocab_size" "$out/text"
    linformer_data binarize --tokenizer "$tokenizer" --out "$out/bin" --workers "$jobs" "$out/text"
}

check_source() { # check_source NAME SOURCE OPTION...: exits if $out/NAME was made from other data or with other options
    local stamp="$out/sources/$1" made
    made="${*:3} $(find -L "$data/$2" -type f -exec sha256sum -- {} + | cut -c 1-64 | sort | sha256sum | cut -c 1-64)"
    mkdir -p -- "$out/sources"
    if [[ ! -e $stamp ]]; then
        printf '%s\n' "$made" >"$stamp.part"
        mv -- "$stamp.part" "$stamp"
    elif [[ $(<"$stamp") != "$made" ]]; then
        die "$out/$1 and the runs on it were made from another $2, or for inputs of another length: choose another --out"
    fi
}

cut_task() { # cut_task TASK SOURCE N NAME: truncates its examples to N tokens; writes to $out/NAME
    check_source "$4" "$2" "$3"
    cmp -s -- "$out/bin/dict.txt" "$out/$4/input0/dict.txt" || linformer_data task "$1" --from "$data/$2" \
        --tokenizer "$out/tokenizer" --max-positions "$3" --cut head+tail --out "$out/$4"
}

prepare_task() { # prepare_task TASK SOURCE N: writes to $out/TASK, and its bag of words to $out/controls
    cut_task "$1" "$2" "$3" "$1"
    bag_of_words "$1" "$1" "$data/$2" --data "$out/$1"
}

bag_of_words() { # bag_of_words NAME TASK FILE... [--data DIR]: writes its accuracy to $out/controls/NAME.json
    mkdir -p -- "$out/controls"
    [[ -f $out/controls/$1.json ]] ||
        stoppable python -m scripts.reproduce_tools.bag_of_words "$2" --from "${@:3}" --out "$out/controls/$1.json"
}

text_id() { # identifies text and vocabulary, so that runs with other data are not resumed
    cat -- "$out"/bin/{dict.txt,train.bin,valid.bin} | sha256sum | cut -c 1-8
}

# ---- Runs. A line of a list is a name for the log and the arguments of `linformer`, separated by spaces. No argument
# has a space in it: paths are relative to the folder of the runs, the only one that may have one.
lines=()
run_all() { # run_all TITLE: those in `lines`, which is empty then
    local line words
    say "$1: ${#lines[@]} runs, $jobs at a time; their output is in $out/logs"
    for line in "${lines[@]}"; do
        read -ra words <<<"${line#* }"
        show linformer "${words[@]}"
    done
    # One program starts them all, so that torch and fairseq are loaded once.
    stoppable python -m scripts.reproduce_tools.runs --jobs "$jobs" < <(printf '%s\n' "${lines[@]}") ||
        die "not all runs finished; the same command continues with those that did not"
    lines=()
}

#!/usr/bin/env bash
# One finetuning task from its official files to what fairseq-train reads. See usage() below.
# Thin: sets up the environment, finds the files, and starts python -m data_prep.prepare_task.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

usage() {
    cat <<'EOF'
usage: scripts/prepare_task.sh {sst2,qnli,qqp,imdb} --tokenizer DIR --out TASK [options]

Prepares a task with the tokenizer that the model was pretrained with. Options are handed on;
`python -m data_prep.prepare_task --help` describes all of them:

  --tokenizer DIR        folder of the tokenizer; that of the pretraining data does
  --out TASK             folder to write
  --from PATH            GLUE's folder or zip, aclImdb or its tar, or: hub. Without it the files are looked for under
                         $LINFORMER_DATA (glue/SST-2, glue/QNLI, glue/QQP or the zips; aclImdb, aclImdb.tar.*,
                         aclImdb_v1.tar.gz), and the Hugging Face hub is asked where that is not set
  --max-positions N      cut longer examples to what a model with N positions takes (default: nothing is cut)
  --cut head|tail|head+tail
  --strict               rows that are no examples are an error
  --errors strict|replace
  --help                 show this text

Environment variables:
  LINFORMER_DATA         folder of official files, see --from

Exit status: 0 all is there; 1 something failed, which is said in one line; 130 stopped by Ctrl-C.
EOF
}

find_files() { # find_files TASK: where the official files of a task are, on stdout
    local path candidates=()
    [[ -n ${LINFORMER_DATA:-} ]] || { printf 'hub' && return; }
    case "$1" in
        sst2) candidates=("$LINFORMER_DATA"/glue/SST-2{,.zip}) ;;
        qnli) candidates=("$LINFORMER_DATA"/glue/QNLI{,.zip,v2.zip}) ;;
        qqp) candidates=("$LINFORMER_DATA"/glue/QQP{,.zip,-clean.zip}) ;;
        imdb) candidates=("$LINFORMER_DATA"/aclImdb{,.tar,.tar.gz,.tar.bz2,.tar.xz,.tar.zst,_v1.tar.gz}) ;;
    esac
    for path in "${candidates[@]}"; do
        [[ ! -e $path ]] || { printf '%s' "$path" && return; }
    done
    die "no files of $1 under LINFORMER_DATA=$LINFORMER_DATA (looked for: ${candidates[*]}); give --from PATH, or --from hub"
}

task="" given=0
case "${1:-}" in
    --help | -h) usage && exit 0 ;;
    sst2 | qnli | qqp | imdb) task="$1" && shift ;;
    "") usage >&2 && die "expected a task: sst2, qnli, qqp or imdb" ;;
    *) die "$1: expected a task: sst2, qnli, qqp or imdb (scripts/prepare_task.sh --help tells more)" ;;
esac
for word in "$@"; do
    case "$word" in
        --help | -h) usage && exit 0 ;;
        --from | --from=*) given=1 ;;
    esac
done
source=()
if ((!given)); then
    path="$(find_files "$task")"
    source=(--from "$path")
fi

"$repo/scripts/setup.sh"
export PYTHONPATH="$repo${PYTHONPATH:+:$PYTHONPATH}" # python -m data_prep.NAME works from any folder
show python -m data_prep.prepare_task "$task" "${source[@]}" "$@" >&2
exec "$venv/bin/python" -m data_prep.prepare_task "$task" "${source[@]}" "$@"

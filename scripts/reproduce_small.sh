#!/usr/bin/env bash
# The paper's Figure 3 (a, c, d) and Table 2 with models and data of a size that fits two CPU cores. See usage() below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

updates=1500 finetune_updates=400 vocab_size=2000 seeds=3 pretraining_seeds=1

usage() {
    cat <<EOT
usage: scripts/reproduce_small.sh [options] [TEXT...]

From text to tables and figures: corpus, vocabulary of $vocab_size pieces, binary data and the four tasks; pretrainings
(a RoBERTa, and Linformers with different k, sharing and n); finetunings of the RoBERTa and of one Linformer on four
tasks, and, as controls, of both without pretraining, and a bag of words; then rows, Table 2, Figure 3 and
perplexity against time. On two cores it takes about 45 minutes. What it shows and what not,
results/small/README.md says.

Data: the folder that LINFORMER_DATA names, with corpus/books.txt.xz and corpus/wiki.txt.xz (or each TEXT in their
place: a file of paragraphs, a blank line between documents), glue/SST-2, glue/QNLI, glue/QQP and aclImdb.tar.xz.

Stop it whenever you like: the same command carries on, and does not repeat what has finished.

  --out DIR              folder for data and runs (default: reproduce_small in the repository root)
  --results DIR          folder for rows, tables and figures (default: results/small)
  --updates N            of each pretraining (default: $updates)
  --finetune-updates N   of each finetuning (default: $finetune_updates)
  --pretraining-seeds N  of the two models that are finetuned (default: $pretraining_seeds)
  --seeds N              finetunings of each model on each task; they begin with one pretraining after the other
                         (default: $seeds)
  --jobs N               runs at a time, one thread each (default: one per core)
  --help                 show this text

Exit status: 0 all is there; 1 something failed, which is said; 130 stopped by Ctrl-C.
EOT
}

out="$repo/reproduce_small" results="$repo/results/small" jobs="$(nproc)" text=()
while (($#)); do
    option="$1"
    shift
    case "$option" in
        --help | -h) usage && exit 0 ;;
        --out | --results | --updates | --finetune-updates | --pretraining-seeds | --seeds | --jobs) ;;
        --*) die "unknown argument: $option (scripts/reproduce_small.sh --help lists what there is)" ;;
        *) text+=("$(realpath -m -- "$option")") && continue ;;
    esac
    (($#)) || die "$option: expected a value"
    case "$option" in
        --out) out="$(realpath -m -- "$1")" ;;
        --results) results="$(realpath -m -- "$1")" ;;
        --updates) number "$option" "$1" && updates="$1" ;;
        --finetune-updates) number "$option" "$1" && finetune_updates="$1" ;;
        --pretraining-seeds) number "$option" "$1" && pretraining_seeds="$1" ;;
        --seeds) number "$option" "$1" && seeds="$1" ;;
        --jobs) number "$option" "$1" && jobs="$1" ;;
    esac
    shift
done
data="${LINFORMER_DATA:-}"
[[ -n $data ]] || die "LINFORMER_DATA is not set: the folder with the tasks' files, see --help"
data="$(realpath -m -- "$data")"
((${#text[@]})) || text=("$data/corpus/books.txt.xz" "$data/corpus/wiki.txt.xz")
for path in "${text[@]}" "$data"/glue/{SST-2,QNLI,QQP} "$data/aclImdb.tar.xz"; do
    [[ -r $path ]] || die "$path: not there, or not readable; --help tells what is expected"
done
[[ $out != *[:\$\'\"\\]* ]] || die "--out $out: fairseq cannot read a path with a colon, quotation marks, \$ or \\"

"$repo/scripts/setup.sh"
export PATH="$venv/bin:$PATH" PYTHONPATH="$repo${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1
mkdir -p -- "$out/logs"
exec 9>"$out/.lock"
flock -n 9 || die "$out: another reproduce_small.sh is at work in this folder"
interrupted() {
    trap '' INT
    # The runs have had the signal, too, and have inherited the lock: it is free when the last of them has ended.
    exec 9>&-
    flock -w 60 -- "$out/.lock" true || true
    printf '\nStopped by Ctrl-C. The same command carries on from here: what is finished is kept.\n' >&2
    exit 130
}
trap interrupted INT

# ---- Data. Each program knows what it has finished.
program() {
    show python -m "data_prep.$1" "${@:2}"
    python -m "data_prep.$1" "${@:2}"
}
# Whole documents are held out: with a share below this it would be a handful. A sample of them is validated on (recipe.yaml).
program build_corpus --out "$out/text" --valid-share 0.004 --workers "$jobs" "${text[@]}"
program train_sentencepiece --out "$out/tokenizer" --vocab-size "$vocab_size" "$out/text"
program binarize --tokenizer "$out/tokenizer" --out "$out/bin" --workers "$jobs" "$out/text"
length=256 # n of the finetuned models
declare -A source=([sst2]=glue/SST-2 [qnli]=glue/QNLI [qqp]=glue/QQP [imdb]=aclImdb.tar.xz)
mkdir -p -- "$out/controls"
for task in sst2 qnli qqp imdb; do
    cmp -s -- "$out/bin/dict.txt" "$out/$task/input0/dict.txt" || program prepare_task "$task" --from "$data/${source[$task]}" \
        --tokenizer "$out/tokenizer" --max-positions "$length" --cut head+tail --out "$out/$task"
    [[ -f $out/controls/$task.json ]] ||
        python -m scripts.reproduce_tools.bag_of_words "$task" --from "$data/${source[$task]}" --out "$out/controls/$task.json"
done

# ---- Runs, some at a time. A line of the list is a name for its log and the words of `linformer`, apart by blanks:
# nothing in them has one but the folder of the runs, where all of them stand.
cd -- "$out"
# Runs of other text or another length are other runs, not earlier parts of these.
runs="trained_$(cat bin/dict.txt bin/train.bin bin/valid.bin | sha256sum | cut -c 1-8)_${updates}_$finetune_updates"
untrained="un$runs"
run_all() { # run_all TITLE LINE...
    local title="$1" line words
    shift
    say "$title: $# runs, $jobs at a time; what they print is in $out/logs"
    for line in "$@"; do
        read -ra words <<<"${line#* }"
        show linformer "${words[@]}"
    done
    # shellcheck disable=SC2016 # the inner shell expands
    printf '%s\n' "$@" | xargs -d '\n' -P "$jobs" -I LINE bash -c '
        read -r name words <<<"$1"
        started=$SECONDS
        if linformer $words >"logs/$name.log" 2>&1; then
            printf "==> %s: finished after %d s\n" "$name" "$((SECONDS - started))" >&2
        else
            printf "error: %s failed; the end of logs/%s.log:\n%s\n" "$name" "$name" "$(tail -n 3 "logs/$name.log")" >&2
            exit 1
        fi' - LINE || die "not all runs finished; the same command goes on with those that did not"
}
common="run_config=cpu task.data=bin"
schedule="optimization.max_update=$updates lr_scheduler.warmup_updates=$((updates / 20 + 1))"
pretrain() { # pretrain MODEL N K SHARING SEED PANELS: a line of the list
    local line="experiment=small/$1 task.tokens_per_sample=$2" name="$1_n$2"
    [[ $1 == roberta ]] || line+=" model.projected_dim=$3 model.sharing=$4" name+="_k$3_$4"
    line+=" common.seed=$5 run.paper.figure3=[$6] run.runs=$runs"
    printf '%s_s%s pretrain %s %s %s' "$name" "$5" "$line" "$schedule" "$common"
}
untrained() { # untrained MODEL SEED: the same as a checkpoint of the first weights, by an update that moves nothing
    local line="experiment=small/$1 common.seed=$2 run.runs=$untrained run.name=$1_s$2"
    line+=" optimization.max_update=1 optimization.lr=[1e-12] lr_scheduler.warmup_updates=0"
    printf 'untrained_%s_s%s pretrain %s %s' "$1" "$2" "$line" "$common"
}
lines=("$(pretrain linformer 512 64 layerwise 1 d)")
for ((seed = 1; seed <= pretraining_seeds; seed++)); do
    lines+=("$(pretrain roberta 256 - - "$seed" a,c)" "$(pretrain linformer 256 64 layerwise "$seed" a,c,d)")
    lines+=("$(untrained roberta "$seed")" "$(untrained linformer "$seed")")
done
lines+=(
    "$(pretrain linformer 256 32 layerwise 1 a)"
    "$(pretrain linformer 256 16 layerwise 1 a)"
    "$(pretrain linformer 256 64 none 1 c)"
    "$(pretrain linformer 256 64 headwise 1 c)"
    "$(pretrain linformer 256 64 key_value 1 c)"
    "$(pretrain linformer 128 64 layerwise 1 d)"
)
run_all "pretraining" "${lines[@]}"

# RoBERTa's learning rates are for large models that saw much text; these need a higher one.
common="run_config=cpu optimization.max_update=$finetune_updates lr_scheduler.warmup_updates=$((finetune_updates / 16 + 1))"
common+=" lr=1e-3 dataset.num_workers=0 optimization.clip_norm=1.0"
common+=" model.dropout=0 model.attention_dropout=0" # as in their pretraining
declare -A sentences=([sst2]=64 [qnli]=16 [qqp]=32 [imdb]=16) # more where an example is short
finetune() { # finetune RUNS RUN TASK SEED: a line of the list
    local line="task=$3 task.data=$3 common.seed=$4 run.runs=$1 pretrained=$1/$2/checkpoint_best.pt"
    line+=" run.sentences_per_update=${sentences[$3]} dataset.batch_size=${sentences[$3]}"
    printf '%s_%s_%s_f%s finetune %s %s' "${1%%_*}" "$2" "$3" "$4" "$line" "$common"
}
lines=()
for task in imdb qnli qqp sst2; do
    for ((seed = 1; seed <= seeds; seed++)); do
        from=$(((seed - 1) % pretraining_seeds + 1))
        for model in roberta_mini_n256 linformer_mini_n256_k64_layerwise; do
            lines+=("$(finetune "$runs" "${model}_s$from" "$task" "$seed")")
        done
    done
    for ((seed = 1; seed <= pretraining_seeds; seed++)); do
        for model in roberta linformer; do lines+=("$(finetune "$untrained" "${model}_s$seed" "$task" "$seed")"); done
    done
done
run_all "finetuning" "${lines[@]}"

# ---- Results, made anew: rows of other runs have no place among them
command="scripts/reproduce_small.sh --updates $updates --finetune-updates $finetune_updates"
command+=" --pretraining-seeds $pretraining_seeds --seeds $seeds"
mkdir -p -- "$results"
rm -f -- rows.jsonl trained.jsonl "$results"/figure3* "$results"/perplexity*
linformer results collect "$runs" --out trained.jsonl
linformer results collect "$runs" "$untrained" --out rows.jsonl
cp -- rows.jsonl "$results/runs.jsonl"
linformer results table2 --runs rows.jsonl --out "$results/table2.md"
linformer results table2 --runs rows.jsonl --format latex --out "$results/table2.tex"
linformer results figure3 --runs rows.jsonl --out "$results"
linformer results perplexity --runs trained.jsonl --out perplexity.md --figure "$results"
python -m scripts.reproduce_tools.page --work "$out" --results "$results" --command "$command"
say "results are in $results"

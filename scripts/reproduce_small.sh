#!/usr/bin/env bash
# The paper's Figure 3 (a, c, d) and Table 2 with models and data small enough for two CPU cores. See usage() below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/studies.sh
source "$repo/scripts/lib/studies.sh"

updates=1500 finetune_updates=400 vocab_size=2000 seeds=3 pretraining_seeds=1

usage() {
    cat <<EOT
usage: scripts/reproduce_small.sh [options] [TEXT...]

Runs all steps from text to tables and figures: corpus, vocabulary of $vocab_size pieces, binary data and four tasks;
pretraining of a RoBERTa and of Linformers with different k, sharing and n; finetuning of the RoBERTa and of one
Linformer on the tasks, and, as controls, of both without pretraining, and a bag of words; then rows, Table 2,
Figure 3 and perplexity against time. On two cores it takes about half an hour. results/small/README.md
describes what the results show and what they do not show.

Data: LINFORMER_DATA names a folder with corpus/books.txt.xz and corpus/wiki.txt.xz (or instead of them each TEXT: a
file of paragraphs, with a blank line between documents), glue/SST-2, glue/QNLI, glue/QQP and aclImdb.tar.xz.

It can be stopped at any time: the same command continues it and does not repeat what has finished.

  --out DIR              folder for data and runs (default: reproduce_small in the repository root)
  --results DIR          folder for rows, tables and figures (default: results/small)
  --updates N            updates of each pretraining (default: $updates)
  --finetune-updates N   updates of each finetuning (default: $finetune_updates)
  --pretraining-seeds N  pretrainings of each of the two models that are finetuned (default: $pretraining_seeds)
  --seeds N              finetunings of each model on each task; they use its pretrainings in turn
                         (default: $seeds)
  --jobs N               number of runs at the same time, with one thread each (default: one per core)
  --help                 show this text

Exit status: 0 everything is finished; 1 something failed, after an error message; 130 stopped by Ctrl-C
(143 by SIGTERM, 129 by SIGHUP).
EOT
}

out="$repo/reproduce_small" results="$repo/results/small" jobs="$(nproc)" text=()
read_options "--out --results --updates --finetune-updates --pretraining-seeds --seeds --jobs" "$@"
if [[ -e $results/README.md ]] && ! grep -qF 'scripts/reproduce_small.sh --updates' "$results/README.md"; then
    die "--results $results: its README.md was not made by this script, which would replace it; give another folder"
fi
find_data
((${#text[@]})) || text=("$data/corpus/books.txt.xz" "$data/corpus/wiki.txt.xz")
open_study glue/{SST-2,QNLI,QQP} aclImdb.tar.xz
prepare_text
length=256 # n of the finetuned models
prepare_task sst2 glue/SST-2 "$length"
prepare_task qnli glue/QNLI "$length"
prepare_task qqp glue/QQP "$length"
prepare_task imdb aclImdb.tar.xz "$length"

cd -- "$out"
# All runs of a folder are counted: other numbers of seeds are in another one.
runs="trained_$(text_id)_${updates}_${finetune_updates}_${pretraining_seeds}x$seeds"
untrained="un$runs"
common="run_config=cpu task.data=bin"
schedule="optimization.max_update=$updates lr_scheduler.warmup_updates=$((updates / 20 + 1))"
pretrain() { # pretrain MODEL N K SHARING SEED PANELS: a line of the list
    local line="experiment=small/$1 task.tokens_per_sample=$2" name="$1_n$2"
    [[ $1 == roberta ]] || line+=" model.projected_dim=$3 model.sharing=$4" name+="_k$3_$4"
    line+=" common.seed=$5 run.paper.figure3=[$6] run.runs=$runs"
    printf '%s_s%s pretrain %s %s %s' "$name" "$5" "$line" "$schedule" "$common"
}
untrained() { # untrained MODEL SEED: a checkpoint of the initial weights, by one update with almost no learning rate
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
run_all "pretraining"

# RoBERTa's learning rates are for large models that were pretrained on much text; these models need a higher one.
common="run_config=cpu optimization.max_update=$finetune_updates lr_scheduler.warmup_updates=$((finetune_updates / 16 + 1))"
common+=" lr=1e-3 optimization.clip_norm=1.0"
common+=" model.dropout=0 model.attention_dropout=0" # as in their pretraining
declare -A sentences=([sst2]=64 [qnli]=16 [qqp]=32 [imdb]=16) # more if examples are short
finetune() { # finetune RUNS RUN TASK SEED: a line of the list
    local line="task=$3 task.data=$3 common.seed=$4 run.runs=$1 pretrained=$1/$2/checkpoint_best.pt"
    line+=" run.sentences_per_update=${sentences[$3]} dataset.batch_size=${sentences[$3]}"
    printf '%s_%s_%s_f%s finetune %s %s' "${1%%_*}" "$2" "$3" "$4" "$line" "$common"
}
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
run_all "finetuning"

# ---- Results, which are created anew so that they contain no rows of other runs
command="scripts/reproduce_small.sh --updates $updates --finetune-updates $finetune_updates"
command+=" --pretraining-seeds $pretraining_seeds --seeds $seeds"
mkdir -p -- "$results"
rm -f -- rows.jsonl trained.jsonl "$results"/{figure3,figure3_*,perplexity}.{png,svg}
linformer results collect "$runs" --out trained.jsonl
linformer results collect "$runs" "$untrained" --out rows.jsonl
cp -- rows.jsonl "$results/runs.jsonl"
linformer results table2 --runs rows.jsonl --out "$results/table2.md"
linformer results table2 --runs rows.jsonl --format latex --out "$results/table2.tex"
linformer results figure3 --runs rows.jsonl --out "$results"
linformer results perplexity --runs trained.jsonl --out perplexity.md --figure "$results"
python -m scripts.reproduce_tools.page --work "$out" --results "$results" --command "$command"
say "results are in $results"

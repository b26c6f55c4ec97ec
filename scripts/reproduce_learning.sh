#!/usr/bin/env bash
# Studies that compare what Linformers and RoBERTas learn; they take hours. See usage() below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/studies.sh
source "$repo/scripts/lib/studies.sh"

vocab_size=2000 updates=2000 finetune_updates=400 seeds=3
released_updates=3500 released_seeds=5
conversion_updates=1000
plateau_updates=30000 plateau_seeds=1

usage() {
    cat <<EOT
usage: scripts/reproduce_learning.sh STUDY [options]

  projections   perplexity with different projections, k, n and other options: 57 models of 2 or 6 layers x 128, three
                seeds each; accuracy on two tasks with each kind of projection, k, n and sharing, and without pretraining;
                an estimated seven hours on two cores
  length        accuracy on whole and on truncated film reviews, and in finding the author of a passage of 1,500 words:
                models of 2 layers x 128 with n = 256, 512 and 2,048, three seeds; the last also as long as RoBERTa takes; the
                same without pretraining. An estimated three and a half hours on two cores
  plateau       perplexity of a RoBERTa and a Linformer over 30,000 updates, until both have left the plateau of word
                frequencies, and accuracy on two tasks: 2 layers x 128, n = 256; an hour on two cores, in bf16
  released      the models that come with the package, and a RoBERTa to compare: 6 layers x 256, n = 512, 261 million
                tokens each; finetuned on SST-2, QNLI, QQP and all of IMDB, five seeds; the Linformer also after more
                pretraining, on IMDB's reviews; then the weights for release, in OUT/weights. On a GPU if there is one:
                the first two parts of the pretraining take ten minutes on an NVIDIA H200; the third has been measured
                on a CPU only (an hour and a half for the Linformer), like that on reviews. On two cores an estimated day
                for the pretraining and two for the rest, in bf16
  conversion    perplexity against updates of a converted RoBERTa and of a Linformer from scratch: 6 layers x 256,
                n = 64, k = 16, three seeds; an estimated hour on two cores, in bf16

Each study writes its rows and tables to results/learning/STUDY. It can be stopped at any time: the same command
continues it.

Data: LINFORMER_DATA names the folder, as for scripts/reproduce_small.sh.

  --out DIR        folder for data and runs (default: reproduce_STUDY in the repository root)
  --results DIR    folder for rows and tables (default: results/learning/STUDY)
  --updates N      updates of each pretraining (default: $updates; plateau: $plateau_updates; released:
                   $released_updates, a seventh on paragraphs, and eight sevenths of them in small batches;
                   conversion: $conversion_updates)
  --finetune-updates N  updates of each finetuning (default: $finetune_updates; released: depends on the task)
  --seeds N        seeds of each model (default: $seeds; plateau: $plateau_seeds); released: of each finetuning
                   (default: $released_seeds)
  --jobs N         number of runs at the same time, with one thread each (default: one per core)
  --help           show this text

Exit status: 0 everything is finished; 1 something failed, after an error message; 130 stopped by Ctrl-C
(143 by SIGTERM, 129 by SIGHUP).
EOT
}

case "${1:-}" in
    projections | length) ;;
    plateau) updates=$plateau_updates seeds=$plateau_seeds ;;
    released) vocab_size=8000 updates=$released_updates finetune_updates="" seeds=$released_seeds ;;
    conversion) updates=$conversion_updates finetune_updates="" ;;
    --help | -h) usage && exit 0 ;;
    *) die "${1:-no study}: expected projections, length, plateau, released or conversion (see scripts/reproduce_learning.sh --help)" ;;
esac
study="$1" out="$repo/reproduce_$1" results="$repo/results/learning/$1" jobs="$(nproc)"
shift
text=()
read_options "--out --results --updates --finetune-updates --seeds --jobs" "$@"
((!${#text[@]})) || die "unknown argument: ${text[0]} (see scripts/reproduce_learning.sh --help)"
find_data
text=("$data/corpus/books.txt.xz" "$data/corpus/wiki.txt.xz")
schedule="optimization.max_update=$updates lr_scheduler.warmup_updates=$((updates / 20 + 1))"
device="run_config=cpu"
corpus=bin
finetuning="run_config=cpu optimization.clip_norm=1.0"

pretrain() { # pretrain NAME EXPERIMENT SEED OVERRIDE...: adds a line to the list of runs
    lines+=("$1_s$3 pretrain experiment=$2 common.seed=$3 ${*:4} $schedule $device task.data=$corpus run.runs=$runs run.name=$1_s$3")
}

for_seeds() { # for_seeds NAME EXPERIMENT OVERRIDE...: the same with each seed
    local seed
    for ((seed = 1; seed <= seeds; seed++)); do pretrain "$1" "$2" "$seed" "${@:3}"; done
}

untrained() { # untrained NAME EXPERIMENT OVERRIDE...: initial weights, by one update with almost no learning rate, as a control
    local schedule="optimization.max_update=1 optimization.lr=[1e-12] lr_scheduler.warmup_updates=0"
    for_seeds "untrained_$1" "${@:2}"
}

finetune() { # finetune RUN TASK SEED UPDATES OVERRIDE...: adds a line to the list of runs
    local updates="optimization.max_update=$4 lr_scheduler.warmup_updates=$(($4 / 16 + 1))"
    lines+=("$1_$2_f$3 finetune task=$2 common.seed=$3 $updates ${*:5} $finetuning pretrained=$runs/$1/checkpoint_best.pt run.runs=$runs")
}

on_two_tasks() { # on_two_tasks SUFFIX RATE TITLE NAME...: finetunes all seeds of models on SST-2 and IMDB, in TASKSUFFIX
    local task seed model
    local -A sentences=([sst2]=64 [imdb]=16)
    for task in sst2 imdb; do
        for ((seed = 1; seed <= seeds; seed++)); do
            for model in "${@:4}"; do
                finetune "${model}_s$seed" "$task" "$seed" "$finetune_updates" "lr=$2 model.dropout=0" \
                    "model.attention_dropout=0 task.data=$task$1 run.sentences_per_update=${sentences[$task]}" \
                    "dataset.batch_size=${sentences[$task]}"
            done
        done
    done
    run_all "finetuning: $3"
}

# ---- The studies: their tasks and runs
projections() {
    local paper="model.projection=linear" k n rate found model
    local affine="model.row_weights=affine model.short_inputs=stretch"
    local windows="$paper $affine model.projection_init=window_means model.projection_step=0.02 model.attention_start=neighbours"
    prepare_task sst2 glue/SST-2 256
    prepare_task imdb aclImdb.tar.xz 256

    # ---- Kinds of projections, also on two tasks, and other attention of linear complexity
    for_seeds roberta small/roberta
    for_seeds default small/linformer
    for_seeds paper small/linformer "$paper"
    for_seeds mean_pool small/linformer model.projection=mean_pool
    for_seeds max_pool small/linformer model.projection=max_pool
    for model in linformer roberta; do untrained "$model" "small/$model"; done
    ln -sfn -- "$repo/scripts/rivals" rivals # a path without spaces
    for_seeds performer small/roberta common.user_dir=rivals model._name=performer_prenorm model.features=64
    for_seeds nystrom small/roberta common.user_dir=rivals model._name=nystrom_prenorm model.landmarks=64
    run_all "pretraining: kinds of projections"
    on_two_tasks "" 1e-3 "kinds of projections" roberta default paper mean_pool max_pool untrained_{linformer,roberta}

    # ---- Other learning rates, for both models
    for rate in 5e-4 2e-3; do
        for_seeds "roberta_lr$rate" small/roberta "optimization.lr=[$rate]"
        for_seeds "default_lr$rate" small/linformer "optimization.lr=[$rate]"
    done
    run_all "pretraining: learning rates"
    for rate in 5e-4 2e-3; do on_two_tasks "" "$rate" "learning rate $rate" roberta default; done

    # ---- A k for each layer and head: as many rows as make up 99 % of a RoBERTa's singular values (90 % take only some 7 of
    # 256 after so few updates); the same with its two layers exchanged; the list of the RoBERTa before training; and one k of
    # nearly the same sum
    found="$(linformer analyse spectrum "$runs/roberta_s1" text/valid --sentences 200 --out "$runs/spectrum")" # kept once finished
    k="$(sed -n 's/^99 %: projected_dim=//p' <<<"$found")"
    for_seeds k_by_spectrum small/linformer "$windows" model.sharing=none "model.projected_dim=$k"
    k="$(sed -E 's/\[(\[[^]]*\]),(\[[^]]*\])\]/[\2,\1]/' <<<"$k")"
    for_seeds k_layers_exchanged small/linformer "$windows" model.sharing=none "model.projected_dim=$k"
    k="$(sed -nE 's/.*"untrained": \{[^}]*"0.99": ([^}]*)\}.*/\1/p' "$runs/spectrum/spectrum.json" | tr -d ' ')"
    for_seeds k_untrained small/linformer "$windows" model.sharing=none "model.projected_dim=$k"
    k="$(sed -n '/^99 %/{n;s/.*: //p}' <<<"$found")"
    for_seeds k_same_sum small/linformer "$windows" model.sharing=none "model.projected_dim=$k"

    # ---- k at n = 256, and n at k = 64
    for k in 16 32 128 256; do
        for_seeds "k$k" small/linformer "model.projected_dim=$k"
        for_seeds "paper_k$k" small/linformer "$paper" "model.projected_dim=$k"
        for_seeds "paper_affine_k$k" small/linformer "$paper" "$affine" "model.projected_dim=$k"
    done
    for n in 128 512 1024; do
        for_seeds "n$n" small/linformer "task.tokens_per_sample=$n"
        for_seeds "paper_n$n" small/linformer "$paper" "task.tokens_per_sample=$n"
        for_seeds "paper_affine_n$n" small/linformer "$paper" "$affine" "task.tokens_per_sample=$n"
    done

    # ---- Sharing, and other k by layer and head
    for_seeds none small/linformer model.sharing=none
    for_seeds headwise small/linformer model.sharing=headwise
    for_seeds key_value small/linformer model.sharing=key_value
    for_seeds k64_k128 small/linformer model.sharing=key_value model.projected_dim=[64,128]
    for_seeds k128_k64 small/linformer model.sharing=key_value model.projected_dim=[128,64]
    for_seeds k_by_head small/linformer model.sharing=none "model.projected_dim=[[128,64,32,64],[128,64,32,64]]"

    # ---- Windows that overlap
    for_seeds overlap2 small/linformer model.kernel_strides=2
    for_seeds overlap3 small/linformer model.kernel_strides=3
    for_seeds overlap2_k128 small/linformer model.kernel_strides=2 model.projected_dim=128
    for_seeds overlap2_k_by_head small/linformer model.kernel_strides=2 model.sharing=none \
        "model.projected_dim=[[128,64,32,64],[128,64,32,64]]"

    # ---- The same in a deeper model
    for_seeds deep_layerwise small/linformer model.encoder_layers=6
    for_seeds deep_headwise small/linformer model.encoder_layers=6 model.sharing=headwise
    for_seeds deep_none small/linformer model.encoder_layers=6 model.sharing=none
    for_seeds deep_k128 small/linformer model.encoder_layers=6 model.projected_dim=128 # costs as much as the next
    for_seeds deep_k_by_head small/linformer model.encoder_layers=6 model.sharing=none \
        "model.projected_dim=[$(printf '[128,64,32,64],%.0s' {1..5})[128,64,32,64]]"
    for_seeds deep_overlap2 small/linformer model.encoder_layers=6 model.kernel_strides=2
    for k in 128,128,64,64,32,32 128,64,128,64,128,64; do
        for_seeds "deep_k${k//,/_}" small/linformer model.encoder_layers=6 model.kernel_strides=2 model.sharing=key_value \
            "model.projected_dim=[$k]"
    done

    # ---- One option changed: to the paper's value, or to another one; and the paper's projection with the default's options
    for_seeds random_start small/linformer model.attention_start=random
    for_seeds free_rows small/linformer model.row_weights=free
    for_seeds xavier small/linformer model.projection_init=xavier
    for_seeds frozen small/linformer model.freeze_projection=true
    for_seeds paper_neighbours small/linformer "$paper" model.attention_start=neighbours
    for_seeds paper_affine small/linformer "$paper" "$affine"
    for_seeds paper_windows small/linformer "$windows"
    run_all "pretraining: k, n and other options"
    on_two_tasks "" 1e-3 "k and sharing" k{16,32,128,256} paper_k{16,32,128,256} none headwise key_value overlap2
    for n in 128 512 1024; do
        cut_task sst2 glue/SST-2 "$n" "sst2_$n"
        cut_task imdb aclImdb.tar.xz "$n" "imdb_$n"
        on_two_tasks "_$n" 1e-3 "n = $n" "n$n" "paper_n$n"
    done
}

longer() { # longer TASK UPDATES OVERRIDE...: adds another finetuning of the Linformer with n = 2,048 to the list of runs
    local model="linformer_n2048_s$seed"
    finetune "$model" "$1" "$seed" "$2" "${*:3} task.data=$1_2048 run.name=$model/$1_$2_s$seed"
    lines[-1]="longer_${lines[-1]}"
}

length() {
    local n seed model alike="lr=1e-3 model.dropout=0 model.attention_dropout=0"
    # k is that of the other studies, and larger for the longest input.
    local -A k=([256]=64 [512]=64 [2048]=128)
    python -m scripts.reproduce_tools.authors --books "$data/corpus/books.txt.xz" --list "$data/corpus/books.list.tsv" --out authors
    bag_of_words imdb imdb "$data/aclImdb.tar.xz"
    check_source authors corpus/books.list.tsv
    bag_of_words authors tsv authors/train.tsv authors/valid.tsv
    for n in 256 512 2048; do
        cut_task imdb aclImdb.tar.xz "$n" "imdb_$n"
        cmp -s -- bin/dict.txt "authors_$n/input0/dict.txt" || linformer_data task tsv --from authors/train.tsv authors/valid.tsv \
            --tokenizer tokenizer --max-positions "$n" --cut head+tail --out "authors_$n"
        bag_of_words "imdb_$n" imdb "$data/aclImdb.tar.xz" --data "imdb_$n"
        bag_of_words "authors_$n" tsv authors/train.tsv authors/valid.tsv --data "authors_$n"
        for ((seed = 1; seed <= seeds; seed++)); do
            pretrain "roberta_n$n" small/roberta "$seed" "task.tokens_per_sample=$n"
            pretrain "linformer_n$n" small/linformer "$seed" "task.tokens_per_sample=$n" "model.projected_dim=${k[$n]}"
        done
        untrained "roberta_n$n" small/roberta "task.tokens_per_sample=$n"
        untrained "linformer_n$n" small/linformer "task.tokens_per_sample=$n" "model.projected_dim=${k[$n]}"
    done
    run_all "pretraining"
    for ((seed = 1; seed <= seeds; seed++)); do
        for n in 256 512 2048; do
            for model in {,untrained_}{roberta,linformer}; do
                finetune "${model}_n${n}_s$seed" imdb "$seed" "$finetune_updates" "$alike" "task.data=imdb_$n" \
                    "run.sentences_per_update=16 dataset.batch_size=16"
                finetune "${model}_n${n}_s$seed" authors "$seed" "$finetune_updates" "$alike" "task.data=authors_$n"
            done
        done
        # The Linformer for as many minutes as RoBERTa took for n = 2,048 (4.5 and 17.6; the Linformer's 1.2 and 2.7)
        longer imdb $((finetune_updates * 15 / 4)) "$alike run.sentences_per_update=16 dataset.batch_size=16"
        longer authors $((finetune_updates * 13 / 2)) "$alike"
    done
    run_all "finetuning"
}

plateau() {
    local model alike
    alike="run.precision=$(fast_precision) checkpoint.save_interval_updates=$((updates / 30 + 1))"
    prepare_task sst2 glue/SST-2 256
    prepare_task imdb aclImdb.tar.xz 256
    for model in roberta linformer; do for_seeds "$model" "small/$model" "$alike"; done
    run_all "pretraining"
    on_two_tasks "" 1e-3 "after long pretraining" roberta linformer
}

fast_precision() { # on processors without instructions for bf16, it is slower than fp32
    python -c 'from linformer_fairseq.files.processor import has_bfloat16; print("bf16" if has_bfloat16() else "fp32")'
}

released() {
    local model seed task precision at_a_time="$jobs" reviewed=linformer_small_batches_s1
    local -A tasks=([sst2]=glue/SST-2 [qnli]=glue/QNLI [qqp]=glue/QQP [imdb]=aclImdb_full.tar.xz)
    local -A rates=([sst2]=1e-4 [qnli]=3e-4 [qqp]=3e-4 [imdb]=3e-4) last=([sst2]=6300 [qnli]=1300 [qqp]=1100 [imdb]=1460)
    # SST-2 is learned within three epochs of 2,043 updates: the best checkpoint is looked for between their ends, too.
    local often="dataset.validate_interval_updates=500 checkpoint.save_interval_updates=500 checkpoint.keep_interval_updates=1"
    precision="$(fast_precision)"
    device+=" run.tokens_per_batch=4096"
    if python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
        precision=bf16 device="run_config=gpu dataset.num_workers=6" jobs=1 # for the pretraining
    fi
    for task in "${!tasks[@]}"; do prepare_task "$task" "${tasks[$task]}" 512; done
    [[ -f reviews.txt ]] || stoppable python -m scripts.reproduce_tools.reviews --from "$data/${tasks[imdb]}" --out reviews.txt
    linformer_data corpus --out reviews_text --valid-share 0.01 --workers "$jobs" reviews.txt
    linformer_data binarize --tokenizer tokenizer --out reviews --workers "$jobs" reviews_text
    schedule="optimization.max_update=$((updates * 6 / 7)) lr_scheduler.total_num_update=$((updates * 4454 / 3500))"
    schedule+=" lr_scheduler.warmup_updates=$((updates * 181 / 3500)) run.precision=$precision"
    for model in linformer roberta; do pretrain "${model}_blocks" "released/$model" 1; done
    for model in linformer roberta; do seeds=1 untrained "$model" "released/$model"; done
    run_all "pretraining on blocks"
    schedule="optimization.max_update=$((updates / 7)) lr_scheduler.warmup_updates=$((updates / 280)) run.precision=$precision"
    for model in linformer roberta; do
        pretrain "$model" "released/${model}_paragraphs" 1 "checkpoint.finetune_from_model=$runs/${model}_blocks_s1/checkpoint_last.pt"
    done
    run_all "pretraining on paragraphs"
    schedule="optimization.max_update=$((updates * 8 / 7)) lr_scheduler.warmup_updates=$((updates / 35)) run.precision=$precision"
    for model in linformer roberta; do
        pretrain "${model}_small_batches" "released/${model}_small_batches" 1 \
            "checkpoint.finetune_from_model=$runs/${model}_s1/checkpoint_last.pt"
    done
    run_all "pretraining on paragraphs in small batches"
    # The Linformer twice on film reviews: in the second run, the learning rate rises again, and other tokens are masked.
    schedule="optimization.max_update=$((updates * 10 / 7)) lr_scheduler.warmup_updates=$((updates / 35)) run.precision=$precision"
    corpus=reviews
    for ((seed = 1; seed <= 2; seed++)); do
        pretrain linformer_reviews released/linformer_reviews "$seed" "pretrained=$runs/$reviewed/checkpoint_best.pt"
        run_all "pretraining on film reviews, $seed of 2"
        reviewed="linformer_reviews_s$seed"
    done
    jobs="$at_a_time"
    finetuning+=" run.precision=$(fast_precision) run.sentences_per_update=32 dataset.batch_size=32"
    for task in "${!tasks[@]}"; do
        for ((seed = 1; seed <= seeds; seed++)); do
            for model in {linformer,roberta}_small_batches_s1 "$reviewed" untrained_{linformer,roberta}_s1; do
                [[ $model != untrained_* || $seed == 1 ]] || continue
                [[ $model != "$reviewed" || $task == sst2 || $task == imdb ]] || continue
                finetune "$model" "$task" "$seed" "${finetune_updates:-${last[$task]}}" "task.data=$task" \
                    "lr=${rates[$task]}" "$([[ $task != sst2 ]] || echo "$often")"
            done
        done
    done
    run_all "finetuning"
    rm -rf -- weights
    linformer checkpoint release "$runs/linformer_small_batches_s1/checkpoint_best.pt" --data bin --out weights/linformer-small
    linformer checkpoint release "$(most_accurate "$runs/$reviewed"/sst2_*)/checkpoint_best.pt" --data sst2 \
        --out weights/linformer-small-sst2
}

most_accurate() { # most_accurate RUN...: the finetuning with the highest validation accuracy
    local run
    for run in "$@"; do
        printf '%s\t%s\n' "$(sed -n 's/.*"valid_best_accuracy": "\([0-9.]*\)".*/\1/p' "$run/train.log" | tail -n 1)" "$run"
    done | LC_ALL=C sort -k 1,1nr -s | sed -n '1s/[^\t]*\t//p'
}

conversion() {
    local seed alike
    [[ -d converted ]] || linformer convert dense converted --projected-dim 16
    alike="task.tokens_per_sample=64 run.tokens_per_update=4096 run.tokens_per_batch=4096 run.precision=$(fast_precision)"
    alike+=" model.dropout=0 model.attention_dropout=0 optimization.clip_norm=1.0 lr_scheduler.total_num_update=$updates"
    alike+=" dataset.max_valid_steps=31 checkpoint.save_interval_updates=$((updates / 20 + 1))"
    for ((seed = 1; seed <= seeds; seed++)); do
        pretrain converted converted/linformer "$seed" pretrained=converted "$alike optimization.lr=[3e-4]"
        pretrain scratch released/linformer "$seed" model.projected_dim=16 model.sharing=layerwise model.kernel_strides=1 "$alike"
    done
    # The source: its perplexity after an update with almost no learning rate.
    schedule="optimization.max_update=1 optimization.lr=[1e-12] lr_scheduler.warmup_updates=0"
    pretrain source released/roberta 1 checkpoint.finetune_from_model=dense/model.pt "$alike"
    run_all "pretraining"
}

# ---- Run the study
case "$study" in
    projections | plateau) open_study glue/SST-2 aclImdb.tar.xz ;;
    length) open_study aclImdb.tar.xz corpus/books.list.tsv ;;
    released) open_study glue/{SST-2,QNLI,QQP} aclImdb_full.tar.xz ;;
    *) open_study ;;
esac
if [[ $study == conversion ]]; then
    [[ -d $out/dense ]] || python -m scripts.reproduce_tools.dense_small "$out/dense"
    prepare_text "$out/dense"
else
    prepare_text
fi
cd -- "$out"
runs="runs_$(text_id)_$updates${finetune_updates:+_$finetune_updates}"
"$study"
mkdir -p -- "$results"
rm -f -- {rows,drawn}.jsonl "$results"/perplexity.{md,png,svg}
linformer results collect "$runs" --out rows.jsonl
cp -- rows.jsonl "$results/runs.jsonl"
linformer results perplexity --runs rows.jsonl --out "$results/perplexity.md"
# A figure of all models of `projections` would not be readable; it has the kinds of attention only.
kinds="$([[ $study != projections ]] || echo '(roberta|default|paper|mean_pool|max_pool|performer|nystrom)_s')"
sed -nE "/\"name\": \"$kinds/p" rows.jsonl >drawn.jsonl
linformer results perplexity --runs drawn.jsonl --figure "$results" >/dev/null
if [[ $study != conversion ]]; then
    cp -- controls/*.json "$results"
    linformer results accuracy --runs rows.jsonl --controls controls/*.json --out "$results/accuracy.md"
fi
say "results are in $results"

#!/usr/bin/env bash
# Pretraining, finetuning on tasks and collecting results, as SLURM jobs that depend on each other. See usage() below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=../lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/common.sh"

usage() {
    cat <<'EOF'
usage: scripts/slurm/submit_chain.sh [OPTION...] experiment=NAME task.data=DIR [KEY=VALUE...]
                                     -- TASK=DIR [TASK=DIR...] [KEY=VALUE...]

Submits a pretraining (pretrain.sbatch); for each task an array of finetunings of its best checkpoint
(finetune_array.sbatch), once it has finished; and, once they have ended, a job that writes a row for each run to
results/runs.jsonl (`linformer results collect`). Prints the id of each job. TASK is the name of a config in
configs/task, such as sst2. The keys before -- are for the pretraining, those after it for every finetuning. Paths are
relative to the current folder.

  scripts/slurm/submit_chain.sh --all "--partition=gpu --account=nlp" --finetune --time=6:00:00 \
      experiment=linformer_base_n512_k128_layerwise task.data=work/bin -- sst2=work/sst2 qnli=work/qnli

  --nodes N             of the pretraining (default: 8)
  --tasks-per-node N    processes on each of them (default: 8)
  --gpus-per-node N     GPUs on each of them (default: one per process); 0, for a cluster without GPUs, also
                        applies to the finetunings; both then need the keys common.cpu=true and run.precision=fp32
  --all OPTIONS         options of sbatch for every job, as one quoted argument; they go before those set here, such as
                        --gpus-per-node, but for the number of processes and dependencies
  --pretrain OPTIONS    the same for the pretraining only
  --finetune OPTIONS    the same for the finetunings only
  --dry-run             only check, and print the commands
  --help                show this text

Configs, data, dictionaries and run folders of all jobs are checked before the first is queued; if a job cannot be
queued, those already queued are cancelled. If the pretraining fails, the finetunings are cancelled; existing results
are collected.

Environment variables: those of the two batch scripts, including LINFORMER_LRS and LINFORMER_SEEDS.
Exit status: 0 all jobs are queued; 1 none is, after an error message; 2 wrong usage.
EOF
}

refuse() { # refuse WHAT: wrong usage
    printf 'error: %s (see scripts/slurm/submit_chain.sh --help)\n' "$*" >&2
    exit 2
}

count() { (number "$@") || exit 2; } # as `number`, which exits with 1

nodes=8 tasks_per_node=8 gpus_per_node="" dry=0 all=() pretrain_options=() finetune_options=()
while (($#)); do
    case "$1" in
        --help | -h) usage && exit 0 ;;
        --dry-run) dry=1 && shift && continue ;;
        --nodes | --tasks-per-node | --gpus-per-node | --all | --pretrain | --finetune) ;;
        --) refuse "the keys of the pretraining come before --" ;;
        -*) refuse "unknown argument: $1" ;;
        *) break ;;
    esac
    (($# > 1)) || refuse "$1: expected a value"
    case "$1" in
        --nodes) count "$1" "$2" && nodes="$2" ;;
        --tasks-per-node) count "$1" "$2" && tasks_per_node="$2" ;;
        --gpus-per-node) [[ $2 == 0 ]] || count "$1" "$2" && gpus_per_node="$2" ;;
        --all) read -ra all <<<"$2" ;;
        --pretrain) read -ra pretrain_options <<<"$2" ;;
        --finetune) read -ra finetune_options <<<"$2" ;;
    esac
    shift 2
done
given=() # what the jobs are to find in their environment
for name in LINFORMER_{LRS,SEEDS,ROOT,PYTHON,MAX_REQUEUES}; do
    [[ -z ${!name+set} ]] || given+=("$name=${!name}")
done
check_export() { # check_export OPTION NAMES: of those that SLURM passes on to a job
    local one
    for one in "${given[@]%%=*}"; do
        [[ ,${2^^}, == *,ALL,* || ,$2, == *,${one}[,=]* ]] ||
            refuse "$1: $one would not reach the jobs, which then take its default; add it to the names, or use ALL"
    done
}
for word in "${all[@]}" "${pretrain_options[@]}" "${finetune_options[@]}"; do
    case "$word" in
        --nodes | --nodes=* | -N* | --ntasks* | -n*)
            refuse "$word: options of sbatch cannot change the number of processes; give --nodes and --tasks-per-node"
            ;;
        --dependency | --dependency=* | -d*) refuse "$word: the dependencies of the jobs are set here" ;;
        --test-only) refuse "$word: nothing can depend on a job that is not queued; use --dry-run" ;;
        --export) refuse "--export: write it with its value, as --export=ALL" ;;
        --export=*) check_export "$word" "${word#*=}" ;;
    esac
done
[[ -z ${SBATCH_EXPORT:-} || " ${all[*]}" == *" --export="* ]] || check_export "SBATCH_EXPORT=$SBATCH_EXPORT" "$SBATCH_EXPORT"
: "${gpus_per_node:=$tasks_per_node}"
finetune_gpus=$((gpus_per_node > 0))

pretrain_keys=() tasks=() finetune_keys=()
while (($#)) && [[ $1 != -- ]]; do pretrain_keys+=("$1") && shift; done
(($#)) || refuse "expected -- and the tasks to finetune on after it, as in: -- sst2=work/sst2"
shift
for word in "$@"; do
    [[ $word == *=* || $word == \~* ]] || refuse "$word behind --: expected TASK=DIR, or a key of the finetunings as KEY=VALUE"
    name="${word%%=*}"
    if [[ $word == *=* && -f $repo/configs/task/$name.yaml ]]; then tasks+=("$word"); else finetune_keys+=("$word"); fi
done
((${#tasks[@]})) || refuse "expected a task behind --, as in: -- sst2=work/sst2"

check_grid_keys "${finetune_keys[@]}"
export LINFORMER_LRS="${LINFORMER_LRS:-1e-5 2e-5 3e-5}" LINFORMER_SEEDS="${LINFORMER_SEEDS:-1 2 3 4 5}"
read -ra rates <<<"$LINFORMER_LRS"
read -ra seeds <<<"$LINFORMER_SEEDS"
((${#rates[@]})) || refuse "LINFORMER_LRS='$LINFORMER_LRS': expected learning rates with blanks between them"
((${#seeds[@]})) || refuse "LINFORMER_SEEDS='$LINFORMER_SEEDS': expected seeds with blanks between them"
find_python
((dry)) || command -v sbatch >/dev/null || die "sbatch: no such program; run this on a machine that submits to SLURM"
checked="$("${python[@]}" "$repo/scripts/slurm/check_chain.py" "$((nodes * tasks_per_node))" "$gpus_per_node" \
    "${pretrain_keys[@]}" -- "${tasks[@]}" -- "${finetune_keys[@]}")" || exit 1
mapfile -t folders <<<"$checked"
start="${folders[0]}" folders=("${folders[@]:1}")

queued=()
take_back() {
    ((!${#queued[@]})) || scancel "${queued[@]}"
    die "a job could not be queued; those before it were taken back"
}

submit() { # submit WORD...: sets $job to the id of the queued job
    if ((dry)); then
        show ${given:+env "${given[@]}"} sbatch "$@"
        job="JOB$((${#queued[@]} + 1))"
    else
        job="$(sbatch --parsable "$@")" || take_back
        job="${job%%;*}" # with several clusters, the cluster's name follows the id
    fi
    queued+=("$job")
}

report() { ((dry)) || printf '%-16s %s\n' "$1" "$2"; }

# Of options given twice, sbatch takes the last: the user's are behind ours.
submit --nodes="$nodes" --ntasks-per-node="$tasks_per_node" --gpus-per-node="$gpus_per_node" \
    "${all[@]}" "${pretrain_options[@]}" "$repo/scripts/slurm/pretrain.sbatch" "${pretrain_keys[@]}"
pretraining="$job"
report pretrain "$job"
after=""
for task in "${tasks[@]}"; do
    name="${task%%=*}"
    submit --array="0-$((${#rates[@]} * ${#seeds[@]} - 1))" --job-name="finetune-$name" \
        --gpus-per-node="$finetune_gpus" "${all[@]}" "${finetune_options[@]}" \
        --dependency="afterok:$pretraining" --kill-on-invalid-dep=yes \
        "$repo/scripts/slurm/finetune_array.sbatch" "task=$name" "task.data=${task#*=}" "$start" \
        "${finetune_keys[@]}"
    report "finetune-$name" "$job"
    after+=":$job"
done
collect="$(single_quoted env PYTHONSAFEPATH=1 "${python[@]}" -m linformer_fairseq.cli results collect "${folders[@]}")"
# SLURM does not create logs, and the job would fail without a message; folders of finetunings that never began are collected, too
((dry)) || mkdir -p logs "${folders[@]:1}"
submit "${all[@]}" --job-name=collect --dependency="afterany$after" --ntasks=1 --time=30 --output=logs/%x-%j.out \
    --wrap="$collect"
report collect "$job"

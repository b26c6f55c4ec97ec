# shellcheck shell=bash
# Common to the batch scripts: the program to run, and how a job continues after it was stopped. Sourced inside a job by
# a script that has found the repository and has set `id`, the job's id in SLURM, and `tasks`, the folder for the output
# of its tasks.

# shellcheck source-path=SCRIPTDIR source=../lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/../lib/common.sh"

: "${id:?}" "${tasks:?}"

readonly saved=85 # exit status of `linformer`: stopped by a signal, and a checkpoint was saved
readonly most_requeues="${LINFORMER_MAX_REQUEUES:-100}"
readonly most_early_stops=3

run_linformer() { # run_linformer COMMAND...: runs it as the job's only step, and exits with its status
    local python
    find_python
    set_environment
    run_step "${python[@]}" -m linformer_fairseq.cli "$@"
}

set_environment() {
    # NCCL is silent by default: WARN names the cause of a failure. With error handling, a collective that fails or
    # times out ends its process, so that the job ends instead of hanging. The network interface that NCCL uses
    # (NCCL_SOCKET_IFNAME) differs from cluster to cluster and is left to the user.
    export NCCL_DEBUG="${NCCL_DEBUG:-WARN}"
    export TORCH_NCCL_ASYNC_ERROR_HANDLING="${TORCH_NCCL_ASYNC_ERROR_HANDLING:-1}"
    # Modules come from the environment alone, not from the folder of the submission.
    export PYTHONSAFEPATH=1
    # By default each process would use as many threads as the node has cores.
    export OMP_NUM_THREADS="${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}"
}

# Sends USR1 to the step, repeatedly while it runs: a step that is just starting does not receive it. The repetition
# must not outlive the step: it would stop the next one of the same job.
tell_step() {
    if ((telling)); then
        kill "$telling" 2>/dev/null || true
    else
        say "SIGUSR1: the time limit is near, or another job needs the nodes; the run is told to save and stop"
    fi
    timeout 10 scancel --signal=USR1 "$id.0" || true
    (sleep 15 && kill -USR1 $$) &
    telling=$!
}

# Runs the command as the job's only step, and exits with its status. A run that was stopped after saving a checkpoint
# is requeued, and so is one that was told to stop before it could; SLURM does that by itself if a node fails or the job
# is requeued by others, but not at the time limit.
run_step() { # run_step COMMAND...
    local pid status=0 started="$tasks/started"
    telling=0
    rm -f "$started"
    say "job $id on $SLURM_JOB_NODELIST: $SLURM_NTASKS tasks, restart ${SLURM_RESTART_COUNT:-0}; their output: $tasks"
    show "$@" >&2
    trap tell_step USR1
    # srun ends with 0, too, if it could not start its tasks, such as in a folder that a node does not have: the first
    # one leaves a mark. Since SLURM 22.05, srun does not inherit sbatch's --cpus-per-task.
    # shellcheck disable=SC2016 # of the inner shell
    srun --kill-on-bad-exit=1 ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \
        --open-mode=append --output="$tasks/%t.out" \
        bash -c '((SLURM_PROCID)) || : >"$0"; exec "$@"' "$started" "$@" &
    pid=$!
    # A signal interrupts `wait`; after the step has ended, each `wait` returns the step's status.
    while wait "$pid" || status=$?; kill -0 "$pid" 2>/dev/null; do :; done
    status=0
    wait "$pid" || status=$?
    trap '' USR1
    ((!telling)) || kill "$telling" 2>/dev/null || true
    if ((status == saved)); then
        rm -f "$tasks/early-stops"
        requeue "the run was stopped and has saved a checkpoint"
    elif ((telling && (status == 128 + 10 || status == 128 + 15))) || { ((status == 128 + 15)) && preempted; }; then
        note_early_stop
        requeue "the run was stopped before it could save anything new"
    fi
    ((status)) || [[ -f $started ]] ||
        die "the tasks were not started; if nothing above says why, look into the log of slurmd"
    rm -f "$started"
    ((status == 0)) || say "the step ended with status $status; see above, and the tasks' own output in $tasks"
    exit "$status"
}

# Whether another job needs the nodes. Many clusters do not announce this by the signal that the job asked for: they send
# SIGTERM to the step alone, and requeue the job only if it has not ended by itself before its time of grace is over.
preempted() {
    [[ "$(scontrol show job "$id")" =~ PreemptTime=[^N] ]] # None, if it was not
}

note_early_stop() { # prevents endless requeues if the time limit is too short for a run to begin
    local stops=1
    [[ ! -f $tasks/early-stops ]] || stops=$(($(<"$tasks/early-stops") + 1))
    ((stops < most_early_stops)) ||
        die "told to stop $stops times in a row before the run could save anything: the time limit is too short for it to begin"
    printf '%s\n' "$stops" >"$tasks/early-stops"
}

requeue() { # requeue WHY
    local restarts="${SLURM_RESTART_COUNT:-0}"
    ((restarts < most_requeues)) ||
        die "$1, but this job has been restarted $restarts times, the most that LINFORMER_MAX_REQUEUES allows; submit it again to continue"
    say "$1; the job is requeued and goes on from there"
    scontrol requeue "$id" || die "the job could not be requeued; submit it again to continue"
    exit "$saved"
}

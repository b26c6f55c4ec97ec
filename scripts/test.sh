#!/usr/bin/env bash
# Sets up the environment, then lints, checks types and runs the tests. See usage() below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

usage() {
    cat <<'EOF'
usage: scripts/test.sh [--fast] [--help] [-- PYTEST_ARGUMENT...]

Sets up .venv (scripts/setup.sh), then runs ruff, mypy, shellcheck and pytest (in one process more than there are
cores, up to four; -- -n 0 for a single one). All of them run, even if one fails; the exit status is that of the
first that failed, or 0 if none did.

  --fast    skip the tests marked slow
  --        pass the following arguments to pytest, as in: scripts/test.sh --fast -- tests/core -k padding

Environment variables:
  LINFORMER_DATA   folder with real data for the tests that need it; they are skipped without it
  PYTHON           interpreter to use, see scripts/setup.sh --help
EOF
}

pytest_arguments=()
while (($# > 0)); do
    case "$1" in
    --fast) pytest_arguments+=(-m "not slow") ;;
    --help | -h) usage && exit 0 ;;
    --) shift && pytest_arguments+=("$@") && break ;;
    *) usage >&2 && die "unknown argument: $1 (arguments of pytest come after --)" ;;
    esac
    shift
done

"$repo/scripts/setup.sh"
cd -- "$repo"
export PATH="$venv/bin:$PATH"

status=0
failed=()
check() { # check NAME COMMAND...
    local rc=0
    say "$1"
    "${@:2}" || rc=$?
    ((rc == 0)) && return
    failed+=("$1 (exit status $rc)")
    ((status != 0)) || status=$rc
}

mapfile -d '' -t shell_scripts < <(find scripts \( -name '*.sh' -o -name '*.sbatch' \) -print0 && printf '.ci/run\0')
check "ruff check" ruff check .
check "ruff format" ruff format --check .
check "mypy" mypy
if command -v shellcheck >/dev/null; then
    check "shellcheck" shellcheck --external-sources "${shell_scripts[@]}"
else
    say "shellcheck: skipped, because it is not installed"
fi
# One thread in each process, and one process more than there are cores: tests of SLURM, of interruptions and of locks
# wait for most of their time. A file's tests stay in one process, for its fixtures, in the order of the files. They start
# hundreds of programs, which read the bytecode that the first one writes, also where the environment turns that off.
processes=$(($(nproc) + 1))
check "pytest" env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" python -m pytest \
    --numprocesses "$((processes < 4 ? processes : 4))" --dist loadfile --no-loadscope-reorder "${pytest_arguments[@]}"

((status == 0)) || printf 'failed: %s\n' "${failed[@]}" >&2
exit "$status"

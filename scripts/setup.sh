#!/usr/bin/env bash
# Creates the Python environment .venv in the repository root, with pip and the versions of constraints.txt.
# If it is complete, a second call returns at once. See usage() below.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=lib/prerequisites.sh
source "$repo/scripts/lib/prerequisites.sh"

usage() {
    cat <<EOF
usage: scripts/setup.sh [--check] [--help]

Creates .venv in the repository root. The first time this takes a few minutes, mostly for compiling fairseq;
afterwards it returns within a second as long as nothing it depends on has changed.

  --check   only check whether the machine has what set-up needs; download nothing
  --help    show this text

Environment variables:
  PYTHON    interpreter to use (Python $supported_pythons); otherwise that of an existing .venv, python3,
            python3.11, python3.12 and python3.13 are tried in this order
  PIP_*     variables of pip, whose configuration determines where packages come from: to get the CPU build of
            torch, much smaller than the CUDA build on PyPI, set PIP_EXTRA_INDEX_URL to PyTorch's CPU package
            index (its address is on PyTorch's "Get started" page)
EOF
}

stamp="$venv/linformer-setup-complete" # written last: without it, the environment is incomplete

# A hash of what the environment depends on. This includes its path, because environments cannot be moved.
fingerprint() {
    {
        printf '%s\n' "$repo" "$1"
        cat -- "$repo/constraints.txt" "$repo/pyproject.toml" "$repo/scripts/setup.sh"
    } | sha256sum | cut -d' ' -f1
}

is_complete() { # if PYTHON is not set, any Python of the environment is accepted
    local version
    [[ -f $stamp ]] || return 1
    version="$(python_version "$venv/bin/python")"
    [[ -n $version && "$(<"$stamp")" == "$(fingerprint "$version")" ]] || return 1
    [[ -z ${PYTHON:-} || "$(python_version "$PYTHON")" == "$version" ]]
}

# The CUDA build of torch is several times the size of the CPU build. Which one is installed depends on pip's
# configuration, so pip is asked, but only if there is too little disk space for the larger one.
check_disk_for_torch() {
    (($(free_gib "$repo") >= disk_cuda && $(free_gib "${TMPDIR:-/tmp}") >= disk_tmp_cuda)) && return
    local report
    say "little disk space is free: asking pip which build of torch it would install"
    if ! report="$(pip install --quiet --dry-run --ignore-installed --report - torch)"; then
        warn "pip did not answer; continuing, although the CUDA build would need $disk_cuda GiB"
    elif grep -q '"name": "nvidia-' <<<"$report"; then
        check_disk "$disk_cuda" "$disk_tmp_cuda" CUDA
        stop_if_missing
    fi
}

pip() { "$venv/bin/python" -m pip --disable-pip-version-check "$@"; }
install() { pip install --constraint "$repo/constraints.txt" "$@"; }

make_venv() {
    # A complete environment can be updated; any other is created anew, because pip regards a partly installed
    # package as installed.
    if [[ -f $stamp && "$(python_version "$venv/bin/python")" == "$python_found" &&
        "$(cat -- "$venv/linformer-setup-path" 2>/dev/null)" == "$repo" ]]; then
        say "updating $venv (Python $python_found)"
    else
        [[ ! -L $venv ]] || die "$venv is a link to another folder, which set-up would empty: remove the link"
        say "creating $venv (Python $python_found)"
        "$python" -m venv --clear "$venv"
    fi
    rm -f -- "$stamp"
    printf '%s\n' "$repo" >"$venv/linformer-setup-path"
}

# fairseq-fixed requires torchaudio for its speech tasks, and PyPI's build of it loads only with PyPI's CUDA build of
# torch. One that does not load is worse than none: packages that find it, such as transformers, import it and fail.
remove_broken_torchaudio() {
    "$venv/bin/python" -c 'import torchaudio' 2>/dev/null && return
    say "taking out torchaudio, which does not load with this torch (only fairseq's speech tasks use it)"
    pip uninstall --yes --quiet torchaudio
}

# The only complaint of pip that is expected is that fairseq-fixed lacks torchaudio.
check_requirements() {
    local complaints
    complaints="$(pip check)" && return
    if grep --invert-match '^fairseq-fixed .* requires torchaudio, which is not installed\.$' <<<"$complaints" >&2; then
        return 1
    fi
}

install_everything() {
    local started=$SECONDS
    check_disk_for_torch
    say "1/3 torch and the build tools"
    install pip
    install setuptools wheel hatchling cython numpy torch
    # fairseq is built against the torch just installed. In pip's isolated build environment it would be built
    # against a second torch, downloaded only for that. With CUDA_HOME, fairseq would compile CUDA kernels that
    # nothing here uses, with any nvcc that it finds. Symbols for a debugger, which Python's own flags ask for, would
    # take almost half of the time (CFLAGS replaces these flags).
    say "2/3 fairseq (compiled if there is no wheel of it: about two minutes with little output)"
    local flags
    flags="$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_config_var("CFLAGS"), "-g0")') ${CFLAGS:-}"
    env -u CUDA_HOME CFLAGS="$flags" "$venv/bin/python" -m pip --disable-pip-version-check install \
        --constraint "$repo/constraints.txt" --no-build-isolation fairseq-fixed
    say "3/3 everything else, and linformer-fairseq itself"
    (cd -- "$repo" && install --no-build-isolation --editable '.[dev]')
    remove_broken_torchaudio
    check_requirements
    say "finished in $((SECONDS - started)) s"
}

(($# < 2)) || die "$*: expected one argument at most"
case "${1:-}" in
--help | -h) usage && exit 0 ;;
--check) check_prerequisites && say "nothing is missing (Python $python_found)" && exit 0 ;;
"") ;;
*) usage >&2 && die "unknown argument: $1" ;;
esac

# Settings of the caller that would make pip use another environment or install into it.
unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX
export PIP_USER=0

if is_complete; then exit 0; fi
check_prerequisites

# Of two calls at the same time, the second waits, and then finds the environment complete.
exec 9>"$repo/.venv.lock"
if ! flock --nonblock 9; then
    say "another set-up is running here; waiting for it"
    flock 9
fi
if is_complete; then exit 0; fi
trap '[[ -f $stamp ]] || warn "set-up did not finish. Run it again: it starts afresh, with what pip has downloaded so far."' EXIT
make_venv
install_everything
fingerprint "$python_found" >"$stamp.tmp"
mv -- "$stamp.tmp" "$stamp"

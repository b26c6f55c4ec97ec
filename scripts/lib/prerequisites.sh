# shellcheck shell=bash
# Checks what the machine must have before set-up may download anything. Sourced by setup.sh, after common.sh.
#
# Each check_* adds a sentence and the command that fixes the problem to the list `missing`, so that all problems are
# reported at once instead of one per attempt.
#
# `repo` comes from common.sh, and setup.sh uses what is set here:
# shellcheck disable=SC2154,SC2034

readonly supported_pythons="3.11, 3.12 or 3.13"
# GiB for .venv together with pip's cache of downloads, measured and rounded up.
readonly disk_cpu=4 disk_cuda=14
# GiB that pip needs in the temporary folder while it unpacks and builds.
readonly disk_tmp_cpu=1 disk_tmp_cuda=4

missing=()

need() { # need "what is wrong" "command that fixes it"
    missing+=("$1"$'\n'"      fix it with:  $2")
}

python_version() { # python_version INTERPRETER: "3.11.7", or nothing if it does not start or is not CPython
    "$1" -c 'import sys
if sys.implementation.name == "cpython":
    print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null || true
}

is_supported() { [[ $1 =~ ^3\.(11|12|13)\. ]]; }

find_base_python() { # sets `python` (empty: none is supported) and `python_found` (the versions found, for the message)
    local candidate version
    python="" python_found=""
    # The user's choice is used or refused, never silently replaced by another interpreter. Without one, the
    # interpreter of an existing environment is tried first.
    local -a candidates=(python3 python3.11 python3.12 python3.13)
    if [[ -n ${PYTHON:-} ]]; then
        candidates=("$PYTHON")
    elif [[ -n "$(python_version "$venv/bin/python")" ]]; then
        candidates=("$("$venv/bin/python" -c 'import sys; print(sys._base_executable)')" "${candidates[@]}")
    fi
    for candidate in "${candidates[@]}"; do
        version="$(python_version "$candidate")"
        if is_supported "$version"; then
            python="$(command -v -- "$candidate")"
            python_found="$version"
            return
        fi
        python_found+="${python_found:+, }$candidate is ${version:-not a CPython that starts}"
    done
}

debian_package() { # debian_package venv|dev: the package of that kind for the chosen interpreter
    local minor="${python_found%.*}"
    if [[ "$(python_version /usr/bin/python3)" == "$minor".* ]]; then
        echo "python3-$1"
    else
        echo "python$minor-$1"
    fi
}

check_linux() {
    [[ "$(uname -s)" == Linux ]] ||
        need "this is $(uname -s); only Linux is supported" "use a Linux machine, virtual machine or container"
}

check_python() {
    [[ -n $python ]] && return
    need "Python $supported_pythons is needed: $python_found" \
        "sudo apt-get install python3 python3-venv python3-dev   (or name an interpreter: PYTHON=/path/to/python3.12)"
}

check_venv_module() {
    [[ -z $python ]] && return
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        need "$python has no working venv and ensurepip modules" "sudo apt-get install $(debian_package venv)"
}

check_headers() {
    local header
    [[ -z $python ]] && return
    header="$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"] + "/Python.h")')"
    [[ -f $header ]] ||
        need "the Python headers are missing: no $header" "sudo apt-get install $(debian_package dev)"
}

check_compiler() {
    local words
    read -ra words <<<"${CXX:-g++}" # such as "ccache g++"
    command -v "${words[0]}" >/dev/null ||
        need "no C++ compiler: ${CXX:-g++} is not on the PATH (fairseq is compiled during set-up)" \
            "sudo apt-get install g++"
}

check_flock() {
    command -v flock >/dev/null ||
        need "the flock program is missing" "sudo apt-get install util-linux"
}

free_gib() { df -Pk -- "$1" | awk 'NR == 2 { printf "%d\n", $4 / 1048576 }'; }

check_disk() { # check_disk GIB_FOR_VENV GIB_FOR_TEMPORARY_FILES BUILD_OF_TORCH
    local free
    free="$(free_gib "$repo")"
    ((free >= $1)) ||
        need "not enough disk for $repo: $free GiB free, $1 GiB needed with the $3 build of torch" \
            "df -h '$repo'   (then free some space, or move the repository to a larger disk)"
    if [[ ! -d ${TMPDIR:-/tmp} || ! -w ${TMPDIR:-/tmp} ]]; then
        need "TMPDIR=${TMPDIR:-/tmp}: no folder that can be written to" "export TMPDIR=/tmp"
        return
    fi
    free="$(free_gib "${TMPDIR:-/tmp}")"
    ((free >= $2)) ||
        need "not enough disk for temporary files in ${TMPDIR:-/tmp}: $free GiB free, $2 GiB needed" \
            "mkdir -p '$repo/../tmp' && export TMPDIR='$repo/../tmp'   (or any folder on a larger disk)"
}

stop_if_missing() {
    ((${#missing[@]} == 0)) && return
    printf 'error: set-up cannot start; nothing was downloaded.\n' >&2
    printf '  - %s\n' "${missing[@]}" >&2
    exit 1
}

check_prerequisites() {
    find_base_python
    check_linux
    check_python
    check_venv_module
    check_headers
    check_compiler
    check_flock
    # The least that any build of torch needs; setup.sh asks pip for the build if there is not enough for all.
    check_disk "$disk_cpu" "$disk_tmp_cpu" CPU
    stop_if_missing
}

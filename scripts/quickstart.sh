#!/usr/bin/env bash
# From a clone to a pretrained, finetuned and evaluated Linformer, compared with a RoBERTa of the same size and with the
# model that comes with the package.
# See usage() below. Each step is a program that can be used on its own; its command is printed before it runs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source-path=SCRIPTDIR source=quickstart_tools/steps.sh
source "$repo/scripts/quickstart_tools/steps.sh"

vocab_size=4000 updates=1600 finetune_updates=800
shipped=linformer-small
shipped_folder="linformer_fairseq/weights/$shipped" # in the repository
duration="about 10 minutes on two idle cores with AVX-512, and 20 on two without"

usage() {
    cat <<EOF
usage: scripts/quickstart.sh [--text FILE...] [--out DIR] [options]

Sets up .venv, then: builds train and valid text, trains a sentencepiece model, binarizes, pretrains a small
Linformer and a RoBERTa of the same size, and finetunes both on a classification task. Then it finetunes
$shipped, which comes with the package, on the same task, prints a table, and fills masks.
The text is part of every CPython: pydoc_data.topics and the docstrings of the standard library. The task is
to predict which package of the standard library a docstring belongs to. Nothing but PyPI packages is
downloaded. After set-up it takes $duration.

It can be stopped with Ctrl-C or SIGTERM at any time: the same command continues where it stopped. Finished
steps are not repeated unless their input, options or program changed.

  --text FILE...       pretrain on your own UTF-8 text instead; documents are separated by blank lines. The
                       classification task remains that of the standard library
  --out DIR            folder for all output (default: quickstart/ in the repository root)
  --vocab-size N       vocabulary size of the sentencepiece model (default: $vocab_size)
  --updates N          pretraining updates (default: $updates)
  --finetune-updates N finetuning updates (default: $finetune_updates)
  --venv DIR           use this environment as it is instead of setting up .venv
  --help               show this text

Exit status: 0 all models learned; 1 a step failed, or a model did not learn; 130 stopped by Ctrl-C
(143 by SIGTERM, 129 by SIGHUP).
EOF
}

text=() output="" environment=""
while (($#)); do
    option="$1"
    shift
    case "$option" in
        --help | -h) usage && exit 0 ;;
        --text)
            while (($#)) && [[ $1 != --* ]]; do
                [[ -n $1 ]] || die "--text: one of the paths is empty"
                text+=("$(realpath -m -- "$1")")
                shift
            done
            ((${#text[@]})) || die "--text: expected one file or more"
            continue
            ;;
        --out | --venv | --vocab-size | --updates | --finetune-updates) ;;
        *) die "unknown argument: $option (see scripts/quickstart.sh --help)" ;;
    esac
    [[ -n ${1:-} ]] || die "$option: expected a value"
    case "$option" in
        --out) output="$(realpath -m -- "$1")" ;;
        --venv) environment="$(realpath -ms -- "$1")" ;;
        --vocab-size) number "$option" "$1" && vocab_size="$1" ;;
        --updates) number "$option" "$1" && updates="$1" ;;
        --finetune-updates) number "$option" "$1" && finetune_updates="$1" ;;
    esac
    shift
done
for file in "${text[@]}"; do
    [[ -f $file && -r $file ]] || die "--text $file: no such file, or not readable"
done

[[ -z $environment ]] || for program in fairseq-train linformer; do
    [[ -x $environment/bin/$program ]] || die "$environment: no environment with fairseq and this project (no bin/$program)"
done

open_output "${output:-$repo/quickstart}"
for file in "${text[@]}"; do # a step empties its folder before it is done again
    [[ $file != "$out"/* ]] || die "--text $file: is in the output folder $out; move it to another one"
done

steps=12
[[ -f $repo/$shipped_folder/model.safetensors ]] || steps=10
printf '%d steps; after set-up, with the default options, they take %s.\n' "$steps" "$duration"

if [[ -z $environment ]]; then
    stoppable "$repo/scripts/setup.sh"
    environment="$venv"
fi
PATH="$environment/bin:$PATH"
# Waiting threads must not spin: with one of two cores busy, spinning made training 5 times slower.
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}"
cd "$repo" # so that python -m finds the programs outside the package

# All files of a package, because the files that a step uses change with the code.
mapfile -d '' -t data_code < <(find data_prep linformer_fairseq/files -name '*.py' -print0 | sort -z)
mapfile -d '' -t model_code < <(find linformer_fairseq -name '*.py' -print0 | sort -z)
tools=(scripts/quickstart_tools/*.py "${data_code[@]}" "${model_code[@]}")

# ---- 1 to 3: text, tokenizer, fairseq's binary format. Duplicate paragraphs are removed, not only duplicate documents:
# a manual repeats sections in longer ones, and the same passage in both splits would make the perplexity too low.
sources=("${text[@]/%/,format=text,lines=join}")
step text "text${text[*]:+ of your own}" "${text[@]}" "${data_code[@]}" -- \
    linformer data corpus --out "$out/text" --deduplicate paragraphs --valid-share 0.06 "${sources[@]:-stdlib}"
step task_text "labelled text: which package does a docstring belong to?" "${data_code[@]}" -- \
    python -m data_prep.stdlib_packages --out "$out/task_text"
step tokenizer "sentencepiece model" "$out"/text/train/*.txt "${data_code[@]}" -- \
    linformer data vocabulary --vocab-size "$vocab_size" --out "$out/tokenizer" "$out/text"
step bin "text to fairseq's binary format" "$out"/text/*/*.txt "$out"/tokenizer/* "${data_code[@]}" -- \
    linformer data binarize --tokenizer "$out/tokenizer" --out "$out/bin" "$out/text"
task_step() { # task_step NAME TITLE TOKENIZER: docstrings are truncated to 96 pieces, to save time
    step "$1" "$2" "$out"/task_text/*.tsv "$3"/* "${data_code[@]}" -- \
        linformer data task tsv --from "$out/task_text/train.tsv" "$out/task_text/valid.tsv" \
        --tokenizer "$3" --max-positions 96 --strict --out "$out/$1"
}
task_step task_bin "labelled text to fairseq's binary format" "$out/tokenizer"

# ---- 4: pretraining. The two commands differ only in the architecture; the sizes are those of
# configs/model/linformer_mini.yaml and roberta_mini.yaml. With the default --required-batch-size-multiple of 8, fairseq
# drops the last sentences in validation if they do not fill a batch. In such a short training, many small updates are
# better than few large ones, pre-norm layers allow the high learning rate, and dropout does not pay off.
warmup=$((updates / 10 + 1)) save_every=$((updates > 200 ? updates / 20 : 10)) log_every=$((updates > 200 ? 20 : 10))
pretrain() { # pretrain NAME TITLE ARCHITECTURE OPTION...
    local name="$1" title="$2"
    shift 2
    training_step "pretrain_$name" "pretrain $title" "$updates" "$out"/bin/* "${model_code[@]}" -- \
        fairseq-train "$out/bin" --user-dir "$repo/linformer_fairseq" --task masked_lm --criterion masked_lm \
        --arch "$@" --encoder-layers 2 --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 \
        --encoder-attention-heads 4 --encoder-normalize-before --dropout 0 --attention-dropout 0 \
        --tokens-per-sample 256 --sample-break-mode none --batch-size 8 --required-batch-size-multiple 1 --num-workers 0 \
        --optimizer adam --adam-betas '(0.9,0.98)' --adam-eps 1e-6 --weight-decay 0.01 --clip-norm 1.0 \
        --lr 1e-3 --lr-scheduler polynomial_decay --warmup-updates "$warmup" --total-num-update "$updates" \
        --max-update "$updates" --seed 1 --distributed-world-size 1 \
        --save-dir "$out/pretrain_$name" --save-interval-updates "$save_every" --keep-interval-updates 1 \
        --no-epoch-checkpoints --log-format json --log-interval "$log_every" --log-file "$out/pretrain_$name/train.log"
}
pretrain linformer "Linformer (n = 256, k = 64)" linformer_roberta_small --projected-dim 64 --sharing layerwise
pretrain roberta "RoBERTa of the same size" roberta

# ---- 5: finetuning, with a config
device=cpu
! python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' || device=gpu
finetune() { # finetune NAME TITLE PRETRAINED WEIGHTS DATA UPDATES OVERRIDE...: WEIGHTS is PRETRAINED's file
    local name="$1" title="$2" pretrained="$3" weights="$4" data="$5" updates="$6"
    shift 6
    training_step "finetune_$name" "finetune $title" "$updates" "$weights" \
        "$data"/*/* configs/finetuning.yaml configs/task/stdlib_package.yaml "configs/run_config/$device.yaml" \
        "${model_code[@]}" -- \
        linformer finetune task=stdlib_package "run_config=$device" "task.data=$(quoted "$data")" \
        "pretrained=$(quoted "$pretrained")" "optimization.max_update=$updates" \
        "lr_scheduler.warmup_updates=$((updates / 20))" "$@" "checkpoint.save_dir=$(quoted "$out/finetune_$name")"
}
finetune_own() { # finetune_own NAME TITLE
    local best="$out/pretrain_$1/checkpoint_best.pt"
    finetune "$1" "$2" "$best" "$best" "$out/task_bin" "$finetune_updates"
}
finetune_own linformer Linformer
finetune_own roberta RoBERTa

# ---- 6: the model that comes with the package, on the same docstrings with its own vocabulary. It has 6 layers x 256,
# so that an update and a validation take longer: it is validated less often.
report_options=() report_inputs=()
if [[ -f $shipped_folder/model.safetensors ]]; then
    task_step task_bin_shipped "labelled text in the pieces of $shipped" "$shipped_folder"
    finetune shipped "$shipped" "$shipped" "$shipped_folder/model.safetensors" "$out/task_bin_shipped" \
        "$finetune_updates" checkpoint.save_interval_updates=100
    report_options=(--shipped "$shipped")
    report_inputs=("$shipped_folder"/* "$out/finetune_shipped/checkpoint_last.pt")
else
    warn "left out $shipped, the model that comes with the package: no $shipped_folder/model.safetensors"
fi

# ---- 7: one table, one figure, filled masks
step report "evaluate and compare" "$out"/{pretrain,finetune}_{linformer,roberta}/checkpoint_last.pt \
    "$out"/task_text/stats.json "${report_inputs[@]}" "${tools[@]}" -- \
    python -m scripts.quickstart_tools.report --run "$out" "${report_options[@]}"
((!skipped)) || cat -- "$out/report/report.md"

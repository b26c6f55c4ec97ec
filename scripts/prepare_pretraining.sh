#!/usr/bin/env bash
# From sources of text to what fairseq's masked_lm task reads: corpus, tokenizer, binary data. See usage() below.
# Thin: each step is a program of data_prep that can be used alone, and its command is printed before it runs.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=lib/common.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/common.sh"

usage() {
    cat <<'EOF'
usage: scripts/prepare_pretraining.sh --out DIR [options] [SOURCE...]

Makes DIR/text (documents, cleaned and split), DIR/tokenizer and DIR/bin, the folder to train on. Without a
SOURCE it takes the paper's corpus from the Hugging Face hub: BookCorpus and English Wikipedia, 3.3 billion words.
Sources of your own are files, folders and globs; `python -m data_prep.build_corpus --help` tells all they can be.

Stop it whenever you like: the same command carries on where it stopped, and does nothing where all is done.

  --out DIR              folder for everything that is made
  --tokenizer T          sentencepiece: train one on the corpus (default); gpt2: RoBERTa's GPT-2 BPE, from the hub;
                         or a folder that holds a tokenizer
  --vocab-size N         pieces of the sentencepiece model, 400 to 64000 (default: 32000)
  --valid-share S        share of the documents held out for validation (default: 0.01)
  --test-share S         share of the documents held out for testing (default: 0)
  --shards N             folders that train is spread over, one an epoch (default: 1)
  --pad-vocabulary       pad the dictionary of the data to a multiple of 8 symbols (models take their size from it)
  --workers N            processes (default: one per core)
  --errors strict|replace   bytes that are not UTF-8 are an error (default), or become U+FFFD
  --help                 show this text

Exit status: 0 all is there; 1 something failed, which is said in one line; 130 stopped by Ctrl-C.
EOF
}

output="" tokenizer=sentencepiece folder="" sources=() corpus_options=() vocabulary_options=() bin_options=()
while (($#)); do
    option="$1"
    shift
    case "$option" in
        --help | -h) usage && exit 0 ;;
        --pad-vocabulary) bin_options+=("$option") && continue ;;
        --out | --tokenizer | --vocab-size | --valid-share | --test-share | --shards | --workers | --errors) ;;
        --*) die "unknown argument: $option (scripts/prepare_pretraining.sh --help lists what there is)" ;;
        *) sources+=("$option") && continue ;;
    esac
    (($#)) || die "$option: expected a value"
    case "$option" in
        --out) output="$1" ;;
        --tokenizer) tokenizer="$1" ;;
        --vocab-size)
            number "$option" "$1"
            (($1 >= 400 && $1 <= 64000)) || die "--vocab-size $1: between 400 and 64,000 expected"
            vocabulary_options+=("$option" "$1")
            ;;
        --shards) number "$option" "$1" && bin_options+=("$option" "$1") ;;
        --workers) number "$option" "$1" && corpus_options+=("$option" "$1") && bin_options+=("$option" "$1") ;;
        *) corpus_options+=("$option" "$1") ;;
    esac
    shift
done
[[ -n $output ]] || die "--out DIR is missing: the folder for everything that is made"
case "$tokenizer" in
    sentencepiece | gpt2) folder="$output/tokenizer" ;;
    *) [[ -d $tokenizer ]] || die "--tokenizer $tokenizer: expected sentencepiece, gpt2 or a folder that holds one" ;;
esac
[[ $tokenizer == sentencepiece ]] || ((!${#vocabulary_options[@]})) ||
    die "--vocab-size: is for --tokenizer sentencepiece, which is trained; $tokenizer has its own"
((${#sources[@]})) || sources=(hub:bookcorpus hub:wikipedia)

"$repo/scripts/setup.sh"
export PYTHONPATH="$repo${PYTHONPATH:+:$PYTHONPATH}" # python -m data_prep.NAME works from any folder
program() {
    show python -m "data_prep.$1" "${@:2}" >&2
    "$venv/bin/python" -m "data_prep.$1" "${@:2}"
}

[[ $tokenizer != gpt2 ]] || program gpt2_bpe --out "$folder" # first: what cannot be had is said at once
program build_corpus --out "$output/text" "${corpus_options[@]}" "${sources[@]}"
[[ $tokenizer != sentencepiece ]] || program train_sentencepiece --out "$folder" "${vocabulary_options[@]}" "$output/text"
program binarize --tokenizer "${folder:-$tokenizer}" --out "$output/bin" "${bin_options[@]}" "$output/text"

"""Get the files of RoBERTa's GPT-2 BPE: encoder.json, vocab.bpe and dict.txt.

    linformer data gpt2 --out DIR                  from the Hugging Face hub
    linformer data gpt2 --out DIR --from FOLDER    from your own files

FOLDER contains encoder.json (on the hub: vocab.json), vocab.bpe (on the hub: merges.txt) and optionally fairseq's
dict.txt, which defines the ids of RoBERTa's published weights. Without it, a dict.txt is written that lists the tokens
in numeric order; this is sufficient for models that are trained from scratch. Merges are written as fairseq reads them:
behind a line #version and with a line feed at the end of each, without which it would leave one out.
"""

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from data_prep.sources.hub_access import TIMEOUT_SECONDS, explained
from data_prep.support.program import program_parser, run_program
from data_prep.support.room import room_for_temporary_files
from data_prep.tokenizers.gpt2_bpe import GPT2Tokenizer
from linformer_fairseq.files import dictionary
from linformer_fairseq.files.atomic import atomic_open
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.gpt2_bpe import read_merges, read_numbers, write_merges
from linformer_fairseq.files.provenance import sha256
from linformer_fairseq.files.tokenizers import ENCODER, MERGES

PUBLISHED = {
    ENCODER: "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    MERGES: "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
"""SHA-256 of OpenAI's files."""
_OTHER_NAMES = {ENCODER: "vocab.json", MERGES: "merges.txt"}  # the same files, byte for byte
_ON_THE_HUB = {
    ENCODER: ("openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e", "vocab.json"),
    MERGES: ("openai-community/gpt2", "607a30d783dfa663caf39e06633721c8d4cfcd7e", "merges.txt"),
    dictionary.NAME: ("FacebookAI/roberta-base", "e2da8e2f811d1448a5b465c236feacd80ffbac7b", dictionary.NAME),
}


class Found(NamedTuple):
    """One of the three files."""

    place: str
    """Where it was found, for messages."""
    data: bytes


def read_folder(folder: Path) -> dict[str, Found]:
    """The files in ``folder``, by their names in fairseq; without dict.txt if there is none.

    Raises:
        UserError: encoder.json or vocab.bpe is missing.
    """
    found = {}
    for name in (ENCODER, MERGES, dictionary.NAME):
        places = [folder / x for x in (name, _OTHER_NAMES.get(name, name)) if (folder / x).is_file()]
        if places:
            found[name] = Found(str(places[0]), places[0].read_bytes())
        elif name != dictionary.NAME:
            raise UserError(f"{folder / name}: no such file, nor {_OTHER_NAMES[name]} there")
    return found


def read_hub() -> dict[str, Found]:
    """The files from the hub or its local cache; without dict.txt if the hub no longer has it.

    Raises:
        UserError: the hub cannot be reached, or its files are not OpenAI's.
    """
    import huggingface_hub
    from huggingface_hub import errors

    found = {}
    for name, (repository, revision, file) in _ON_THE_HUB.items():
        with explained("GPT-2's BPE", repository, revision, _by_hand):
            try:
                path = huggingface_hub.try_to_load_from_cache(repository, file, revision=revision)
                if not isinstance(path, str):
                    # First, because this does not retry: if the hub cannot be reached, it fails at once.
                    huggingface_hub.HfApi().model_info(repository, revision=revision, timeout=TIMEOUT_SECONDS)
                    path = huggingface_hub.hf_hub_download(repository, file, revision=revision)
            except errors.RemoteEntryNotFoundError:
                if name == dictionary.NAME:
                    continue
                raise
            found[name] = Found(f"{repository}/{file} of the hub", Path(path).read_bytes())
        different = _difference(name, found[name])
        if different:
            raise UserError(f"{different}. {_by_hand()}")
    return found


def _by_hand() -> str:
    files = ", ".join(f"{repository}/{file}" for repository, _, file in _ON_THE_HUB.values())
    return (
        f"Fetch {files} where there is a network (such as: hf download openai-community/gpt2 vocab.json merges.txt "
        "--local-dir FOLDER; hf download FacebookAI/roberta-base dict.txt --local-dir FOLDER), put them into one "
        "FOLDER here, then: linformer data gpt2 --out DIR --from FOLDER"
    )


def _difference(name: str, file: Found) -> str | None:
    """How ``file`` differs from OpenAI's ``name``; None if it does not, or if OpenAI has no such file."""
    expected, digest = PUBLISHED.get(name), hashlib.sha256(file.data).hexdigest()
    if expected in (None, digest):
        return None
    return f"{file.place}: not OpenAI's {name}: sha256 {digest}, expected {expected} ({len(file.data):,} bytes)"


def install(out: Path, source: Path | None = None) -> tuple[GPT2Tokenizer, list[str]]:
    """Write the three files to ``out``.

    Args:
        out: folder, created if necessary.
        source: folder with the files; None: the hub, unless ``out`` already has them.

    Returns:
        The tokenizer in ``out``, and warnings for the user.

    Raises:
        UserError: files are missing, damaged or do not belong together, or ``out`` has different ones; nothing is
            written then.
    """
    if source is None and _is_published(out):
        numeric = dictionary.read_symbols(out / dictionary.NAME) == _in_numeric_order(out)
        return GPT2Tokenizer(out), [f"{out / dictionary.NAME}: {_NOT_ROBERTAS}"] if numeric else []
    found = read_folder(source) if source else read_hub()
    notes = [
        f"{different}: its ids are not those of RoBERTa's weights"
        for name, file in found.items()
        if (different := _difference(name, file))
    ]
    with tempfile.TemporaryDirectory() as temporary:
        trial = Path(temporary)
        with room_for_temporary_files():
            for name, file in found.items():
                (trial / name).write_bytes(file.data)
            try:
                write_merges(trial / MERGES, map(" ".join, read_merges(trial / MERGES)))  # as fairseq reads them
                notes += _complete(trial)
                GPT2Tokenizer(trial)
            except UserError as error:
                said = str(error)
                for name, file in found.items():
                    said = said.replace(str(trial / name), file.place)
                raise UserError(said) from None
        names = (ENCODER, MERGES, dictionary.NAME)
        for name in names:
            if (out / name).is_file() and (out / name).read_bytes() != (trial / name).read_bytes():
                raise UserError(f"{out / name}: is another one; give a new or an empty folder with --out")
        for name in names:
            # a fixed name, so that what a killed run left is replaced
            with atomic_open(out / name, "wb", temporary=out / f".{name}.tmp") as stream:
                stream.write((trial / name).read_bytes())
    return GPT2Tokenizer(out), notes


def _is_published(folder: Path) -> bool:
    """Whether a folder has all three files, with OpenAI's content."""
    return (folder / dictionary.NAME).is_file() and all(
        (folder / name).is_file() and sha256(folder / name) == digest for name, digest in PUBLISHED.items()
    )


def _complete(folder: Path) -> list[str]:
    """Write a dict.txt if ``folder`` has none; returns a warning in that case."""
    if (folder / dictionary.NAME).is_file():
        return []
    symbols = _in_numeric_order(folder)
    dictionary.write(folder / dictionary.NAME, ((symbol, 0) for symbol in symbols))
    return [f"no {dictionary.NAME} there: wrote one with all {len(symbols):,} ids; {_NOT_ROBERTAS}"]


_NOT_ROBERTAS = (
    "the ids are in numeric order; RoBERTa's published weights need RoBERTa's own dictionary, a model trained from "
    "scratch does not"
)


def _in_numeric_order(folder: Path) -> list[str]:
    """The symbols of a dict.txt for a folder without RoBERTa's."""
    return [str(number) for number in sorted(read_numbers(folder / ENCODER).values())]


def main(argv: list[str] | None = None, prog: str | None = None) -> None:
    """Run the program; ``prog`` is its name in the help text."""
    parser = program_parser(prog, "data_prep.gpt2_bpe", __doc__)
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FOLDER", help="folder with the files (default: download them)"
    )
    args = parser.parse_args(argv)
    tokenizer, notes = install(args.out, args.source)
    for note in notes:
        print(f"warning: {note}", file=sys.stderr)
    print(f"{len(tokenizer):,} symbols in {args.out / dictionary.NAME}")


if __name__ == "__main__":
    run_program(main)

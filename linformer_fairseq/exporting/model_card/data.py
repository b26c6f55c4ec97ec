"""What is known of the data of a training: the manifest that `linformer data` wrote into its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from linformer_fairseq.checkpoints.dictionaries import digests
from linformer_fairseq.files.dictionary import embedding_rows, find_dictionary
from linformer_fairseq.files.json_records import naming, read_object
from linformer_fairseq.files.provenance import MANIFEST


@dataclass(frozen=True)
class TextSource:
    """One source of text."""

    name: str
    amount: str | None
    license: str | None
    repository: str | None = None
    """Of a data set of the hub."""
    config: str | None = None
    revision: str | None = None


@dataclass(frozen=True)
class Data:
    """The data of one training."""

    name: str
    """Name of the task, of the sources of a text for pretraining, or of the folder."""
    sources: tuple[TextSource, ...] = ()
    splits: tuple[tuple[str, str], ...] = ()
    """Name and size of each split."""
    tokenizer: str | None = None
    unknown: str | None = None
    """Why nothing more is known."""
    replaced: bool = False
    """The folder has other data by now."""


def read_data(argument: str | None, symbols: int, dictionaries: Mapping[str, str] | None = None) -> Data:
    """Read what is known of the data of a training.

    Args:
        argument: the data argument of fairseq: a folder, or the folders of shards with colons between them; None and
            "." if it is not known.
        symbols: rows of the embedding of the model that was trained on it.
        dictionaries: of the data at that time, as `checkpoints.dictionaries.digests` returns them, if that is known.

    Raises:
        UserError: a manifest or a dictionary is damaged.
    """
    if argument in (None, "", "."):
        return Data("not recorded", unknown="The checkpoint does not name its data.")
    folder = Path(str(argument).split(":")[0])
    dict_txt = find_dictionary(folder)
    if dict_txt is None:
        return Data(folder.name, unknown=f"The folder `{folder.name}` was not there when this card was written.")
    # RoBERTa's embedding has a row for every symbol, ours none for padding.
    if symbols not in (found := {embedding_rows(dict_txt, True), embedding_rows(dict_txt, False)}):
        return Data(
            folder.name,
            unknown=f"The folder `{folder.name}` has other data by now: {max(found):,} symbols, the model {symbols:,}.",
            replaced=True,
        )
    if dictionaries and not dictionaries.items() <= digests(folder).items():
        return Data(
            folder.name,
            unknown=f"The folder `{folder.name}` has other data by now: other tokens or classes than the run.",
            replaced=True,
        )
    manifests = (folder / MANIFEST, folder.parent / MANIFEST)  # that of shards is beside them
    path = next((path for path in manifests if path.is_file()), None)
    if path is None:
        return Data(folder.name, unknown=f"The folder `{folder.name}` has no {MANIFEST} of `linformer data`.")
    manifest = read_object(path, "prepare the data again")
    with naming(path):
        if "task" not in manifest:
            return _pretraining(manifest, folder.name)
        if "source" in manifest:
            return _task(manifest)
    # of a released model
    return Data(str(manifest["task"]), unknown=f"The folder `{folder.name}` does not say where its texts are from.")


def _task(manifest: Mapping[str, Any]) -> Data:
    source = manifest.get("source", {})
    name = str(manifest["task"])
    origin = source.get("repository") or {"glue": "GLUE's files", "aclImdb": "the official archive"}.get(
        source.get("kind"), "files"
    )
    return Data(
        name,
        (
            TextSource(
                f"{name}, from {origin}",
                None,
                source.get("license"),
                source.get("repository"),
                source.get("config"),
                source.get("revision"),
            ),
        ),
        tuple((split, _examples(count)) for split, count in manifest.get("splits", {}).items()),
        _tokenizer(manifest),
    )


def _examples(count: Mapping[str, Any]) -> str:
    labels = count.get("labels")
    shares = f" ({', '.join(f'{label}: {number:,}' for label, number in labels.items())})" if labels else ""
    return f"{count['examples']:,} examples{shares}"


def _pretraining(manifest: Mapping[str, Any], folder: str) -> Data:
    corpus = (manifest.get("corpus") or {}).get(MANIFEST)
    splits = manifest.get("splits", {})
    if corpus is not None:
        sources = tuple(map(_source, corpus.get("sources", [])))
    else:  # files of plain text, of which only the name is known
        names = dict.fromkeys(file["name"] for split in splits.values() for file in split.get("sources", []))
        sources = tuple(TextSource(name, None, None) for name in names)
    sizes = tuple(
        (name, f"{count['documents']:,} documents, {count['tokens']:,} tokens") for name, count in splits.items()
    )
    return Data(", ".join(source.name for source in sources) or folder, sources, sizes, _tokenizer(manifest))


def _source(source: Mapping[str, Any]) -> TextSource:
    place = str(source["name"]).partition(",")[0]  # without options such as weight=
    name = place if place.startswith("hub:") else Path(place).name
    units = source.get("units") or [{}]
    licences = [source["license"]] if source.get("license") else [unit.get("license") for unit in units]
    documents = f"{source['documents']:,} documents" if "documents" in source else None
    weight = f", weight {source['weight']:g}" if source.get("weight", 1) != 1 else ""
    return TextSource(
        name,
        f"{documents}{weight}" if documents else None,
        ", ".join(sorted({licence for licence in licences if licence})) or None,
        units[0].get("repository"),
        revision=units[0].get("revision"),
    )


def _tokenizer(manifest: Mapping[str, Any]) -> str | None:
    tokenizer = manifest.get("tokenizer")
    return f"{tokenizer['kind']}, {tokenizer['symbols']:,} symbols" if tokenizer else None

"""Finds the files of a data set on the Hugging Face hub, with instructions if that fails."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from linformer_fairseq.files.errors import UserError

# The branch on which the hub keeps its own conversion of a repository to parquet: CONFIG/SPLIT/0000.parquet.
CONVERTED = "refs/convert/parquet"
TIMEOUT_SECONDS = 15.0
"""For an answer of the hub to a question that is not repeated."""


@dataclass(frozen=True)
class Wanted:
    """A part of a data set of the hub that the user asks for."""

    spec: str
    """The source as the user wrote it."""
    repository: str
    revision: str
    config: str | None
    split: str
    files: str
    """Pattern of the files in the repository, as far as it is known without asking the hub."""
    rest: str = ""
    """``,key=value`` endings that reading the same files from a folder needs."""

    def explained(self) -> AbstractContextManager[None]:
        """:func:`explained` for this."""
        return explained(f"source {self.spec!r}", self.repository, self.revision, self.by_hand)

    def by_hand(self) -> str:
        """Instructions for using files in place of the hub."""
        from huggingface_hub import constants

        folder = self.files.rpartition("/")[0]
        return (
            f"To do without it, fetch {self.files} of the data set {self.repository} (revision {self.revision}, "
            f"{constants.ENDPOINT}/datasets/{self.repository}/tree/{self.revision.replace('/', '%2F')}) where there is "
            f"a network, as in: hf download {self.repository} --repo-type dataset --revision {self.revision} "
            f"--include '{self.files}' --local-dir FOLDER; then give "
            f"'FOLDER{'/' + folder if folder else ''}{self.rest}' in place of '{self.spec}'"
        )


@dataclass(frozen=True)
class HubFile:
    """One data file of one commit."""

    repository: str
    commit: str
    path: str
    size: int | None
    sha256: str | None
    license: str | None
    """As the data set's page names it."""

    @property
    def url(self) -> str:
        """Address of the file for ``datasets`` and fsspec."""
        return f"hf://datasets/{self.repository}@{self.commit}/{self.path}"


@contextmanager
def explained(label: str, repository: str, revision: str, by_hand: Callable[[], str]) -> Iterator[None]:
    """Makes what ``datasets`` and ``huggingface_hub`` raise in the block a UserError that says how to go on.

    Args:
        label: what the message begins with.
        repository: ``OWNER/NAME``.
        revision: as asked for.
        by_hand: how to do without the hub, as a sentence.
    """
    import pyarrow
    from datasets import exceptions
    from huggingface_hub import constants, errors

    # httpx2's, httpx's or requests' HTTPError, by the version of huggingface_hub; what cannot connect is one of them.
    network: Any = errors.HfHubHTTPError.__bases__
    place = f"{label}: {repository} at {constants.ENDPOINT}"
    try:
        yield
    except errors.GatedRepoError:
        raise UserError(
            f"{place}: it is gated; accept its terms on its page, then log in with: hf auth login"
        ) from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"{place}: no such repository, or a private one; check OWNER/NAME, or log in with: hf auth login. "
            f"{by_hand()}"
        ) from None
    except errors.RevisionNotFoundError:
        raise UserError(f"{place}: it has no revision {revision!r}; see its page for those it has") from None
    except exceptions.DataFilesNotFoundError as error:
        raise UserError(f"{place}: has no data files that `datasets` reads ({_first_line(error)})") from None
    except pyarrow.ArrowException as error:
        raise UserError(
            f"{place}: its data are damaged, or not what they are named as ({_first_line(error)}); after an "
            "interrupted transfer, run the same command again"
        ) from None
    except (*network, OSError) as error:
        # A full disk or a cache that may not be written has a number; the network's errors have not.
        if isinstance(error, OSError) and error.errno is not None and not isinstance(error, ConnectionError):
            raise
        raise UserError(f"{place}: cannot be read ({_first_line(error)}); try again later. {by_hand()}") from None
    except ValueError as error:  # how `datasets` says that there is no such config
        raise UserError(f"{place}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    lines = (str(error) or repr(error.__cause__)).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}"


def resolve(wanted: Wanted) -> tuple[str, list[HubFile]]:
    """What ``datasets`` reads the files with (``parquet``, ``json``, ...), and the files of the split, in order.

    Raises:
        UserError: the hub is out of reach, or has no such repository, revision, config or split.
    """
    import datasets
    import huggingface_hub

    with wanted.explained():
        # Asked first and without retries: a hub that is out of reach is told of at once, not after minutes.
        info = huggingface_hub.HfApi().dataset_info(
            wanted.repository, revision=wanted.revision, files_metadata=True, timeout=TIMEOUT_SECONDS
        )
        commit = info.sha
        assert commit is not None
        converted = wanted.revision == CONVERTED
        try:
            builder = datasets.load_dataset_builder(
                wanted.repository,
                None if converted else wanted.config,
                data_dir=wanted.config if converted else None,
                revision=commit,
            )
        except RuntimeError as error:  # a script that would make the data, which `datasets` no longer runs
            raise UserError(
                f"source {wanted.spec!r}: {wanted.repository}: {_first_line(error)}; for many data sets, the hub has "
                f"parquet files: revision={CONVERTED},config=FOLDER"
            ) from None
    splits = builder.config.data_files or {}
    if wanted.split not in splits:
        raise UserError(
            f"source {wanted.spec!r}: {wanted.repository} has no split {wanted.split!r}; it has "
            f"{sorted(map(str, splits))}; name one: split=NAME"
        )
    known = {entry.rfilename: entry for entry in info.siblings or []}
    stated = getattr(info.card_data, "license", None)
    licences = ", ".join(stated) if isinstance(stated, list) else stated
    files = []
    for url in splits[wanted.split]:
        path = str(url).partition(f"@{commit}/")[2]
        if path not in known:
            raise UserError(f"source {wanted.spec!r}: its files are not in the repository itself ({url})")
        entry = known[path]
        digest = entry.lfs.sha256 if entry.lfs else None
        files.append(HubFile(wanted.repository, commit, path, entry.size, digest, licences))
    return builder.name, files

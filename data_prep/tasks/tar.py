"""Reads the files in a tar archive one by one, without unpacking it to disk."""

import tarfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from data_prep.sources.streams import Readable, Stream
from linformer_fairseq.files.errors import UserError
from linformer_fairseq.files.signatures import COMPRESSIONS, HEAD, compression_of, kind_of

MAX_MEMBER = 256 * 2**20
"""Bytes of any member; the largest of aclImdb, which is not read, has 41 MB."""
_BLOCK = 512


class _Blocks:
    """A stream handed out block by block, so that the last block says why the reading ended."""

    def __init__(self, stream: Readable, path: Path) -> None:
        self._stream = stream
        self._path = path
        self.last = b""
        self.since_member = 0
        """Bytes since the last member began."""

    def read(self, size: int) -> bytes:
        """``size`` bytes, fewer only at the end.

        Raises:
            UserError: one member goes on without an end.
        """
        data = self._stream.read(size)
        while data and len(data) < size and (more := self._stream.read(size - len(data))):
            data += more
        self.since_member += len(data)
        if self.since_member > MAX_MEMBER + 2**20:
            raise UserError(
                f"{self._path}: over {MAX_MEMBER:,} bytes without a new member; this is not the archive meant"
            )
        self.last = data
        return data


def tar_files(path: Path, wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, int, bytes | None]]:
    """(name, bytes, content) of every file; content is None where it is not wanted or larger than ``limit``.

    Raises:
        UserError: no tar, one that is truncated or damaged, or a member that is neither a file nor a folder, or is too
            large.
    """
    _check_kind(path)
    with closing(Stream(path, str(path))) as stream:
        blocks = _Blocks(stream, path)
        try:
            with tarfile.open(fileobj=blocks, mode="r|", bufsize=_BLOCK) as archive:  # type: ignore[call-overload]
                for member in archive:
                    blocks.since_member = 0
                    _check_member(path, member)
                    if not member.isfile():
                        continue
                    content = None
                    if member.size <= limit and wanted(member.name):
                        file = archive.extractfile(member)
                        content = file.read() if file else None
                    yield member.name, member.size, content
                    archive.members = []  # tarfile remembers them all
        except tarfile.TarError as error:
            raise UserError(f"{path}: truncated, damaged, or no tar ({error}); fetch it again") from None
        # tarfile takes the end of the file, and a damaged header, for the end of the archive.
        if blocks.last != bytes(_BLOCK):
            what = (
                "ends without an end mark: it was not copied to its end" if len(blocks.last) < _BLOCK else "is damaged"
            )
            raise UserError(f"{path}: {what}; fetch it again")
        blocks.since_member = 0
        while blocks.read(2**16):
            pass  # so that the decompressor checks its own end


def _check_kind(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(HEAD)
    if not head:
        raise UserError(f"{path}: the file is empty")
    found, expected = kind_of(head), compression_of(path)
    if found and found not in COMPRESSIONS.values():
        hint = "unpack it and give the folder" if found in ("zip", "7-zip") else "give one of these"
        raise UserError(f"{path}: is {found}; expected aclImdb as a folder or as a tar (compressed or not); {hint}")
    if found != expected:
        looks = f"is {found}" if found else "does not look so"
        raise UserError(
            f"{path}: its name says {f'a {expected} file' if expected else 'a plain tar'}, its content {looks}; "
            "give it its right name (.tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst), or fetch it again"
        )


def _check_member(path: Path, member: tarfile.TarInfo) -> None:
    if not (member.isfile() or member.isdir()):
        raise UserError(f"{path}: its member {member.name!r} is neither a file nor a folder; it is refused")
    if member.size > MAX_MEMBER:
        raise UserError(
            f"{path}: its member {member.name!r} would unpack to {member.size:,} bytes, the limit is {MAX_MEMBER:,}"
        )

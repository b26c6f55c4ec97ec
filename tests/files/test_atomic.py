"""A file is at every moment the old one or the whole new one; a folder is there whole or not at all."""

import errno
import os
from contextlib import nullcontext
from pathlib import Path

import pytest

from linformer_fairseq.files.atomic import atomic_open, check_output, make_folder, new_folder, replace_page, write_file
from linformer_fairseq.files.errors import UserError
from tests.messages import says

OLD, NEW = b"old" * 100, b"new" * 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    return path


@pytest.mark.parametrize("durable", [False, True])
def test_the_old_file_is_there_until_the_new_one_is_whole(path: Path, durable: bool) -> None:
    with atomic_open(path, "wb", durable=durable) as stream:
        for _ in range(3):
            stream.write(NEW)
            stream.flush()
            assert path.read_bytes() == OLD
    assert path.read_bytes() == NEW * 3
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError, OSError(errno.ENOSPC, "No space left on device")])
def test_what_ends_the_writing_leaves_the_old_file(path: Path, error: type[BaseException] | BaseException) -> None:
    with pytest.raises(type(error) if isinstance(error, BaseException) else error), atomic_open(path, "wb") as stream:
        stream.write(NEW)
        raise error
    assert path.read_bytes() == OLD
    assert list(path.parent.iterdir()) == [path]


def test_a_name_may_be_as_long_as_the_system_allows(tmp_path: Path) -> None:
    name = "ü" * 127 + "n"
    check_output("--out", tmp_path / name)
    write_file(tmp_path / name, NEW)
    assert (tmp_path / name).read_bytes() == NEW
    with new_folder(tmp_path / name[1:]) as folder:
        (folder / "file").touch()
    assert {path.name for path in tmp_path.iterdir()} == {name, name[1:]}


def test_permissions_of_a_replaced_file_stay(path: Path) -> None:
    path.chmod(0o640)
    with atomic_open(path) as stream:
        stream.write("new")
    assert path.read_text() == "new" and path.stat().st_mode & 0o777 == 0o640


def test_a_link_stays_and_the_file_that_it_points_to_is_written(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for link, target in (("link", "../file"), ("dangling", "new")):
        (folder / link).symlink_to(target)
        write_file(folder / link, target)
        assert (folder / link).readlink() == Path(target) and (folder / target).read_text() == target
    with pytest.raises(OSError) as caught, atomic_open(folder / "link") as stream:
        assert {one.name for one in folder.iterdir()} == {"link", "dangling", "new"}, "what is written lies beside it"
        stream.write("x")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(folder / "link")
    assert path.read_text() == "../file" and sorted(tmp_path.iterdir()) == [path, folder]


def test_an_error_names_the_file_and_not_the_temporary_one(path: Path) -> None:
    with pytest.raises(OSError) as caught, atomic_open(path) as stream:
        stream.write("x")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    with pytest.raises(IsADirectoryError) as named:
        write_file(path.parent, "x")
    assert (named.value.filename, named.value.filename2) == (str(path.parent), None)
    with pytest.raises(NotADirectoryError) as above, new_folder(path / "a" / "b"):
        pass
    assert above.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as other, atomic_open(path):  # of another file: its own name stays
        (path.parent / "absent").read_bytes()
    assert other.value.filename == str(path.parent / "absent")


def test_so_it_does_on_a_read_only_file_system(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(OSError) as caught:
        write_file(path, "x")
    assert (caught.value.errno, caught.value.filename) == (errno.EROFS, str(path))


def test_a_durable_file_is_on_the_disk_before_it_is_renamed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (calls.append("fsync"), fsync(descriptor))[1])
    monkeypatch.setattr(Path, "replace", lambda self, to: (calls.append("rename"), rename(self, to))[1])
    write_file(path, NEW, durable=True)
    assert calls == ["fsync", "rename", "fsync"]  # the file, its name, the folder
    write_file(path, NEW)
    assert calls[3:] == ["rename"]


def test_text_is_utf8_with_line_feeds_and_its_folder_is_made(tmp_path: Path) -> None:
    write_file(tmp_path / "a" / "b" / "x.txt", "naïve\nend\n")
    assert (tmp_path / "a" / "b" / "x.txt").read_bytes() == b"na\xc3\xafve\nend\n"
    write_file(tmp_path / "a" / "b" / "x.txt", b"\r\n")
    assert (tmp_path / "a" / "b" / "x.txt").read_bytes() == b"\r\n"


@pytest.mark.parametrize("name", ["file", "new", "folder/new", "file/new", "folder", "pipe", "x" * 300])
def test_an_output_is_only_tried(path: Path, tmp_path: Path, name: str) -> None:
    """What cannot be a file is refused by both; neither writes anything."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    before = sorted(tmp_path.rglob("*"))
    with nullcontext() if name in ("file", "new", "folder/new") else pytest.raises(UserError) as refused:
        check_output("--out", tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before and path.read_bytes() == OLD
    if refused:
        assert says(str(refused.value), "--out", tmp_path / name, path if name == "file/new" else "")
        with pytest.raises(OSError):
            write_file(tmp_path / name, "x")
        assert sorted(tmp_path.rglob("*")) == before and not (tmp_path / "pipe").is_file()


def test_a_folder_is_made_unless_a_file_is_in_the_way(path: Path) -> None:
    for _ in range(2):
        make_folder(path.parent / "a" / "b")
    assert (path.parent / "a" / "b").is_dir()
    (path.parent / "gone").symlink_to("nowhere")
    for inside, file in ((path, path), (path / "a" / "b", path), (path.parent / "gone", path.parent / "gone")):
        with pytest.raises(NotADirectoryError) as caught:
            make_folder(inside)
        assert caught.value.filename == str(file)


def test_a_folder_is_there_when_it_is_whole(tmp_path: Path) -> None:
    out = tmp_path / "a" / "b" / "out"
    with new_folder(out) as folder:
        (folder / "inside").mkdir()
        (folder / "inside" / "file").write_text("x")
        assert not out.exists()
    assert (out / "inside" / "file").read_text() == "x"
    assert list(out.parent.iterdir()) == [out]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_what_ends_the_making_of_a_folder_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), new_folder(tmp_path / "a" / "b" / "out") as folder:
        (folder / "file").write_text("x")
        raise error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [None, ValueError])
def test_a_folder_with_tmp_after_the_name_is_the_users_own(tmp_path: Path, error: type[Exception] | None) -> None:
    (tmp_path / "out.tmp").mkdir()
    (tmp_path / "out.tmp" / "mine").touch()
    with pytest.raises(error) if error else nullcontext(), new_folder(tmp_path / "out"):
        if error:
            raise error
    assert (tmp_path / "out.tmp" / "mine").exists()


def test_a_folder_that_exists_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "file").write_text("x")
    with pytest.raises(ValueError, match="out: already exists"), new_folder(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "file").read_text() == "x"


def test_only_folders_that_were_made_and_are_empty_are_removed(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with pytest.raises(ValueError), atomic_open(tmp_path / "old" / "new" / "file"):
        raise ValueError
    assert list(tmp_path.rglob("*")) == [tmp_path / "old"]
    with pytest.raises(ValueError), atomic_open(tmp_path / "old" / "new" / "newer" / "file"):
        (tmp_path / "old" / "new" / "of another program").write_text("x")
        raise ValueError
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["new", "of another program", "old"]


def test_a_page_replaces_an_earlier_one_and_no_other_file(path: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"^{path}: was not made by this command"):
        replace_page(path, "my mark, 1", "my mark")
    with pytest.raises(UserError, match=f"^{tmp_path}: is a folder"):
        replace_page(tmp_path, "my mark, 1", "my mark")
    assert path.read_bytes() == OLD and list(tmp_path.iterdir()) == [path]
    path.unlink()
    for number in (1, 2):
        replace_page(path, f"my mark, {number}", "my mark")
    assert path.read_text() == "my mark, 2"


def test_open_files_are_not_replaced(path: Path, tmp_path: Path) -> None:
    """/dev/stdout leads to such a link; where the output is redirected, it is one to a file."""
    with path.open() as stream:
        opened = Path(f"/proc/self/fd/{stream.fileno()}")
        if not opened.is_symlink():
            pytest.skip("no /proc")
        (tmp_path / "link").symlink_to(opened)
        for name in (tmp_path / "link", Path(f"/dev/fd/{stream.fileno()}")):
            with pytest.raises(OSError, match="is a device or pipe"):
                write_file(name, "new")
    assert path.read_bytes() == OLD and (tmp_path / "link").is_symlink()


def test_an_output_that_is_an_input_is_refused(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(UserError, match="this file is read, and would be lost"):
        check_output("--out", tmp_path / "link", None, tmp_path / "missing", path)
    check_output("--out", path, None, tmp_path / "missing")
    assert path.read_bytes() == OLD


def test_errors_name_the_folder_and_not_the_temporary_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ValueError, match="out: already exists"), new_folder(out) as folder:
        (folder / "file").write_text("x")
        out.mkdir()
        (out / "file").write_text("of another program")
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(ValueError, match="link: already exists"), new_folder(tmp_path / "link"):
        pass
    with pytest.raises(FileNotFoundError) as missing, new_folder(tmp_path / "new") as folder:
        (folder / "a" / "file").write_text("x")
    assert missing.value.filename == str(tmp_path / "new" / "a" / "file")
    with pytest.raises(OSError) as full, new_folder(tmp_path / "new"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert full.value.filename == str(tmp_path / "new")

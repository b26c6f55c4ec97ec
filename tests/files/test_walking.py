"""All files in a folder and the folders below it."""

from __future__ import annotations

from pathlib import Path

from linformer_fairseq.files.walking import walk


def test_files_below_a_folder_with_links(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    folder = tmp_path / "folder"
    for path in (elsewhere / "1", folder / "b" / "2", folder / "a", folder / ".hidden" / "3", folder / "b" / ".4"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (folder / "c").symlink_to(elsewhere)
    (folder / "b" / "up").symlink_to(folder)
    (folder / "broken").symlink_to("nowhere")
    contents = walk(folder)
    assert contents.files == [folder / name for name in ("a", "b/2", "broken", "c/1")]
    assert contents.hidden == [folder / ".hidden", folder / "b" / ".4"]
    assert contents.unreadable == {}


def test_unreadable_folders_are_named(tmp_path: Path, unreadable: Path) -> None:
    (tmp_path / "file").touch()
    contents = walk(tmp_path)
    assert contents.files == [tmp_path / "file"]
    assert contents.unreadable == {unreadable: "Permission denied"}

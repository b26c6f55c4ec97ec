"""Where results come from."""

import hashlib
import platform
import subprocess
from pathlib import Path

from linformer_fairseq.files import provenance


def test_the_commit_says_whether_files_differ_from_it(tmp_path: Path) -> None:
    assert provenance.commit(tmp_path) == "unknown (no git checkout)"
    (tmp_path / "x").write_text("1")
    me = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    for words in (["init", "-q"], ["add", "x"], [*me, "commit", "-q", "-m", "x"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    commit = provenance.commit(tmp_path)
    assert len(commit) == 12 and commit == provenance.git(tmp_path, "rev-parse", "--short=12", "HEAD")
    installed = tmp_path / ".venv" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "y").write_text("1")
    assert provenance.commit(installed) == "unknown (no git checkout)", (
        "the commit of the project that uses the package"
    )
    assert provenance.commit(tmp_path) == commit, "files that git does not track are no changes"
    (tmp_path / "x").write_text("2")
    assert provenance.commit(tmp_path) == f"{commit} with uncommitted changes"


def test_versions_are_those_that_are_installed() -> None:
    found = provenance.versions(["numpy", "no-such-package"])
    assert found["python"] == platform.python_version() and found["no-such-package"] == "not installed"
    assert found["numpy"][0].isdigit()


def test_sha256_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc" * 100_000)
    assert provenance.sha256(tmp_path / "x") == hashlib.sha256(b"abc" * 100_000).hexdigest()

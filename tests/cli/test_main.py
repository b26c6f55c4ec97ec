"""The command line itself: help, version, exit statuses."""

import argparse
import importlib.metadata
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest

from linformer_fairseq import cli
from linformer_fairseq.cli import program
from linformer_fairseq.cli.commands import COMMANDS, Command
from linformer_fairseq.files.errors import UserError
from tests.messages import says


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert name in out
        assert command.help.split()[0] in out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_with_a_description(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    description = (COMMANDS[name].declare.__doc__ or "").strip().splitlines()[0]
    assert description and description in capsys.readouterr().out


def test_paragraphs_fit_the_terminal_and_commands_stay_as_they_are(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    with pytest.raises(SystemExit):
        cli.main(["predict", "--help"])
    lines = capsys.readouterr().out.splitlines()
    long = [line for line in lines if len(line) > 60]
    assert "  linformer predict RUN/checkpoint_best.pt reviews.txt --out classes.tsv" in long
    assert all(line.startswith("  ") for line in long)
    assert "The input is a file with a text on each line, TSV, JSON" in lines  # "lines" is on the next


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out.strip() == f"linformer {importlib.metadata.version('linformer-fairseq')}"


@pytest.mark.parametrize("argv", [[], ["no-such-command"], ["doctor", "--no-such-option"]])
def test_wrong_usage_exits_with_2(argv, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    assert "usage: linformer" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "command"),
    [
        (["doctor", "--no-such-option"], "linformer doctor"),
        (["predict", "model", "--scors"], "linformer predict"),
        (["export", "hf", "model", "out", "--int8"], "linformer export hf"),
        (["pretrain", "task.data=work/bin", "--dryrun"], "linformer pretrain"),
        (["predict", "model", "a.txt", "b.txt"], "linformer predict"),
        (["--no-such-option", "doctor"], "linformer"),
    ],
)
def test_wrong_usage_shows_the_usage_of_the_command(argv, command, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    first, *_, last = capsys.readouterr().err.splitlines()
    assert first.startswith(f"usage: {command} [")
    assert last.startswith(f"{command}: error: unrecognized arguments: ")


@pytest.mark.parametrize(
    ("argv", "name", "value"),
    [
        (["predict", "model", "--scores", "a.txt"], "input", Path("a.txt")),
        (["predict", "model", "--scores", "-"], "input", Path("-")),
        (["pretrain", "a=1", "--dry-run", "b=2", "c=3"], "overrides", ["a=1", "b=2", "c=3"]),
    ],
)
def test_words_after_an_option_are_taken(argv, name, value):
    assert getattr(program.build_parser().parse_args(argv), name) == value


def install_command(monkeypatch, run, **options):
    """Add a command `fake` whose `run` is the given function."""
    monkeypatch.setitem(COMMANDS, "fake", Command("a command", lambda parser: None, "fake", **options))
    monkeypatch.setitem(sys.modules, "linformer_fairseq.cli.fake", types.SimpleNamespace(run=run))


def test_a_package_that_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setitem(COMMANDS, "fake", Command("a command", lambda parser: None, "devices"))
    monkeypatch.delitem(sys.modules, "linformer_fairseq.cli.devices", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert cli.main(["fake"]) == 1
    said = capsys.readouterr().err
    assert "torch is not installed" in said and "linformer doctor" in said


@pytest.mark.parametrize(
    ("error", "name", "words"),
    [
        (ModuleNotFoundError("no module"), "torch.nn", ["torch is not installed"]),
        (ModuleNotFoundError("no module"), "google.protobuf", ["protobuf is not installed"]),
        (ModuleNotFoundError("no module"), "markdown_it.token", ["markdown-it-py is not installed"]),
        (ModuleNotFoundError("no module"), "yaml", ["pyyaml is not installed"]),
        (ImportError("libx.so: cannot open"), "tiktoken._tiktoken", ["tiktoken cannot be imported", "libx.so"]),
    ],
)
def test_a_package_that_cannot_be_used_while_a_program_runs_is_named(monkeypatch, capsys, error, name, words):
    def run(arguments):
        raise error

    install_command(monkeypatch, run)
    error.name = name
    assert cli.main(["fake"]) == 1
    said = capsys.readouterr().err
    assert says(said, *words, "linformer doctor") and said.count("\n") == 1
    error.name = "linformer_fairseq.core.nothing"  # an error of ours
    with pytest.raises(type(error)):
        cli.main(["fake"])


@pytest.mark.slow
def test_errors_are_not_written_to_stdout_where_stderr_is_closed():
    words = ["bash", "-c", '"$0" -m linformer_fairseq.cli checkpoint verify absent 2>&-', sys.executable]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")


def test_exit_status_is_the_commands(monkeypatch):
    install_command(monkeypatch, lambda arguments: 7)
    assert cli.main(["fake"]) == 7


def test_a_commands_error_is_one_line_and_status_1(monkeypatch, capsys):
    def run(arguments: argparse.Namespace) -> int:
        raise UserError("no such file: x.pt")

    install_command(monkeypatch, run)
    assert cli.main(["fake"]) == 1
    assert capsys.readouterr().err == "linformer fake: error: no such file: x.pt\n"


def test_a_lack_of_memory_is_an_error_of_one_line(monkeypatch, capsys):
    def run(arguments: argparse.Namespace) -> int:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 307200006144 bytes")

    install_command(monkeypatch, run)
    assert cli.main(["fake"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "307200006144 bytes" in line


def test_an_interrupt_while_the_program_is_imported_is_status_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(name: str) -> types.ModuleType:
        raise KeyboardInterrupt

    monkeypatch.setattr(importlib, "import_module", interrupted)
    assert cli.main(["doctor"]) == 130


def test_an_interrupt_is_status_130(monkeypatch, capsys):
    def run(arguments: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    for cleans_up in (False, True):
        install_command(monkeypatch, run, cleans_up=cleans_up)
        assert cli.main(["fake"]) == 130
        assert ("stopped by Ctrl-C" in capsys.readouterr().err) == cleans_up


@pytest.mark.parametrize("cleans_up", [False, True])
def test_sigterm_is_handled_for_commands_that_clean_up(monkeypatch, cleans_up):
    """Others handle it themselves, or start processes that would inherit the handler."""
    seen = []

    def run(arguments):
        seen.append(signal.getsignal(signal.SIGTERM))
        return 0

    install_command(monkeypatch, run, cleans_up=cleans_up)
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["fake"]) == 0
    assert (seen[0] is not before) == cleans_up
    assert signal.getsignal(signal.SIGTERM) is before
    assert {name for name, command in COMMANDS.items() if command.cleans_up} == {
        *("analyse", "card", "checkpoint", "convert", "embed", "evaluate", "export"),
        *("fill-mask", "import", "predict", "report"),
        *(["fake"] if cleans_up else []),
    }


WRITES = """
import sys, time
from pathlib import Path
from types import SimpleNamespace
from linformer_fairseq import cli
from linformer_fairseq.cli.commands import COMMANDS, Command
from linformer_fairseq.files.atomic import atomic_open, new_folder

def run(arguments):
    with new_folder(Path("a/out")), atomic_open(Path("b/out.tsv")) as stream:
        print("writing", flush=True)
        time.sleep(60)
        return 0

COMMANDS["fake"] = Command("", lambda parser: None, "fake", cleans_up=True)
sys.modules["linformer_fairseq.cli.fake"] = SimpleNamespace(run=run)
sys.exit(cli.main(["fake"]))
"""


@pytest.fixture
def heeds_hangups():
    """What tests start does, also if they themselves run under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_no_temporary_files(tmp_path, number, heeds_hangups):
    with subprocess.Popen(
        [sys.executable, "-c", WRITES], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None and command.stderr is not None
        assert command.stdout.readline() == "writing\n"
        assert len(list(tmp_path.rglob("*.tmp"))) == 2
        command.send_signal(number)
        assert command.wait() == 128 + number
        assert command.stderr.read() == ""
    assert list(tmp_path.iterdir()) == []


def test_another_signal_ends_the_command_only_if_the_first_was_lost(monkeypatch, heeds_hangups):
    lost, put_right = [], []

    class Finalized:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)

    def with_files():
        try:
            yield
        finally:  # GeneratorExit: nobody asks for more
            os.kill(os.getpid(), signal.SIGTERM)
            put_right.append(with_files)

    def run(arguments):
        Finalized()
        assert [type(one.exc_value) for one in lost] == [SystemExit]
        try:
            for _ in with_files():
                os.kill(os.getpid(), signal.SIGTERM)
        finally:
            for number in (signal.SIGHUP, signal.SIGTERM):
                try:
                    raise FileNotFoundError
                except FileNotFoundError:
                    os.kill(os.getpid(), number)
            put_right.append(run)

    monkeypatch.setattr(sys, "unraisablehook", lost.append)
    install_command(monkeypatch, run, cleans_up=True)
    with pytest.raises(SystemExit) as caught:
        cli.main(["fake"])
    assert caught.value.code == 128 + signal.SIGTERM
    assert put_right == [with_files, run] and len(lost) == 1


def test_a_hangup_that_is_ignored_stays_so(monkeypatch):
    """As under nohup."""
    seen = []
    install_command(monkeypatch, lambda arguments: seen.append(signal.getsignal(signal.SIGHUP)) or 0, cleans_up=True)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert cli.main(["fake"]) == 0
        assert seen == [signal.getsignal(signal.SIGHUP)] == [signal.SIG_IGN]
    finally:
        signal.signal(signal.SIGHUP, before)


PRINTS_MUCH = """
import sys
from linformer_fairseq import cli
from linformer_fairseq.cli import doctor
doctor.run = lambda arguments: [print("line", number) for number in range(int(sys.argv[1]))] and 0
sys.exit(cli.main(["doctor"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("lines", ["1", "100000"])  # one is written when the command ends
def test_a_reader_that_goes_away_is_no_error(lines: str):
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-c", PRINTS_MUCH, lines]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, env=buffered)
    os.close(writer)
    assert done.returncode == 141 and "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("report", "--out", ""),
        ("analyse", "report", ""),
        ("analyse", "attention", "linformer-small", "--text", "", "--out", "x"),
        ("embed", "", "--out", "x.npy"),
    ],
)
def test_an_empty_argument_is_no_path(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as raised:
        cli.main(words)
    assert raised.value.code == 2 and "an argument is empty" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []

"""Check checkpoints, and make small ones to hand on.

`linformer checkpoint verify DIR` reads every checkpoint of a run's folder, holds it against the checksum in it, and
says which one the run would go on from. Files that another program wrote carry no checksum; of them the CRCs of the
zip archive are checked.

`linformer checkpoint release FILE --data DATA --out DIR` makes a folder that `from_pretrained`, `pretrained=` and
`linformer evaluate` take: the weights in half precision without the optimizer, the dictionary and the tokenizer.
"""

from __future__ import annotations

import argparse
import functools
from pathlib import Path
from typing import TYPE_CHECKING

from linformer_fairseq.cli.command import CommandError

if TYPE_CHECKING:
    from linformer_fairseq.training.examine import Examined, Look


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`linformer checkpoint` has subcommands of its own."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    verify = actions.add_parser(
        "verify",
        help="hold checkpoints against their checksums, and say which one a run would go on from",
        description="Check checkpoint files. The exit status is 1 if one is damaged or cannot be loaded.",
    )
    verify.add_argument("paths", type=Path, nargs="+", metavar="DIR_OR_FILE", help="a run's folder, or a checkpoint")
    verify.add_argument(
        "--set-aside",
        action="store_true",
        help="rename the damaged files of a DIR to NAME.damaged and, as the run itself does when it is started again, "
        "put the newest sound one in checkpoint_last.pt's place; the exit status is then 0 if there is one",
    )
    release = actions.add_parser(
        "release",
        help="make a folder to hand on: weights in half precision, dictionary and tokenizer",
        description="Make a folder to hand on of a checkpoint: model.safetensors (weights in half precision, the "
        "options that build the model, a checksum; no optimizer, no pickle), the dictionary and the tokenizer.",
    )
    release.add_argument("checkpoint", type=Path, metavar="FILE", help="checkpoint of a pretraining or a finetuning")
    release.add_argument("--data", type=Path, required=True, metavar="DIR", help="the data that it was trained on")
    release.add_argument("--out", type=Path, required=True, metavar="DIR", help="the folder to make")


def run(arguments: argparse.Namespace) -> int:
    """Verify or release; returns the exit status."""
    try:
        import fairseq  # noqa: F401
    except ModuleNotFoundError:
        raise CommandError("fairseq is not installed; `linformer doctor` says how to get it") from None
    return _verify(arguments) if arguments.action == "verify" else _release(arguments)


def _release(arguments: argparse.Namespace) -> int:
    from linformer_fairseq.releasing import release

    try:
        for path in release(arguments.checkpoint, arguments.data, arguments.out):
            print(f"{path}: {path.stat().st_size:,} bytes")
    except OSError as error:
        raise CommandError(f"{error.filename or arguments.out}: {error.strerror or error}") from error
    except ValueError as error:
        raise CommandError(str(error)) from error
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    paths: list[Path] = arguments.paths
    for path in paths:
        if not path.exists():
            raise CommandError(f"{path}: no such file or folder")
        if arguments.set_aside and not path.is_dir():
            raise CommandError(f"--set-aside {path}: expected a run's folder, and this is a file")
    from linformer_fairseq.training.examine import examine

    look = functools.cache(examine)  # each file is read once
    try:
        good = [_folder(path, look, arguments.set_aside) if path.is_dir() else _line(look(path)) for path in paths]
    except OSError as error:
        raise CommandError(f"{error.filename or paths[0]}: {error.strerror or error}") from error
    return 0 if all(good) else 1


def _folder(folder: Path, look: Look, set_aside: bool) -> bool:
    """Print a line per checkpoint and what a run goes on from; whether all is well."""
    from linformer_fairseq.training.checkpoint_folder import choose, put_aside, put_right
    from linformer_fairseq.training.examine import State

    files = sorted({*folder.glob("checkpoint*.pt"), *folder.glob("crash.pt")})
    if not files:  # no run's folder
        if not (files := sorted({*folder.glob("*.pt"), *folder.glob("*.safetensors")})):
            raise CommandError(f"{folder}: no checkpoints there (*.pt, *.safetensors)")
        sound = [_line(look(path)) for path in files]  # a line for each, also after a damaged one
        return all(sound)
    usable = [_line(look(path)) for path in files]
    choice = choose(folder, look=look)
    if choice.chosen is None or not choice.chosen.usable:
        print(f"{folder}: nothing to go on from")
        return False
    print(f"{folder}: a run goes on from {choice.chosen.path.name} ({choice.chosen.updates} updates)")
    if not set_aside:
        return all(usable)
    moved = dict(zip((examined.path for examined in choice.damaged), put_right(choice, folder), strict=True))
    others = [path for path in files if path not in moved and look(path).state is State.DAMAGED]
    moved |= {path: put_aside(path) for path in others}
    for path, aside in moved.items():
        print(f"{path} -> {aside.name}")
    if choice.passed_over or choice.missing:
        print(f"{choice.chosen.path} copied to checkpoint_last.pt")
    return True


def _line(examined: Examined) -> bool:
    updates = "" if examined.updates is None else f", {examined.updates:,} updates"
    reason = f" ({examined.reason})" if examined.reason else ""
    print(f"{examined.path}: {examined.state.value}{reason}{updates}, {examined.size:,} bytes")
    return examined.usable

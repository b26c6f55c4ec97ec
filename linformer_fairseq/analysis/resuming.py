"""A measurement over many blocks that is finished at once if it is there, and that goes on if it was stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linformer_fairseq.analysis.blocks import Chosen
from linformer_fairseq.analysis.record import check_settings, origin, read_record, write_record
from linformer_fairseq.analysis.sums import Sums
from linformer_fairseq.files.memory import enough_memory

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def measured(
    kind: str,
    settings: DataclassInstance,
    out: Path,
    choose: Callable[[], Chosen],
    compute: Callable[[Sums], dict[str, Any]],
    batch: int,
    command: str,
) -> dict[str, Any]:
    """Measure, or go on with a stopped run.

    Args:
        kind: of the record; gives the files their names, KIND.json and, until it is finished, KIND.partial.npz.
        settings: all that the result depends on. With the same ones a finished result is returned as it is.
        out: folder of the result.
        choose: chooses the blocks, where no earlier run has.
        compute: adds what is missing to the sums, and makes the rest of the record of them.
        batch: blocks at a time, for the message if memory is lacking.
        command: for the record.

    Returns:
        The record, which is written to ``out``.

    Raises:
        UserError: ``out`` has results of other settings, or memory is lacking.
        OSError: a file cannot be written.
    """
    done, partial, plain = out / f"{kind}.json", out / f"{kind}.partial.npz", asdict(settings)
    if done.exists():
        found = read_record(done, kind)
        check_settings(done, found["settings"], plain)
        return found
    if partial.exists():
        sums = Sums.read(partial)
        check_settings(partial, sums.settings, plain)
    else:
        rows, available = choose()
        sums = Sums(partial, plain, rows, {"available": available})
        sums.write()
    try:
        with enough_memory(f"--batch {batch}: try a smaller one, or --device cpu"):
            found = compute(sums)
    finally:
        sums.write()
    record = {"kind": kind, "settings": plain, "provenance": origin(command), **found}
    write_record(done, record)
    partial.unlink()
    return record

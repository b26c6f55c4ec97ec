"""A plan as lines of text."""

from __future__ import annotations

from linformer_fairseq.planning.memory import size_text
from linformer_fairseq.planning.plan import Plan

_LABEL = 12
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")


def report(plan: Plan) -> list[str]:
    """Lines that begin with a label, numbers with thousands separators; warnings last."""
    rows = {
        "run": f"{plan.name} ({plan.stage})",
        "model": _model(plan),
        "parameters": _parameters(plan),
        "per token": _per_token(plan),
        "update": f"{plan.sequences_per_update:,} {_sequences(plan)} = {plan.tokens_per_update:,.0f} tokens, "
        f"{_flops(plan.flops_per_update)} forward and backward",
        "total": f"{plan.updates:,} updates, {plan.total_tokens:,.0f} tokens, "
        f"{_flops(plan.updates * plan.flops_per_update)}",
        "data": _data(plan),
        "time": _time(plan),
        "memory": _memory(plan),
        "disk": _disk(plan),
    }
    return [f"{label:<{_LABEL}}{text}" for label, text in rows.items()] + [
        f"{'warning:':<{_LABEL}}{text}" for text in plan.warnings
    ]


def _model(plan: Plan) -> str:
    """The model's sizes and attention."""
    sizes = plan.sizes
    text = f"{sizes.layers} layers, width {sizes.width:,}, {sizes.heads} heads, n {sizes.n:,}, "
    if sizes.settings is None:
        return text + "attention n x n"
    settings = sizes.settings
    kind = "" if settings.projection == "linear" else f", projection {settings.projection}"
    return text + f"k {settings.projected_dim}, sharing {settings.sharing}{kind}"


def _flops(count: float) -> str:
    """A number of FLOPs with an SI prefix."""
    power = next((p for p in range(len(_PREFIXES) - 1) if count < 1000 ** (p + 1)), len(_PREFIXES) - 1)
    return f"{count / 1000**power:,.1f} {_PREFIXES[power]}FLOPs"


def _parameters(plan: Plan) -> str:
    sizes = plan.sizes
    projections = f", {sizes.projections:,} of them in E and F" if sizes.projections and not sizes.frozen else ""
    frozen = f" and {sizes.frozen:,} frozen elements of E and F" if sizes.frozen else ""
    return f"{plan.parameters:,}{projections}{frozen}; vocabulary {sizes.vocabulary:,} ({plan.data.vocabulary_source})"


def _per_token(plan: Plan) -> str:
    forward, training, again = (
        _flops(count / plan.length) for count in (plan.flops.forward, plan.flops.training, plan.flops.recomputed)
    )
    recomputed = f", {again} of them recomputed activations" if plan.flops.recomputed else ""
    return f"{forward} forward, {training} forward and backward{recomputed}"


def _sequences(plan: Plan) -> str:
    if plan.data.sequences:
        return f"sequences of {plan.length:,.1f} on average"
    if not plan.sizes.classes:
        return f"sequences of {plan.length:,.0f}"
    return f"sequences of at most {plan.length:,.0f}"


def _data(plan: Plan) -> str:
    if plan.data.tokens is None or plan.epochs is None:
        return "not counted, so the number of epochs is unknown"
    examples = f"{plan.data.sequences:,} examples, " if plan.data.sequences else ""
    epochs = f"{plan.epochs:,.2f}" if plan.epochs >= 0.01 else "less than 0.01"
    return f"{examples}{plan.data.tokens:,} tokens: {epochs} epochs"


def _time(plan: Plan) -> str:
    devices = f"{plan.world_size:,} device{'s' if plan.world_size > 1 else ''}"
    if plan.time is None:
        return f"not known on {devices}: measure it, then set run.plan.tokens_per_second=NUMBER (of one device)"
    device_hours = plan.time.hours * plan.world_size
    return f"{plan.time.hours:,.1f} hours on {devices} ({device_hours:,.1f} device hours) {plan.time.basis}"


def _memory(plan: Plan) -> str:
    memory = plan.memory
    parts = ", ".join(
        f"{name} {size_text(getattr(memory, name))}"
        for name in ("parameters", "gradients", "optimizer", "activations", "program")
    )
    verdict = "fits" if memory.fits else "may not fit"
    return f"about {size_text(memory.total)} ({parts}) of {size_text(memory.device)} {memory.device_name}: {verdict}"


def _disk(plan: Plan) -> str:
    disk = plan.disk
    one, free = f"{size_text(disk.checkpoint)} per checkpoint", f"{size_text(disk.free)} free in {disk.folder}"
    if disk.kept is None:
        return f"{one}, one per epoch; {free}"
    return f"{one}, at most {disk.kept:,} at a time: {size_text(disk.kept * disk.checkpoint)}; {free}"

"""The time of a step in words: seconds, what takes them, tokens and model FLOPs utilization."""

from __future__ import annotations

from collections.abc import Iterable

from jobgen.cli.layout import format_percent
from jobgen.strategy.estimate import ClusterHardware, StepTime, WorkUnit


def format_speed(step: StepTime, machine: ClusterHardware) -> str:
    """A step in seconds and what takes them, the work of each GPU, and model FLOPs utilization."""
    spent = [
        f"{name} {format_time(amount)}" for name, amount in divide_step(step).items() if amount > 0
    ]
    if step.seconds <= 0:
        return "step: unknown"
    told = f"step {format_time(step.seconds)} ({', '.join(spent)}); {format_rate(step)}"
    return f"{told}, MFU {format_percent(compute_mfu(step, machine))}" if machine.peak > 0 else told


def format_rate(step: StepTime) -> str:
    """``3,293 tokens/s/GPU``, or samples."""
    return f"{format_number(step.rate)} {step.unit}/s/GPU"


def format_gain(gain: float, unit: WorkUnit) -> str:
    """``33 % more tokens/s``; ``2.6 times the tokens/s`` from twice as many."""
    amount = f"{1 + gain:.1f} times the" if gain >= 1 else f"{format_percent(gain)} more"
    return f"{amount} {unit}/s"


def join_sets(changes: Iterable[str]) -> str:
    """``--set train.strategy=zero3 --set train.tp=2``, of changes as the job writes them."""
    return " ".join(f"--set {change.replace(': ', '=', 1)}" for change in changes)


def format_number(rate: float) -> str:
    """Whole from ten on, else with two digits."""
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.2g}"


def compute_mfu(step: StepTime, machine: ClusterHardware) -> float:
    """Model FLOPs utilization: the part of the peak that useful arithmetic reaches."""
    whole = step.seconds * machine.peak
    return step.flops / whole if whole > 0 else 0.0


def divide_step(step: StepTime) -> dict[str, float]:
    """Seconds of a step by what takes them; they sum to it."""
    return {
        "compute": step.compute,
        "exposed communication": step.exposed,
        "bubble": step.bubble,
        "update": step.update,
        "offload": step.offload,
    }


def format_time(amount: float) -> str:
    """``12 ms``, ``2.31 s``, ``95 s``, ``12 min``."""
    if amount < 1:
        return f"{amount * 1000:.0f} ms"
    if amount < 9.995:
        return f"{amount:.2f} s"
    if amount < 99.95:
        return f"{amount:.1f} s"
    return f"{amount:.0f} s" if amount < 600 else f"{amount / 60:.0f} min"


def compute_exposed(step: StepTime) -> float:
    """The part of a step in which only the network works."""
    whole = step.seconds
    return step.exposed / whole if whole > 0 else 0.0

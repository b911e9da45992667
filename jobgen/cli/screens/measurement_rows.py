"""What a person's own runs and benches have measured, apart from the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobgen.cli.layout import align, fold
from jobgen.cli.output import TIMES, Ink, defuse
from jobgen.strategy.estimate import GIB

if TYPE_CHECKING:
    from jobgen.app.advising import Advised
    from jobgen.app.calibration import Calibration
    from jobgen.app.run_comparison import RunComparison

_APPLY = "--calibrated applies {}"


def draw_measurements(found: Advised, ink: Ink, *, brief: bool = False) -> list[str]:
    """The block of what was measured on the cluster; ``brief``: what says most, in a line. Empty
    where nothing was measured."""
    rows = _list_rows(found)
    if not rows:
        return []
    if brief:
        name, text = rows[0]
        title = f"{ink('strong', 'Measured')}  "
        return [f"{title}{fold(f'{name}: {text}', ink.width - 10, ' ' * 10)}\n"]
    return [f"{ink('strong', 'Measured')}\n{align(rows, indent='  ')}"]


def _list_rows(found: Advised) -> list[tuple[str, str]]:
    known = found.known
    if known is None:
        return []
    rows = []
    kept = known.calibration
    if kept.runs:
        text = f"{describe_calibration(kept)}; {_say_applied(found, 'them')}"
        rows.append((f"your runs on {defuse(kept.cluster)}", text))
    tokens = {run.token for run in kept.runs}
    for run in known.runs:
        parts = [_describe_peak(run), "" if run.token in tokens else _describe_use(run)]
        rows.append((defuse(run.alias), "; ".join(part for part in parts if part)))
    for link in known.links:
        how = _say_applied(found, "it") if known.used_links else "your runs' steps include it"
        rows.append((defuse(link.alias), f"{link.text.partition(',')[0]}; {how}"))
    return rows


def _say_applied(found: Advised, what: str) -> str:
    return "applied" if found.calibrated else _APPLY.format(what)


def describe_calibration(kept: Calibration) -> str:
    """How many there are, and the median of each ratio."""
    ratios = {"memory": kept.memory, "step": kept.step}
    words = [f"{name} {TIMES}{ratio:.2f}" for name, ratio in ratios.items() if ratio]
    return ", ".join([str(len(kept.runs)), *words])


def _describe_peak(run: RunComparison) -> str:
    """``51.2 GiB allocated, 49.1 estimated (+4%)``."""
    peak = run.choose_memory(force=True)
    if peak is None or not peak.ratio or not peak.planned:
        return "no peak"
    measured, planned = peak.measured / GIB, peak.planned / GIB
    return f"{measured:.1f} GiB {peak.name}, {planned:.1f} estimated ({peak.ratio - 1:+.0%})"


def _describe_use(run: RunComparison) -> str:
    """How a run is kept for later plans, or why ``calibrate`` does not keep it."""
    if run.objection:
        return run.objection.reason
    force = "" if run.is_useful() else " --force"
    return f"jobgen calibrate{force} {defuse(run.alias)} keeps it"


def dump_measurements(found: Advised) -> dict[str, Any]:
    """What was measured as plain data."""
    known = found.known
    runs, links = (known.runs, known.links) if known else ((), ())
    kept = known.calibration if known else None
    return {
        "measured": [_dump_run(run) for run in runs],
        "calibrated": found.calibrated,
        "calibration": dump_calibration(kept) if kept and kept.runs else None,
        "measured_links": [
            {"id": one.alias, "nodes": one.nodes, "busbw_bytes_s": one.busbw, "alpha_s": one.alpha}
            for one in links
        ],
    }


def _dump_run(run: RunComparison) -> dict[str, Any]:
    peak = run.choose_memory(force=True)
    return {
        "id": run.alias,
        "metric": peak and peak.name,
        "peak_bytes": peak and peak.measured,
        "expected_bytes": peak and peak.planned,
        "tokens_per_second": run.speed,
    }


def dump_calibration(kept: Calibration) -> dict[str, Any]:
    """What is kept of a cluster's GPUs as plain data."""
    return {
        "cluster": kept.cluster,
        "gpu": kept.gpu,
        "file": kept.path,
        "runs": [run.alias for run in kept.runs],
        "memory_ratio": kept.memory,
        "step_ratio": kept.step,
    }

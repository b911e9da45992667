"""All that the planner says: the screen, the reasons of ``--why``, and the plain data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from jobgen.cli.layout import clip, fold_rows
from jobgen.cli.output import Ink, defuse
from jobgen.cli.screens import memory, remedies, scaling, strategies
from jobgen.cli.screens.measured_rows import dump_measured
from jobgen.cli.screens.memory import fold_foreign
from jobgen.cli.screens.memory_parts import round_parts
from jobgen.cli.screens.step_speed import compute_mfu, divide_step
from jobgen.strategy.choice.assumptions import list_assumptions
from jobgen.strategy.choice.nearest import find_nearest
from jobgen.strategy.choice.offer import Advice, Faster, Lever, StrategyOption
from jobgen.strategy.estimate import GIB, ClusterHardware, Component, GpuMemory, StepTime, WorkUnit


def screen(
    advice: Advice,
    ink: Ink,
    *,
    reasons: bool = False,
    every: bool = False,
    nodes: Sequence[int] = (),
) -> str:
    """The memory with its bar, the strategies, what would help, the scaling; with all reasons, and
    with every strategy and change that was tried. ``nodes`` are the sizes that were asked for."""
    parts = [
        memory.screen(advice, ink),
        strategies.screen(advice, ink, every=every),
        remedies.screen(advice, ink, every=every),
        scaling.screen(advice, nodes, ink),
        draw_why(advice, ink) if reasons else "Estimates; formulas and sources: --why\n",
    ]
    return "\n".join(part for part in parts if part)


def draw_why(advice: Advice, ink: Ink) -> str:
    """Every formula with its inputs and its source, and how the strategy was chosen."""
    option = advice.first_option
    parts = [_listed("How the strategy was chosen", advice.why, ink)]
    if option is not None:
        components = [part for part in option.memory.components if part.bytes > 0]
        rows = [
            (defuse(part.title), f"{amount} GiB", _sourced(part))
            for part, amount in zip(components, round_parts(components), strict=True)
        ]
        head = f"Memory formulas, {defuse(option.title)}"
        parts.append(f"{ink('strong', clip(head, ink.width))}\n{_formulas(rows, ink)}")
        parts.append(_listed("Step time formulas", option.step.why if option.step else (), ink))
    parts.append(_listed("Assumptions", advice.doubts, ink))
    return "\n".join(part for part in parts if part)


def _formulas(rows: Iterable[tuple[str, str, str]], ink: Ink) -> str:
    """Beside the amounts where there is room, else below."""
    if ink.width >= 60:
        return fold_rows([(k, v, defuse(why)) for k, v, why in rows], ink.width)
    return "".join(
        f"  {k} {v}\n    {fold_foreign(why, ink.width - 4, '    ')}\n" for k, v, why in rows
    )


def _sourced(part: Component) -> str:
    return f"{part.formula} ({part.source})" if part.source else part.formula


def _listed(title: str, lines: Iterable[str], ink: Ink) -> str:
    text = "".join(f"  {fold_foreign(line, ink.width - 4, '    ')}\n" for line in lines)
    return f"{ink('strong', title)}\n{text}" if text else ""


# --json


def data(advice: Advice) -> dict[str, Any]:
    """Everything that was said, as plain data. The unit stands in the key's name."""
    option = advice.first_option
    program = _dump_program(option, advice) if option else {}
    return {
        "gpu": advice.machine.gpu,
        "limit_bytes": advice.limit,
        "measured_model": None,
        **program,
        "chosen": advice.chosen.name if advice.chosen else None,
        "faster": advice.faster and _faster_data(advice.faster),
        "strategies": [dump_option(o, advice) for o in (*advice.options, *advice.others)],
        "levers": [_lever_data(lever, advice.unit) for lever in advice.levers],
        "smallest_nodes": advice.smallest_nodes,
        "smallest_by": advice.smallest_by or None,
        "scaling": [
            {
                "nodes": one.nodes,
                f"{advice.unit}_per_second": one.rate,
                "efficiency_pct": round(one.efficiency * 100, 2),
                f"ideal_{advice.unit}_per_second": scaling.compute_ideal(one, advice.scale),
                **dump_option(one.option, advice),
            }
            for one in advice.scale
        ],
        "assumed_network": advice.assumed_network or advice.scale_network or None,
        "doubts": list(advice.doubts),
        "why": list(advice.why),
    }


def _dump_program(option: StrategyOption, advice: Advice) -> dict[str, Any]:
    """What is known of the program: measured, assumed with what the alternative would change, and
    of the published run that is most like it."""
    setup = option.setup
    run = find_nearest(setup)
    nearest = {name: value for name, value in run._asdict().items() if name != "gib"} if run else {}
    return {
        "measured_model": dump_measured(setup),
        "assumptions": [
            {
                "assumed": each.assumed,
                "alternative": each.alternative,
                "change_bytes": each.change,
                "verdict": each.memory.judge(advice.limit),
            }
            for each in list_assumptions(setup, advice.factor)
        ],
        "nearest_run": run and {**nearest, "measured_bytes": run.gib * GIB},
    }


def _faster_data(faster: Faster) -> dict[str, Any]:
    return {
        "name": faster.option.name,
        "changes": list(faster.changes),
        "faster_pct": round(faster.gain * 100, 2),
    }


def _lever_data(lever: Lever, unit: WorkUnit) -> dict[str, Any]:
    return {
        "change": lever.change,
        "changes": list(lever.changes),
        "saves_bytes": lever.saves,
        "slower_pct": round(lever.slower * 100, 2),
        f"{unit}_per_second": lever.rate or None,
        "memory_bytes": lever.memory,
        "fits": lever.fits,
        "verdict": lever.verdict,
    }


def dump_option(option: StrategyOption, advice: Advice) -> dict[str, Any]:
    """One row of the table as plain data."""
    setup = option.setup
    return {
        "name": option.name,
        "title": option.title,
        "chosen": option.chosen,
        "verdict": option.verdict,
        "note": option.note or None,
        "strategy": setup.strategy,
        "mesh": {**setup.mesh._asdict(), "etp": setup.mesh.expert_tp},
        "batch": {**setup.batch._asdict(), "total": setup.batch.total},
        "seq_len": setup.seq,
        "assumed": list(setup.assumed),
        "recipe": setup.recipe.name,
        "recompute": setup.recompute,
        "offload": setup.offload._asdict(),
        "memory": _memory_data(option.memory, advice.limit),
        "step": _step_data(option.step, advice.machine),
    }


def _memory_data(memory: GpuMemory, limit: float) -> dict[str, Any]:
    """One option's memory as plain data."""
    total, allocated = memory.nvidia_smi, memory.get_interval("allocated")
    return {
        "components": [
            {
                "name": part.name,
                "size_bytes": part.bytes,
                "formula": part.formula,
                "source": part.source,
                "shrinks": part.shrinks,
            }
            for part in memory.components
        ],
        "moment": memory.moment,
        "pipeline_rank": memory.pipeline_rank,
        "allocated_bytes": memory.get_peak("allocated"),
        "allocated_low_bytes": allocated[0],
        "allocated_high_bytes": allocated[1],
        "needed_bytes": memory.needed,
        "reserved_bytes": memory.get_peak("reserved"),
        "nvidia_smi_bytes": total,
        "low_bytes": memory.low,
        "high_bytes": memory.high,
        "headroom_pct": round((limit - memory.needed) / limit * 100, 2) if limit > 0 else None,
        "host_bytes": memory.host,
        "pinned_bytes": memory.pinned,
        "nvme_bytes": memory.nvme,
        "checkpoint_bytes": memory.checkpoint,
        "doubts": list(memory.doubts),
    }


def _step_data(step: StepTime | None, machine: ClusterHardware) -> dict[str, Any] | None:
    """One option's step as plain data."""
    if step is None or step.seconds <= 0:
        return None
    spent = {f"{name.replace(' ', '_')}_seconds": s for name, s in divide_step(step).items()}
    return {
        "step_seconds": step.seconds,
        **spent,
        step.unit: step.work,
        f"{step.unit}_per_second": step.work / step.seconds,
        f"{step.unit}_per_second_per_gpu": step.rate,
        "mfu_pct": round(compute_mfu(step, machine) * 100, 2),
        "communication": [
            {
                "what": volume.what,
                "link": volume.link,
                "sent_bytes": volume.bytes,
                "total_seconds": volume.seconds,
                "exposed_seconds": volume.exposed,
            }
            for volume in step.volumes
        ],
        "why": list(step.why),
    }

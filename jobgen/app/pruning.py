"""``prune``: what ended runs hold on a cluster, and its removal.

A run is live, and never touched, unless its end is known for good: one that is LOST, unknown, held
or pending is live, and so is one that a live run waits for. The scheduler is asked before anything
is shown, and again by the script that removes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from jobgen.app import jobs
from jobgen.errors import JobgenError, Usage
from jobgen.named_tuple import NamedTuple
from jobgen.scheduler import get_scheduler
from jobgen.submission import scripts, wire
from jobgen.transport import Payload
from jobgen.wording import count, join_words

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.model.record import RunRecord, Site
    from jobgen.transport import Transport

Part = Literal["sources", "logs", "outputs", "scripts"]
What = Literal["sources", "logs", "runs"]
PARTS: Mapping[What, tuple[Part, ...]] = {
    "sources": ("sources",),
    "logs": ("logs",),
    "runs": ("sources", "logs", "scripts"),
}
"""What is removed of a run. Scripts are the rendered ones and what the job recorded. Outputs, which
the program wrote, are removed on request only."""
DEADLINE = 3600.0
"""Seconds in which a shared file system has told or removed all."""
_ROW = re.compile(r"(\d{1,19}) (\d{1,19}) (\d{1,19}) (\d{1,19}) (/.+)")
_DEPENDENCY = re.compile(r"--dependency=(\S+)")


class Selection(NamedTuple):
    """Which runs are meant."""

    refs: tuple[str, ...] = ()
    older_than: float | None = None
    """Seconds since the end."""
    larger_than: int | None = None
    """Bytes that would be removed."""
    states: tuple[str, ...] = ()

    @property
    def chooses(self) -> bool:
        """Whether it names or describes runs; else all that have ended are listed."""
        return any(value not in ((), None) for value in self)


class HeldRun(NamedTuple):
    """A run that has ended, and the bytes that it holds."""

    record: RunRecord
    ended: float
    """Seconds since its end became known."""
    sizes: Mapping[Part, int]

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return sum(self.sizes.values())

    def measure(self, parts: Sequence[Part]) -> int:
        """Bytes of some parts."""
        return sum(self.sizes[part] for part in parts)


class Inventory(NamedTuple):
    """What the runs of a cluster hold."""

    site: Site
    held: tuple[HeldRun, ...]
    """Runs that have ended and are selected, the largest first, then the oldest."""
    live: tuple[RunRecord, ...]
    """Runs that may still need their files."""
    others: int = 0
    """Ended runs that are not selected."""


class Pruned(NamedTuple):
    """What became of one run."""

    held: HeldRun
    outcome: Literal["removed", "live", "missing", "failed"]
    text: str = ""
    """What could not be removed, in the words of the cluster."""


def list_parts(what: What, *, outputs: bool) -> tuple[Part, ...]:
    """The parts to be removed, in the order of their removal."""
    chosen = (*PARTS[what], *(("outputs",) if outputs else ()))
    order: tuple[Part, ...] = ("sources", "logs", "outputs", "scripts")
    return tuple(part for part in order if part in chosen)


def take_inventory(
    world: World, cluster: str | None, selection: Selection, parts: Sequence[Part]
) -> Inventory:
    """What ended runs hold on a cluster, asked and measured over one connection.

    Raises Missing for an unknown run, Usage where the cluster is not clear or a run is live,
    Unreachable.
    """
    chosen = [world.ledger.get(ref, exact=True) for ref in selection.refs]
    site, records = _choose_site(world, cluster, chosen)
    with world.connect(site.login) as transport:
        stale = [record for record in records if not record.settled]
        fresh = {r.token: r for r in (jobs.observe(world, transport, stale) if stale else ())}
        records = [fresh.get(record.token, record) for record in records]
        live = _list_live(records)
        ended = [record for record in records if record.token not in live and record.directory]
        sizes = _read_sizes(transport, [record.directory for record in ended])
    totals = {r.token: sum(sizes[r.directory].values()) for r in ended if r.directory in sizes}
    world.ledger.set_held(site.cluster, totals)
    for record in chosen:
        if record.token in live:
            hint = "only runs whose end is known are pruned"
            raise Usage(f"{record.alias} is live: {live[record.token]}", hint=hint)
    now = world.now()
    held = [
        HeldRun(record, max(now - record.updated, 0), sizes[record.directory])
        for record in ended
        if record.directory in sizes
    ]
    wanted = {record.token for record in chosen}
    selected = [run for run in held if _is_selected(run, selection, wanted, parts)]
    selected.sort(key=lambda run: (-run.total, -run.ended))
    alive = tuple(record for record in records if record.token in live)
    return Inventory(site, tuple(selected), alive, len(held) - len(selected))


def prune(world: World, inventory: Inventory, parts: Sequence[Part]) -> tuple[Pruned, ...]:
    """Remove these parts of the runs of an inventory, unless the scheduler lists one as live.

    Raises JobgenError where the scheduler does not answer: then nothing was removed.
    """
    scheduler = get_scheduler(inventory.site)
    records = [run.record for run in inventory.held]
    known = [record.job for record in records if record.job]
    script = scripts.prune(
        ((record.directory, record.token) for record in records),
        scheduler.find_states(known),
        parts,
    )
    with world.connect(inventory.site.login) as transport:
        result = transport.call(script, deadline=DEADLINE)
    frames = wire.parse_complete_frames(result.out)
    failed = wire.index(frames).get("failed")
    if failed is not None:
        hint = "nothing was removed; try again when squeue answers"
        raise JobgenError(f"the scheduler does not answer: {failed.strip()}", hint=hint)
    replies = dict(wire.split(frames, "run"))
    done = [_read_outcome(run, replies.get(run.record.directory, {})) for run in inventory.held]
    for each in done:
        if each.outcome == "removed":
            text = f"removed {join_words(parts, 'and')} from the cluster"
            emptied = "sources" in parts and not each.held.sizes["outputs"]
            data = {"parts": list(parts), "emptied": emptied}
            world.ledger.note(each.held.record.token, "pruned", text, data)
    left = {each.held.record.token: 0 for each in done if each.outcome == "missing"}
    removed = [each.held for each in done if each.outcome == "removed"]
    left |= {run.record.token: run.total - run.measure(parts) for run in removed}
    world.ledger.set_held(inventory.site.cluster, left)
    return tuple(done)


def _read_outcome(run: HeldRun, reply: Mapping[str, Sequence[str]]) -> Pruned:
    if "live" in reply or "missing" in reply:
        return Pruned(run, "live" if "live" in reply else "missing")
    if "gone" not in reply:
        return Pruned(run, "failed", "no answer")
    said = "".join(reply.get("said", ())).strip()
    return Pruned(run, "failed" if said else "removed", said)


def _choose_site(
    world: World, cluster: str | None, chosen: Sequence[RunRecord]
) -> tuple[Site, list[RunRecord]]:
    """The cluster that is meant, and all runs on it."""
    records = world.ledger.list_runs(cluster=cluster)
    names = dict.fromkeys(record.site.cluster for record in chosen or records)
    if not names:
        where = f" on {cluster}" if cluster else ""
        raise Usage(f"no runs{where}", hint="jobgen ls --all lists all; jobgen recover -c NAME")
    if len(names) > 1:
        hint = f"choose one: {', '.join(f'-c {name}' for name in list(names)[:3])}"
        raise Usage(f"there are runs on {count(len(names), 'cluster')}", hint=hint)
    (name,) = names
    # a profile may have changed: what is removed is below the root of the newest run
    mine = [record for record in records if record.site.cluster == name]
    site = mine[0].site._replace(inside="", nodes=0)
    return site, [r for r in mine if (r.site.login, r.site.root) == (site.login, site.root)]


def _list_live(records: Sequence[RunRecord]) -> dict[str, str]:
    """Token → why a run must be left alone."""
    live = {r.token: str(r.state) for r in records if not r.settled}
    needed: dict[int, str] = {}
    for record in records:
        if record.token in live:
            for option in record.submission.get("options", ()):
                if match := _DEPENDENCY.fullmatch(option):
                    needed |= dict.fromkeys(map(int, re.findall(r"\d+", match[1])), record.alias)
    waited = [r for r in records if r.job and r.job.job in needed and r.token not in live]
    return live | {r.token: f"{needed[r.job.job]} waits for it" for r in waited if r.job}


def _is_selected(
    run: HeldRun, selection: Selection, wanted: set[str], parts: Sequence[Part]
) -> bool:
    size = run.measure(parts)
    return (
        (not wanted or run.record.token in wanted)
        and (selection.older_than is None or run.ended > selection.older_than)
        and (selection.larger_than is None or size > selection.larger_than)
        and (not selection.states or run.record.state in selection.states)
        and (size > 0 or not selection.chooses)
    )


def _read_sizes(transport: Transport, directories: Sequence[str]) -> dict[str, Mapping[Part, int]]:
    """Directory → bytes of each part, of those that are there."""
    names = [name for name in directories if "\n" not in name]
    text = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
    result = transport.call(scripts.measure(), Payload(len(text), [text]), deadline=DEADLINE)
    try:
        answer = wire.index(wire.split_frames(result.out))["sizes"]
    except (wire.GarbledError, KeyError) as error:
        raise JobgenError(f"the run directories cannot be measured: {result.error_text}") from error
    matches = [_ROW.fullmatch(row) for row in answer.split("\n")]
    return {
        match[5]: {
            "sources": int(match[1]),
            "logs": int(match[2]),
            "outputs": int(match[3]),
            "scripts": int(match[4]),
        }
        for match in matches
        if match
    }

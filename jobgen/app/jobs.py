"""The runs: listed, shown, waited for. Each cluster is asked once, for all of its jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from jobgen.app.world import World
from jobgen.errors import JobgenError, TimedOut, Unreachable
from jobgen.model.record import JobState, RunRecord
from jobgen.named_tuple import NamedTuple

if TYPE_CHECKING:
    from jobgen.app.array_elements import ElementRow
    from jobgen.app.monitor_reports import Watched
    from jobgen.app.run_origin import KeptOrigin
    from jobgen.transport import Transport

FRESH = 10.0
"""Seconds for which a state is shown again without asking the cluster."""
LOST_FOR = 86_400.0
"""Seconds for which ``ls`` asks about a run that is LOST; the other verbs always ask."""
SHORTEST, LONGEST = 1.0, 15.0
"""Seconds between two questions about a job that somebody waits for."""
QUEUED = 30.0
"""The same for a job that is not running yet, on a real cluster."""


class Happening(NamedTuple):
    """One event of a run: seconds since 1970, and what happened."""

    time: float | None
    text: str
    kind: str = ""
    """As the run database names it."""


class RunView(NamedTuple):
    """One run: its record, what happened to it, and where its files are."""

    record: RunRecord
    timeline: tuple[Happening, ...]
    files: tuple[tuple[str, str], ...]
    """Label → path on the other side."""
    watched: Watched | None = None
    """What its monitors saw, where it has some."""
    values: Mapping[int, str] = MappingProxyType({})
    """Of a sweep: the values of elements that did not succeed."""
    kept: KeptOrigin | None = None
    """What it was submitted from, if that was asked for."""
    elements: Sequence[ElementRow] = ()
    """Elements that were asked for, or with ``every`` all."""


def observe(
    world: World, transport: Transport, records: Sequence[RunRecord]
) -> tuple[RunRecord, ...]:
    """These records of one site as they are now; the ledger has been told."""
    from jobgen.app.context import RunContext
    from jobgen.app.observing import refresh

    context = RunContext(transport, world.ledger, world.now, world.sleep, world.say)
    return refresh(records, context)


def refresh_stale(
    world: World, records: Sequence[RunRecord], *, fresh: float = 0.0
) -> tuple[RunRecord, ...]:
    """The records, those asked about anew that have not ended and are older than ``fresh``.

    One question a site. Where a site cannot be reached its records stay, and the person is told.
    """
    now = world.now()
    # a time ahead of the clock was written while the clock was wrong
    # and what was just submitted has not been asked about at all
    stale = [
        r
        for r in records
        if _is_open(r, now, fresh)
        and (not 0 <= now - r.updated < fresh or 0 <= now - r.created < fresh)
    ]
    news: dict[str, RunRecord] = {}
    for _, group in groupby(sorted(stale, key=_site), key=_site):
        mine = list(group)
        try:
            with world.connect(mine[0].site.login) as transport:
                news.update({r.token: r for r in observe(world, transport, mine)})
        except Unreachable as error:
            world.say(f"{mine[0].site.cluster}: {error}; showing the last known state")
    return tuple(news.get(r.token, r) for r in records)


def _is_open(record: RunRecord, now: float, fresh: float) -> bool:
    """Whether to ask about this run: of what is LOST, a list asks for a day, other verbs always."""
    lost = record.ended and not record.settled
    return not record.settled and (
        not lost or not fresh or now - float(record.submission.get("gone", 0.0)) < LOST_FOR
    )


def show(world: World, ref: str, *, cached: bool = False, every: bool = False) -> RunView:
    """One run or elements of it, asked about anew. Raises Missing.

    With ``every``, all its elements, and what it was submitted from.
    """
    from jobgen.app import kept_files, monitor_reports
    from jobgen.app.array_elements import find_run, list_named, narrow_run, read_values
    from jobgen.app.failures import learn_causes

    record, elements = find_run(world, ref)
    watched = monitor_reports.recall(record)
    if not cached and not monitor_reports.is_settled(record):
        record, watched = _looked(world, record, watched)
    elif not cached:
        record = refresh_stale(world, (record,))[0]
    if not cached:
        record = learn_causes(world, (record,))[0]
    events = tuple(
        Happening(e.time, e.text, e.kind) for e in world.ledger.list_events(record.token)
    )
    files = kept_files.list_kept_files(world.ledger, record, watched=watched is not None)
    kept = _read_kept(world, record) if every and record.directory and not cached else None
    rows = list_named(world, record, elements) if elements or every else []
    record = narrow_run(record, elements)
    values = {} if rows else read_values(world, record)
    return RunView(record, events, files, watched, values, kept, rows)


def _read_kept(world: World, record: RunRecord) -> KeptOrigin | None:
    from jobgen.app.run_origin import read_kept

    try:
        with world.connect(record.site.login) as transport:
            return read_kept(transport, record)
    except JobgenError as error:
        world.say(f"{record.site.cluster}: {error}; its provenance cannot be read")
        return None


def _looked(
    world: World, record: RunRecord, watched: Watched | None
) -> tuple[RunRecord, Watched | None]:
    """The record asked about anew and what its monitors saw, over one connection."""
    from jobgen.app import monitor_reports

    try:
        with world.connect(record.site.login) as transport:
            if not record.settled:
                record = observe(world, transport, (record,))[0]
            watched = monitor_reports.read_monitors(transport, world.ledger, record)
    except Unreachable as error:
        world.say(f"{record.site.cluster}: {error}; showing the last known state")
    return record, watched


def wait(
    world: World,
    refs: Sequence[str],
    *,
    timeout: float | None = None,
    any_one: bool = False,
    seen: Callable[[RunRecord], None] = lambda _: None,
) -> tuple[RunRecord, ...]:
    """The records once all (or with ``any_one`` the first) have ended; ``seen`` hears changes.

    Of those that failed the cause is known, if their logs can be read. Raises TimedOut after
    ``timeout`` seconds: the jobs go on.
    """
    from jobgen.app.array_elements import find_run, narrow_run

    runs = tuple(find_run(world, ref) for ref in refs)
    records = tuple(record for record, _ in runs)

    def narrowed() -> tuple[RunRecord, ...]:
        return tuple(narrow_run(r, chosen) for r, (_, chosen) in zip(records, runs, strict=True))

    if any(record.ended and not record.settled for record in records):
        records = refresh_stale(world, records)
    end = None if timeout is None else world.now() + timeout
    pause, links = SHORTEST, _Links(world)
    try:
        while not _enough(narrowed(), any_one=any_one):
            before = narrowed()
            records = links.refreshed(records)
            news = _list_news(before, narrowed())
            for record in news:
                seen(record)
            if _enough(narrowed(), any_one=any_one):
                break
            live = (record for record in records if not record.ended)
            pause = SHORTEST if news else min(choose_pause(record, pause) for record in live)
            if end is not None and world.now() >= end:
                left = ", ".join(f"{r.alias} is {r.state}" for r in narrowed() if not r.ended)
                raise TimedOut(f"still going after the timeout: {left}")
            world.sleep(pause if end is None else max(0.0, min(pause, end - world.now())))
    finally:
        links.close()
    from jobgen.app.failures import learn_causes

    records = learn_causes(world, records)
    return narrowed()


def _list_news(before: Sequence[RunRecord], after: Sequence[RunRecord]) -> list[RunRecord]:
    """The records with another state or reason; the elapsed time differs at every look."""
    pairs = zip(before, after, strict=True)
    return [new for old, new in pairs if (old.state, old.reason) != (new.state, new.reason)]


def _enough(records: Sequence[RunRecord], *, any_one: bool) -> bool:
    return (any if any_one else all)(r.ended for r in records)


def choose_pause(record: RunRecord, wait: float) -> float:
    """Seconds until the next question, growing: a controller is not to be asked in a loop."""
    if record.site.scheduler == "local":
        return SHORTEST
    most = QUEUED if record.state is JobState.PENDING else LONGEST
    return min(wait * 1.5, most)


def describe_state(record: RunRecord) -> str:
    """``PENDING (other jobs are ahead)``, ``RUNNING on n1,n2``, ``FAILED, exit code 1``."""
    from jobgen.diagnose import describe_job_exit
    from jobgen.scheduler.reasons import explain_pending

    state = str(record.state)
    if record.state is JobState.UNKNOWN and record.raw:
        state = f"{state} ({record.raw})"
    if record.state.final:
        end = describe_job_exit(record.exit, cancelled=record.state is JobState.CANCELLED)
        return f"{state}, {end}" if end else state
    if record.reason and record.reason != "None":
        return f"{state} ({explain_pending(record.reason)})"
    return f"{state} on {record.nodes}" if record.nodes else state


def _site(record: RunRecord) -> tuple[str, str]:
    return (record.site.cluster, repr(record.site.login))


class _Links:
    """Connections kept while somebody waits; a lost one is dialled again at the next look."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: dict[tuple[str, str], Transport] = {}
        self._broken: set[tuple[str, str]] = set()

    def refreshed(self, records: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
        news: dict[str, RunRecord] = {}
        live = [r for r in records if not r.ended]
        for site, group in groupby(sorted(live, key=_site), key=_site):
            news.update({r.token: r for r in self._ask(site, list(group))})
        return tuple(news.get(r.token, r) for r in records)

    def _ask(self, site: tuple[str, str], mine: list[RunRecord]) -> Sequence[RunRecord]:
        try:
            if site not in self._open:
                self._open[site] = self._world.connect(mine[0].site.login)
            found = observe(self._world, self._open[site], mine)
        except Unreachable as error:
            if site not in self._broken:
                self._world.say(f"{site[0]}: {error}; trying again")
                self._broken.add(site)
            if site in self._open:
                self._open.pop(site).close()
            return mine
        self._broken.discard(site)
        return found

    def close(self) -> None:
        for transport in self._open.values():
            transport.close()
        self._open.clear()

"""Checks of a cluster over one connection: the connection itself, then one script of questions."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from jobgen.errors import Diagnostic, JobgenError, Unreachable
from jobgen.submission import wire
from jobgen.survey.health import (
    Answer,
    Finding,
    disk,
    fail,
    host,
    judge_rows,
    questions,
    reach,
    reality,
    slurm_checks,
)
from jobgen.survey.health.host import Clock

if TYPE_CHECKING:
    from jobgen.app.world import World
    from jobgen.model.cluster import ClusterProfile
    from jobgen.model.loaded import Loaded
    from jobgen.model.record import Login, Site
    from jobgen.survey.compare import Comparison
    from jobgen.transport import Transport

FIRST = 40.0
"""Seconds that a login shell may take until it runs anything."""
MOST = 8 << 20
"""Bytes of answers that are kept; what comes after them is dropped."""
TRIAL = "name: jobgen-doctor\nrun: 'true'\nlauncher: plain\nnodes: 1\ntime: 1m\n"
"""The job that Slurm is asked about: one node of the profile, whole."""

Told = dict[str, Answer]


def list_findings(
    world: World, name: str, profile: Loaded[ClusterProfile], site: Site
) -> Iterator[Finding]:
    """The findings on the way to a job of this profile, as they are made."""
    login = site.login
    group = f"Connection to {login.host or 'this machine'}"
    begun = time.monotonic()
    way = _way(login)
    try:
        if way.problem:
            raise Unreachable(way.problem)
        transport = world.connect(login)
    except Unreachable as error:
        broken = way._replace(problem=error.problems[0])
        took = {broken.broken: time.monotonic() - begun}
        yield from judge_rows(group, reach.ROWS, broken._replace(took={**way.took, **took}))
        return
    with transport:
        way, clock = _first(transport, way)
        if login.host or way.problem:
            yield from judge_rows(group, reach.ROWS, way)
        if way.problem is None:
            told = yield from _rest(world, profile, transport, clock if login.host else None)
            if told.get("partitions", Answer()).ok:
                yield from reality.list_findings(_compared(world, name, transport), name)


def _way(login: Login) -> reach.ConnectionProgress:
    """Where ssh's configuration leads, before anything is sent."""
    from jobgen.transport.known_hosts import find_lines
    from jobgen.transport.route import find_route

    if not login.host:
        return reach.ConnectionProgress("this machine")
    begun = time.monotonic()
    try:
        target = find_route(login.host, login.user, login.port)
        through = [hop.host for hop in target.list_jumps()]
    except Unreachable as error:
        return reach.ConnectionProgress(login.host, problem=error.problems[0])
    known = [line.place for line in find_lines(target.known_name, target.known_hosts)]
    via = f", through {', '.join(through)}" if through else ""
    via = f"{via}, by a ProxyCommand" if target.proxy_command and not through else via
    return reach.ConnectionProgress(
        login.host,
        target=f"{target.user}@{target.hostname} port {target.port}{via}",
        key="the profile's fingerprint" if login.fingerprint else (known or [""])[0],
        took={"route": time.monotonic() - begun},
    )


def _first(
    transport: Transport, way: reach.ConnectionProgress
) -> tuple[reach.ConnectionProgress, Clock | None]:
    """The login shell wakes, and tells the time once it is awake."""
    begun = time.monotonic()
    try:
        transport.call(":", deadline=FIRST)
        took = {**way.took, **transport.took, "shell": time.monotonic() - begun}
        asked = time.time()
        answer = transport.call(questions.build_clock_script())
        clock = Clock(host.parse_time(answer.text), asked, time.time())
    except Unreachable as error:
        return way._replace(problem=error.problems[0]), None
    noise = transport.noise.decode("utf-8", "replace")
    return way._replace(took=took, noise=noise), clock


def _rest(
    world: World,
    profile: Loaded[ClusterProfile],
    transport: Transport,
    clock: Clock | None,
) -> Generator[Finding, None, Told]:
    value, root = profile.value, profile.value.paths.root
    on_slurm = value.scheduler == "slurm"
    script, refusal = build_trial(world, profile) if on_slurm else ("", "")
    asked = [questions.ask_shell(), *(questions.ask_slurm(script) if on_slurm else ())]
    told, lost = ask(transport, questions.build_script([*asked, *questions.ask_disk(root)]))
    there = f"Login host {value.ssh.host}" if value.ssh else "Commands on this machine"
    yield from judge_rows(there, host.ROWS, host.Host(told, clock, on_slurm))
    if on_slurm:
        site = slurm_checks.SlurmComparison(told, value, profile.cite, refusal)
        yield from judge_rows("Slurm", slurm_checks.ROWS, site)
    several = on_slurm and value.nodes.count > 1
    where = disk.DiskAnswers(told, root, profile.cite("paths", "root"), several)
    yield from judge_rows("Run directories", disk.ROWS, where)
    if lost:
        verdict = fail(lost.message, lost.hint, lost.code)
        yield Finding("host.connection", there, "the connection is kept", verdict)
        return {}
    return told


def _compared(world: World, name: str, transport: Transport) -> Comparison | Diagnostic:
    """How the profile compares with what Slurm tells; or why that cannot be said."""
    from jobgen.app import checking, site_survey

    try:
        return checking.check(world, name, known=site_survey.survey(transport)).comparison
    except JobgenError as error:
        return error.problems[0]


def ask(
    transport: Transport, script: str, deadline: float = questions.DEADLINE
) -> tuple[Told, Diagnostic | None]:
    """The answers that came, and what cut them off; nothing where no answer is missing."""
    held = bytearray()

    def keep(piece: bytes) -> None:
        held.extend(piece[: MOST - len(held)])

    lost = None
    try:
        transport.call(script, deadline=deadline, sink=keep)
    except Unreachable as error:
        lost = error.problems[0]
    return questions.parse_answers(wire.parse_complete_frames(bytes(held))), lost


def build_trial(world: World, profile: Loaded[ClusterProfile]) -> tuple[str, str]:
    """The script of a small job of this profile; or nothing, and why there is none."""
    from jobgen.load import load_job
    from jobgen.model.facts import Facts
    from jobgen.render import render
    from jobgen.render.shipped_templates import fill_shipped
    from jobgen.resolve import resolve

    try:
        plan = resolve(load_job(TRIAL, "the doctor's job"), profile, Facts())
        templates = world.open_catalog().read_templates(profile.value.scheduler)
        bundle = render(plan, templates, fill_shipped)
    except JobgenError as error:
        return "", str(error)
    entry = next(file for file in bundle.files if file.path == bundle.entry)
    return entry.content.decode(), ""
